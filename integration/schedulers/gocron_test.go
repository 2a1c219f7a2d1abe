package schedulers

import (
	"context"
	"errors"
	"math/rand/v2"
	"strings"
	"sync"
	"time"

	"github.com/go-co-op/gocron/v2"
	"github.com/go-redsync/redsync/v4"
	"github.com/go-redsync/redsync/v4/redis/redigo"
	"github.com/gomodule/redigo/redis"
	"github.com/jonboulle/clockwork"
	"github.com/robfig/cron/v3"

	"github.com/redlock-go/redlock"
	"github.com/redlock-go/redlock/adapters/redlockgocron"
)

const (
	ttl         = 3 * time.Second
	nodeTimeout = 300 * time.Millisecond
	minHold     = 1200 * time.Millisecond
	tolerance   = minHold / 4 // by how much an OnTime run may be early or late
	maxWork     = 300 * time.Millisecond

	spec       = "*/2 * * * * *" // with seconds
	specPeriod = 2 * time.Second
	jobName    = "job"
	leaderName = "leader"

	lockerKind  = "gocron, Locker.OnTime"
	anyTimeKind = "gocron, Locker"
	electorKind = "gocron, Elector"
	redsyncKind = "gocron, redsync on one server"
)

// lateClock is gocron's clock: it is behind.
type lateClock struct {
	clockwork.Clock
	behind time.Duration
}

func (c lateClock) Now() time.Time                  { return c.Clock.Now().Add(-c.behind) }
func (c lateClock) Since(t time.Time) time.Duration { return c.Now().Sub(t) }
func (c lateClock) Until(t time.Time) time.Duration { return t.Sub(c.Now()) }

// shiftedSchedule is the jobs' schedule by a clock that is behind. It keeps the tick that it returned last.
type shiftedSchedule struct {
	clock    clock
	schedule cron.Schedule
	asked    int64
}

func newShiftedSchedule(c clock) (*shiftedSchedule, error) {
	parser := cron.NewParser(cron.Second | cron.Minute | cron.Hour | cron.Dom | cron.Month | cron.Dow)
	schedule, err := parser.Parse(spec)
	return &shiftedSchedule{clock: c, schedule: schedule}, err
}

func (s *shiftedSchedule) Next(t time.Time) time.Time {
	next := s.schedule.Next(t.Add(-s.clock.behind)).Add(s.clock.behind)
	s.asked = s.clock.tick(next)
	return next
}

// job is the one job of a process, and what gocron asks whether to run it. gocron does not pass the scheduled time to
// either. But each grant is followed by one run, so the ticks of the grants are those of the runs.
type job struct {
	history *history
	lock    func(context.Context) (lock gocron.Lock, tick int64, err error)

	mu      sync.Mutex // protects what follows
	granted []int64    // ticks that did not run yet
}

// Lock is the Locker's. One call is made at a time.
func (j *job) Lock(ctx context.Context, _ string) (gocron.Lock, error) {
	j.mu.Lock()
	defer j.mu.Unlock()
	lock, tick, err := j.lock(ctx)
	if err != nil {
		j.history.add(outcome(err), tick)
		return nil, err
	}
	j.history.add(granted, tick)
	j.granted = append(j.granted, tick)
	return &recordedLock{lock, j.history, tick}, nil
}

// IsLeader is the Elector's.
func (j *job) IsLeader(ctx context.Context) error {
	_, err := j.Lock(ctx, "")
	return err
}

func outcome(err error) what {
	switch {
	case errors.Is(err, redlockgocron.ErrNotDue):
		return late
	case errors.Is(err, redlock.ErrNoQuorum):
		return failed
	}
	return refused
}

func (j *job) run() {
	j.mu.Lock()
	tick := j.granted[0]
	j.granted = j.granted[1:]
	j.mu.Unlock()
	j.history.add(ran, tick)
	if rand.N(2) == 0 { // else it takes no time
		time.Sleep(rand.N(maxWork))
	}
}

// recordedLock records the end of a run.
type recordedLock struct {
	gocron.Lock
	history *history
	tick    int64
}

func (l *recordedLock) Unlock(ctx context.Context) error {
	l.history.add(ended, l.tick)
	return l.Lock.Unlock(ctx)
}

// start runs the job by its schedule.
func (j *job) start(c clock, option gocron.SchedulerOption) (gocron.Scheduler, error) {
	scheduler, err := gocron.NewScheduler(gocron.WithClock(lateClock{clockwork.NewRealClock(), c.behind}), option)
	if err != nil {
		return nil, err
	}
	_, err = scheduler.NewJob(gocron.CronJob(spec, true), gocron.NewTask(j.run), gocron.WithName(jobName))
	if err != nil {
		return nil, err
	}
	scheduler.Start()
	return scheduler, nil
}

// startLocker runs the job under the adapter's Locker, which knows the schedule.
func startLocker(s settings, h *history) (func() error, error) {
	return startWithLocker(s, h, true)
}

// startAnyTime runs the job under the adapter's Locker, which does not know the schedule.
func startAnyTime(s settings, h *history) (func() error, error) {
	return startWithLocker(s, h, false)
}

func startWithLocker(s settings, h *history, onTime bool) (func() error, error) {
	client, err := openClient(s, h)
	if err != nil {
		return nil, err
	}
	locker, err := redlockgocron.NewLocker(client, minHold)
	if err != nil {
		return nil, err
	}
	j := &job{history: h}
	j.lock = func(ctx context.Context) (gocron.Lock, int64, error) {
		tick := s.clock().tick(time.Now())
		lock, err := locker.Lock(ctx, jobName)
		return lock, tick, err
	}
	if onTime {
		schedule, err := newShiftedSchedule(s.clock())
		if err != nil {
			return nil, err
		}
		inTime := locker.OnTime(schedule)
		j.lock = func(ctx context.Context) (gocron.Lock, int64, error) {
			lock, err := inTime.Lock(ctx, jobName)
			return lock, schedule.asked, err
		}
	}
	scheduler, err := j.start(s.clock(), gocron.WithDistributedLocker(j))
	if err != nil {
		return nil, err
	}
	return func() error { return errors.Join(scheduler.Shutdown(), client.Close()) }, nil
}

// noLock is the lock of a leader's run.
type noLock struct{}

func (noLock) Unlock(context.Context) error { return nil }

// startElector runs the job where the adapter's Elector leads.
func startElector(s settings, h *history) (func() error, error) {
	client, err := openClient(s, h)
	if err != nil {
		return nil, err
	}
	elector, err := redlockgocron.NewElector(client, leaderName, minHold)
	if err != nil {
		return nil, err
	}
	j := &job{history: h}
	j.lock = func(ctx context.Context) (gocron.Lock, int64, error) {
		return noLock{}, s.clock().tick(time.Now()), elector.IsLeader(ctx)
	}
	scheduler, err := j.start(s.clock(), gocron.WithDistributedElector(j))
	if err != nil {
		return nil, err
	}
	return func() error {
		err := scheduler.Shutdown()
		elector.Close()
		return errors.Join(err, client.Close())
	}, nil
}

// redsyncLock is the lock of gocron's own Redis locker: redsync's, with its release for the end of a run.
type redsyncLock struct{ mutex *redsync.Mutex }

func (l redsyncLock) Unlock(ctx context.Context) error {
	_, err := l.mutex.UnlockContext(ctx)
	return err
}

// startRedsync runs the job under a locker as gocron's own one is: redsync over one pool.
func startRedsync(s settings, h *history) (func() error, error) {
	address := strings.TrimPrefix(s.Nodes[0], "redis://")
	pool := &redis.Pool{Dial: func() (redis.Conn, error) {
		return redis.Dial("tcp", address, redis.DialConnectTimeout(nodeTimeout), redis.DialReadTimeout(nodeTimeout), redis.DialWriteTimeout(nodeTimeout))
	}}
	locks := redsync.New(redigo.NewPool(pool))
	j := &job{history: h}
	j.lock = func(ctx context.Context) (gocron.Lock, int64, error) {
		tick := s.clock().tick(time.Now())
		mutex := locks.NewMutex(jobName, redsync.WithTries(1), redsync.WithExpiry(ttl))
		return redsyncLock{mutex}, tick, mutex.LockContext(ctx)
	}
	scheduler, err := j.start(s.clock(), gocron.WithDistributedLocker(j))
	if err != nil {
		return nil, err
	}
	return func() error { return errors.Join(scheduler.Shutdown(), pool.Close()) }, nil
}
