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
	"github.com/stretchr/testify/require"

	"github.com/redlock-go/redlock"
	"github.com/redlock-go/redlock/adapters/redlockgocron"
	"github.com/redlock-go/redlock/redlocktest"
)

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
