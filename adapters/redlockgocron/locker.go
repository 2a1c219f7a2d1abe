package redlockgocron

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
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

	mu      sync.Mutex              // protects what follows
	runsNow map[string][]chan error // the calls of RunNow that await an answer, by the job's name
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
	l := &Locker{client: client, minHold: minHold, opts: append(slices.Clone(opts), redlock.WithMinHold(minHold)),
		runsNow: make(map[string][]chan error)}
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
	lock, err := l.lock(ctx, job)
	l.answer(job, err)
	return lock, err
}

func (l *Locker) lock(ctx context.Context, job string) (gocron.Lock, error) {
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

// RunNow runs a job of this Locker, or of its OnTime, by the job's own RunNow, and returns nil when the run has its lock. gocron's
// RunNow alone returns nil also if the run is skipped, as it is within the minimum hold of the last one.
//
// Errors: those of Lock, ErrNotDue among them; those of gocron's RunNow; ctx's Err and cause if gocron has not asked for the lock by then.
func (l *Locker) RunNow(ctx context.Context, job gocron.Job) error {
	name, answered := job.Name(), make(chan error, 1)
	l.mu.Lock()
	l.runsNow[name] = append(l.runsNow[name], answered)
	l.mu.Unlock()
	defer l.forget(name, answered)
	if err := job.RunNow(); err != nil {
		return fmt.Errorf("redlockgocron: job %q: %w", name, err)
	}
	select {
	case err := <-answered:
		return err
	case <-ctx.Done():
		return fmt.Errorf("redlockgocron: job %q: gocron has not asked for its lock: it waits for another run, or its scheduler has "+
			"another Locker: %w", name, endOf(ctx))
	}
}

// answer gives the answer to a job's Lock to those that await it.
func (l *Locker) answer(job string, err error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, answered := range l.runsNow[job] {
		answered <- err // it has room for one
	}
	delete(l.runsNow, job)
}

// forget ends a call of RunNow.
func (l *Locker) forget(job string, answered chan error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	left := slices.DeleteFunc(l.runsNow[job], func(c chan error) bool { return c == answered })
	if l.runsNow[job] = left; len(left) == 0 {
		delete(l.runsNow, job)
	}
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
// Errors of Lock: ErrNotDue, for such a run; those of Locker.Lock; redlock.ErrConfig if the schedule or a clock is nil.
func (l *Locker) OnTime(schedule Schedule, opts ...OnTimeOption) gocron.Locker {
	o := &onTime{l, schedule, wallClock{}}
	for _, opt := range opts {
		opt(o)
	}
	return o
}

// OnTimeOption changes a setting of Locker.OnTime.
type OnTimeOption func(*onTime)

// Clock tells the time. clockwork.Clock, which gocron.WithClock takes, is one.
type Clock interface{ Now() time.Time }

// WithClock gives OnTime the clock that the scheduler has by gocron.WithClock, such as a fake one in tests. Default: the machine's.
// The lock's ttl and minimum hold go on by the real time.
func WithClock(clock Clock) OnTimeOption {
	return func(o *onTime) { o.clock = clock }
}

// wallClock is the machine's clock.
type wallClock struct{}

func (wallClock) Now() time.Time { return time.Now() }

// onTime is a Locker that knows when its job is due.
type onTime struct {
	locker   *Locker
	schedule Schedule
	clock    Clock
}

func (o *onTime) Lock(ctx context.Context, job string) (gocron.Lock, error) {
	lock, err := o.lock(ctx, job)
	o.locker.answer(job, err)
	return lock, err
}

// lock checks the time twice: the process may be suspended in between, and the lock then acquired late.
func (o *onTime) lock(ctx context.Context, job string) (gocron.Lock, error) {
	switch {
	case o.schedule == nil:
		return nil, fmt.Errorf("redlockgocron: job %q: %w: the schedule is nil; give OnTime that of the job", job, redlock.ErrConfig)
	case o.clock == nil:
		return nil, fmt.Errorf("redlockgocron: job %q: %w: the clock is nil; give WithClock that of the scheduler", job, redlock.ErrConfig)
	}
	due := o.schedule.Next(o.now().Add(-o.tolerance() - time.Nanosecond))
	if err := o.check(job, due); err != nil {
		return nil, err
	}
	lock, err := o.locker.lock(ctx, job)
	if err != nil {
		return nil, err
	}
	if err := o.check(job, due); err != nil {
		return nil, errors.Join(err, lock.Unlock(ctx))
	}
	return lock, nil
}

// now returns the time in the zone of time.Now, in which the schedule is.
func (o *onTime) now() time.Time { return o.clock.Now().Local() }

// tolerance is by how much a run may be early or late. Two tolerances and the clocks' difference must be less than
// the minimum hold.
func (o *onTime) tolerance() time.Duration { return o.locker.minHold / 4 }

// check returns an error if it is too early or too late for the run that was due then. A timer that was set long ago may be early
// by the wall clock, which NTP slows down and speeds up.
func (o *onTime) check(job string, due time.Time) error {
	now := o.now()
	if due.IsZero() || now.Sub(due).Abs() > o.tolerance() {
		return fmt.Errorf("redlockgocron: job %q at %v: %w: no scheduled time is within %v; a machine that was suspended, or that "+
			"is too busy, leaves the run to others", job, now.Format(time.RFC3339Nano), ErrNotDue, o.tolerance())
	}
	return nil
}
