// Package redlockgocron lets several machines that have the same gocron schedule share its jobs, by locks
// of package redlock:
//
//   - Locker: at each scheduled time one machine runs the job.
//   - Elector: one machine runs all jobs, until it dies or is cut off.
//   - Task: the job gets a context that ends when its lock is lost. gocron itself cannot cancel a job for that.
//
// The only goroutines are an Elector's two, which NewElector starts and Close ends. An Elector's mutex is held
// for no call to the nodes.
package redlockgocron

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/redlock-go/redlock"
)

// DefaultMinHold suits schedules of ten seconds and more, on machines whose clocks NTP or the like keeps within
// a second, with a ttl of at least ten seconds, which is redlock's default.
const DefaultMinHold = 5 * time.Second

var errNoClient = fmt.Errorf("redlockgocron: %w: the client is nil; give the one of redlock.Open", redlock.ErrConfig)

// checkSettings returns the error of a mutex whose settings are bad; nil if they are good. It sends the nodes nothing, since
// its context has ended.
func checkSettings(m *redlock.Mutex) error {
	ended, cancel := context.WithCancel(context.Background())
	cancel()
	if _, err := m.TryLock(ended); errors.Is(err, redlock.ErrConfig) {
		return err
	}
	return nil
}

// endOf returns why ctx has ended, as an error that is both its Err and its cause.
func endOf(ctx context.Context) error {
	err, cause := ctx.Err(), context.Cause(ctx)
	if errors.Is(cause, err) {
		return cause
	}
	return fmt.Errorf("%w: %w", err, cause)
}
