// Package robfig runs a job of robfig/cron/v3 once at each scheduled time, though several machines have the same schedule. It is
// to be copied.
package robfig

import (
	"context"
	"log/slog"
	"time"

	"github.com/robfig/cron/v3"

	"github.com/redlock-go/redlock"
)

// Exclusive wraps a job of that schedule. minHold must be more than twice the difference of the machines' clocks, less than the
// schedule's period, and at most the ttl. A run that would begin more than minHold/4 late is left to
// the other machines: this one was suspended, and they have run the job.
func Exclusive(client *redlock.Client, name string, schedule cron.Schedule, minHold time.Duration) cron.JobWrapper {
	lock := client.Mutex(name, redlock.WithMinHold(minHold))
	return func(job cron.Job) cron.Job {
		return cron.FuncJob(func() {
			due := schedule.Next(time.Now().Add(-minHold / 4))
			isDue := func() bool { return time.Since(due).Abs() <= minHold/4 }
			if !isDue() {
				return
			}
			lease, err := lock.TryLock(context.Background())
			if err != nil { // ErrHeld: another machine runs the job, or has just run it
				slog.Info("this machine does not run the job", "job", name, "error", err)
				return
			}
			defer lease.Unlock(context.Background()) // the lock rests until minHold is over
			if isDue() {
				job.Run()
			}
		})
	}
}
