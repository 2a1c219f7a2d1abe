package redlockgocron_test

import (
	"context"
	"errors"
	"sync/atomic"
	"testing"
	"time"

	"github.com/go-co-op/gocron/v2"
	"github.com/jonboulle/clockwork"
	"github.com/robfig/cron/v3"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/redlock-go/redlock"
	"github.com/redlock-go/redlock/adapters/redlockgocron"
	"github.com/redlock-go/redlock/redlocktest"
)

func TestATasksContextEndsWithItsLease(t *testing.T) {
	client := openClient(t, redlocktest.Start(t, 3), "machine")
	begun, causes := make(chan int64, 1), make(chan error, 2)
	task := redlockgocron.Task(client.Mutex("report"), func(ctx context.Context, lease *redlock.Lease) error {
		begun <- lease.Token()
		<-ctx.Done()
		causes <- context.Cause(ctx)
		return nil
	})
	startScheduler(t, gocron.OneTimeJob(gocron.OneTimeJobStartImmediately()), gocron.NewTask(func() { causes <- task(t.Context()) }))
	require.Positive(t, <-begun)
	_, err := client.ForceUnlock(t.Context(), "report")
	require.NoError(t, err)
	require.ErrorIs(t, <-causes, redlock.ErrLost, "what ended the context")
	require.ErrorIs(t, <-causes, redlock.ErrLost, "what the function returned")
}

func TestATaskWaitsForTheRunBefore(t *testing.T) {
	nodes := redlocktest.Start(t, 3)
	before, err := openClient(t, nodes, "before").Mutex("report").Lock(t.Context())
	require.NoError(t, err)
	client := openClient(t, nodes, "machine")
	ended := make(chan error, 1)
	task := redlockgocron.Task(client.Mutex("report"), func(context.Context, *redlock.Lease) error { return before.Err() })
	go func() { ended <- task(t.Context()) }()
	require.Eventually(t, func() bool {
		status, err := client.Inspect(t.Context(), "report")
		return err == nil && len(status.Queue) == 1
	}, patience, poll)
	require.NoError(t, before.Unlock(t.Context()))
	require.ErrorIs(t, <-ended, redlock.ErrReleased)
}

// gocron names a job after its function, which all Tasks have in common: of two Tasks that are due at the same time
// one would be skipped.
func TestALockerRefusesTasksWithoutNamesOfTheirOwn(t *testing.T) {
	client := openClient(t, redlocktest.Start(t, 1), "machine")
	type answer struct {
		job string
		err error
	}
	answers := make(chan answer, 3)
	locker := newLocker(t, client, redlockgocron.DefaultMinHold)
	scheduler, err := gocron.NewScheduler(gocron.WithDistributedLocker(lockerFunc(func(ctx context.Context, job string) (gocron.Lock, error) {
		lock, err := locker.Lock(ctx, job)
		answers <- answer{job, err}
		return lock, err
	})))
	require.NoError(t, err)
	t.Cleanup(func() { assert.NoError(t, scheduler.Shutdown()) })
	var runs atomic.Int32
	for _, opts := range [][]gocron.JobOption{nil, nil, {gocron.WithName("report")}} {
		task := redlockgocron.Task(client.Mutex("ledger"), func(context.Context, *redlock.Lease) error {
			runs.Add(1)
			return nil
		})
		_, err := scheduler.NewJob(gocron.OneTimeJob(gocron.OneTimeJobStartImmediately()), gocron.NewTask(task, t.Context()), opts...)
		require.NoError(t, err)
	}
	scheduler.Start()
	for range 3 {
		if got := <-answers; got.job != "report" {
			require.ErrorIs(t, got.err, redlock.ErrConfig, got.job)
			require.ErrorContains(t, got.err, "gocron.WithName")
		} else {
			require.NoError(t, got.err)
		}
	}
	require.Eventually(t, func() bool { return runs.Load() == 1 }, patience, poll)
}

const hourly = "0 * * * *"

// startHourly starts a scheduler with a job that is due each hour, and returns the job.
func startHourly(t *testing.T, run func(), opts ...gocron.SchedulerOption) gocron.Job {
	t.Helper()
	return startScheduler(t, gocron.CronJob(hourly, false), gocron.NewTask(run), opts...)
}

func TestRunNowSaysWhetherTheJobRuns(t *testing.T) {
	locker := newLocker(t, openClient(t, redlocktest.Start(t, 3), "machine"), redlockgocron.DefaultMinHold)
	ran := make(chan struct{}, 2)
	job := startHourly(t, func() { ran <- struct{}{} }, gocron.WithDistributedLocker(locker))
	require.NoError(t, locker.RunNow(within(t), job))
	<-ran
	require.NoError(t, job.RunNow(), "gocron itself does not say that it skips a run")
	var held *redlock.HeldError
	require.ErrorAs(t, locker.RunNow(within(t), job), &held)
	require.Equal(t, "machine", held.Label)
	require.Empty(t, ran)
}

func TestRunNowSaysThatAJobIsNotDue(t *testing.T) {
	locker := newLocker(t, openClient(t, redlocktest.Start(t, 3), "machine"), redlockgocron.DefaultMinHold)
	var runs atomic.Int32
	never := schedule(func(time.Time) time.Time { return time.Time{} })
	job := startHourly(t, func() { runs.Add(1) }, gocron.WithDistributedLocker(locker.OnTime(never)))
	require.ErrorIs(t, locker.RunNow(within(t), job), redlockgocron.ErrNotDue)
	require.Zero(t, runs.Load())
}

func TestRunNowEndsWithItsContextIfGocronDoesNotAsk(t *testing.T) {
	locker := newLocker(t, openClient(t, redlocktest.Start(t, 3), "machine"), redlockgocron.DefaultMinHold)
	stops := errors.New("the program stops")
	ctx, cancel := context.WithCancelCause(t.Context())
	job := startHourly(t, func() { cancel(stops) }) // without the locker
	err := locker.RunNow(ctx, job)
	require.ErrorIs(t, err, context.Canceled)
	require.ErrorIs(t, err, stops)

	lock, err := locker.Lock(t.Context(), job.Name())
	require.NoError(t, err, "nobody awaits the answer any more")
	require.NoError(t, lock.Unlock(t.Context()))
}

func TestOnTimeGoesByTheClockOfItsScheduler(t *testing.T) {
	client := openClient(t, redlocktest.Start(t, 3), "machine", redlock.WithTTL(time.Minute))
	locker := newLocker(t, client, 40*time.Second)
	clock := clockwork.NewFakeClockAt(time.Date(2026, time.March, 1, 12, 30, 0, 0, time.Local))
	schedule, err := cron.ParseStandard(hourly)
	require.NoError(t, err)
	ran := make(chan time.Time, 1)
	job := startHourly(t, func() { ran <- clock.Now() }, gocron.WithClock(clock),
		gocron.WithDistributedLocker(locker.OnTime(schedule, redlockgocron.WithClock(clock))))
	require.ErrorIs(t, locker.RunNow(within(t), job), redlockgocron.ErrNotDue, "it is half past twelve")
	clock.BlockUntil(1) // gocron's timer
	clock.Advance(30 * time.Minute)
	select {
	case at := <-ran:
		require.Equal(t, 13, at.Hour())
	case <-time.After(patience):
		t.Error("it does not run at one o'clock")
	}

	_, err = locker.OnTime(schedule, redlockgocron.WithClock(nil)).Lock(t.Context(), "report")
	require.ErrorIs(t, err, redlock.ErrConfig)
}
