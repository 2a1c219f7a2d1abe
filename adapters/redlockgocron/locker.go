package redlockgocron

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/go-co-op/gocron/v2"

	"github.com/redlock-go/redlock"
)

// prefix keeps the names of jobs apart from other locks of the same nodes.
const prefix = "gocron:"

// ErrNotDue occurs when an OnTime locker is asked at an instant that is too far from every scheduled time.
var ErrNotDue = errors.New("the job is not due now")

// Locker is a gocron.Locker for gocron.WithDistributedLocker, or for gocron.WithDistributedJobLocker where gocron has
// it. It is safe for concurrent use.
type Locker struct {
	client  *redlock.Client
	minHold time.Duration
	opts    []redlock.LockOption
}

// NewLocker returns a Locker over a client's nodes. The client must outlive the scheduler.
//
// The lock of a run stays taken for at least minHold, however short the job is: see redlock.WithMinHold. So a
// machine that asks later, because its clock is behind, finds the lock taken, and does not run the job again. minHold must be
// longer than the time between the first machine that asks at a scheduled time and the last one. It must be shorter than the
// time between two runs, less that difference, and no longer than the ttl. See DefaultMinHold.
//
// opts are the locks' own, such as redlock.WithTTL; else they are the client's. Settings that redlock refuses are an error
// that is redlock.ErrConfig, such as a minHold of 0, or one above the ttl; so is a nil client.
func NewLocker(client *redlock.Client, minHold time.Duration, opts ...redlock.LockOption) (*Locker, error) {
	if client == nil {
		return nil, errNoClient
	}
	l := &Locker{client, minHold, append(slices.Clone(opts), redlock.WithMinHold(minHold))}
	if err := checkSettings(l.mutex("")); err != nil {
		return nil, err
	}
	return l, nil
}

func (l *Locker) mutex(job string) *redlock.Mutex { return l.client.Mutex(prefix+job, l.opts...) }

// Lock takes the lock of a run, without waiting: gocron calls it when the job is due, and skips the run if
// it returns an error. The lock's name is "gocron:" and the job's name. The lease renews itself while the job runs.
//
// Errors: those of redlock's TryLock. ErrHeld means that another machine runs the job, or has just run it, or that this one does; a
// *redlock.HeldError names the machine. redlock.ErrConfig also for the job of a Task that has no name of its own: see Task.
func (l *Locker) Lock(ctx context.Context, job string) (gocron.Lock, error) {
	if job == taskName {
		return nil, fmt.Errorf("redlockgocron: %w: job %q has the name that gocron gives to all Tasks, so it would share its lock with them: "+
			"name it with gocron.WithName", redlock.ErrConfig, job)
	}
	lease, err := l.mutex(job).TryLock(ctx)
	if err != nil {
		return nil, err
	}
	return lease, nil
}

// Schedule is when a job is due. The schedules of robfig/cron/v3, whose parser gocron uses for CronJob, are such.
type Schedule interface {
	// Next returns the first scheduled time after t; the zero time if there is none.
	Next(t time.Time) time.Time
}

// OnTime returns a Locker of the same locks for jobs of one schedule. It refuses a run that begins more than a quarter of the
// minimum hold before or after a scheduled time. Without it a machine that was suspended, or whose
// runs wait for each other, asks for the lock long after the scheduled time, when the lock is free again, and runs the job a
// second time. With it each scheduled time has one run at most, if the machines' clocks differ by no more than half of the
// minimum hold, less the ttl's drift allowance.
//
// The schedule must be the job's, in the time zone of time.Now or one of its own, and the same on all machines. Its times must be
// further apart than the minimum hold.
//
// Errors of Lock: ErrNotDue, for such a run; those of Locker.Lock; redlock.ErrConfig if the schedule is nil.
func (l *Locker) OnTime(schedule Schedule) gocron.Locker { return &onTime{l, schedule} }

// onTime is a Locker that knows when its job is due.
type onTime struct {
	locker   *Locker
	schedule Schedule
}

// Lock checks the time twice: the process may be suspended in between, and the lock then acquired late.
func (o *onTime) Lock(ctx context.Context, job string) (gocron.Lock, error) {
	if o.schedule == nil {
		return nil, fmt.Errorf("redlockgocron: job %q: %w: the schedule is nil; give OnTime that of the job", job, redlock.ErrConfig)
	}
	due := o.schedule.Next(time.Now().Add(-o.tolerance() - time.Nanosecond))
	if err := o.check(job, due); err != nil {
		return nil, err
	}
	lock, err := o.locker.Lock(ctx, job)
	if err != nil {
		return nil, err
	}
	if err := o.check(job, due); err != nil {
		return nil, errors.Join(err, lock.Unlock(ctx))
	}
	return lock, nil
}

// tolerance is by how much a run may be early or late. Two tolerances and the clocks' difference must be less than
// the minimum hold.
func (o *onTime) tolerance() time.Duration { return o.locker.minHold / 4 }

// check returns an error if it is too early or too late for the run that was due then. A timer that was set long ago may be early
// by the wall clock, which NTP slows down and speeds up.
func (o *onTime) check(job string, due time.Time) error {
	now := time.Now()
	if due.IsZero() || now.Sub(due).Abs() > o.tolerance() {
		return fmt.Errorf("redlockgocron: job %q at %v: %w: no scheduled time is within %v; a machine that was suspended, or that "+
			"is too busy, leaves the run to others", job, now.Format(time.RFC3339Nano), ErrNotDue, o.tolerance())
	}
	return nil
}
