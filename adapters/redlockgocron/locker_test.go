package redlockgocron_test

import (
	"context"
	"sync/atomic"
	"testing"
	"time"

	"github.com/go-co-op/gocron/v2"
	"github.com/gomodule/redigo/redis"
	"github.com/robfig/cron/v3"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/redlock-go/redlock"
	"github.com/redlock-go/redlock/adapters/redlockgocron"
	"github.com/redlock-go/redlock/internal/test/testclient"
	"github.com/redlock-go/redlock/redlocktest"
)

// schedule is a Schedule that is due at an instant of the test's choice.
type schedule func(after time.Time) time.Time

func (s schedule) Next(after time.Time) time.Time { return s(after) }

func dueIn(d time.Duration) schedule {
	return func(time.Time) time.Time { return time.Now().Add(d) }
}

func newLocker(t *testing.T, client *redlock.Client, minHold time.Duration, opts ...redlock.LockOption) *redlockgocron.Locker {
	t.Helper()
	locker, err := redlockgocron.NewLocker(client, minHold, opts...)
	require.NoError(t, err)
	return locker
}

func TestLockerLetsOneMachineRunAJobThatIsShort(t *testing.T) {
	nodes := redlocktest.Start(t, 3)
	client := openClient(t, nodes, "first")
	first := newLocker(t, client, redlockgocron.DefaultMinHold)
	second := newLocker(t, openClient(t, nodes, "second"), redlockgocron.DefaultMinHold)

	lock, err := first.Lock(t.Context(), "report")
	require.NoError(t, err)
	status, err := client.Inspect(t.Context(), "gocron:report")
	require.NoError(t, err)
	assert.Equal(t, "first", status.Label, "the lock's name is the job's, with a prefix")

	var refusal *redlock.HeldError
	_, err = second.Lock(t.Context(), "report")
	require.ErrorAs(t, err, &refusal)
	assert.Equal(t, "first", refusal.Label)
	assert.False(t, refusal.Resting)

	ended, cancel := context.WithCancel(t.Context())
	cancel()
	require.NoError(t, lock.Unlock(ended), "gocron ends the job's context when the scheduler stops")
	_, err = second.Lock(t.Context(), "report")
	require.ErrorAs(t, err, &refusal)
	assert.True(t, refusal.Resting, "the minimum hold is not over")

	lock, err = second.Lock(t.Context(), "another job")
	require.NoError(t, err)
	require.NoError(t, lock.Unlock(t.Context()))
}

func TestLockerReturnsNoLockWithAnError(t *testing.T) {
	nodes := redlocktest.Start(t, 1)
	locker := newLocker(t, openClient(t, nodes, "machine"), time.Second)
	nodes.Stop(0)
	lock, err := locker.Lock(t.Context(), "report")
	require.ErrorIs(t, err, redlock.ErrNoQuorum)
	require.Nil(t, lock)
}

func TestBadSettingsAreRefusedWithoutACallToTheNodes(t *testing.T) {
	client := testclient.OpenUnready(t, redlocktest.Start(t, 1).URLs()) // it has asked nothing
	for name, make := range map[string]func(time.Duration, ...redlock.LockOption) error{
		"locker": func(d time.Duration, opts ...redlock.LockOption) error {
			_, err := redlockgocron.NewLocker(client, d, opts...)
			return err
		},
		"elector": func(d time.Duration, opts ...redlock.LockOption) error {
			_, err := redlockgocron.NewElector(client, "leader", d, opts...)
			return err
		},
	} {
		require.ErrorIs(t, make(0), redlock.ErrConfig, name)
		require.ErrorIs(t, make(-time.Second), redlock.ErrConfig, name)
		require.ErrorIs(t, make(testclient.TTL+time.Second), redlock.ErrConfig, "%s: longer than the client's ttl", name)
		require.ErrorIs(t, make(time.Second, redlock.WithTTL(0)), redlock.ErrConfig, name)
	}
	newLocker(t, client, 11*time.Second, redlock.WithTTL(20*time.Second))
	stats := client.Stats()
	assert.Zero(t, stats.Acquired+stats.Held+stats.NoQuorum, "attempts")
	votes := stats.Nodes[0]
	assert.Zero(t, votes.Granted+votes.Refused+votes.Unknown+votes.NotSent, "votes")
}

// gocron would end the program, at the first scheduled time, if Lock panicked.
func TestMissingClientsAndSchedulesAreRefused(t *testing.T) {
	_, err := redlockgocron.NewLocker(nil, time.Second)
	require.ErrorIs(t, err, redlock.ErrConfig)
	_, err = redlockgocron.NewElector(nil, "leader", time.Second)
	require.ErrorIs(t, err, redlock.ErrConfig)
	locker := newLocker(t, openClient(t, redlocktest.Start(t, 1), "machine"), time.Second)
	lock, err := locker.OnTime(nil).Lock(t.Context(), "report")
	require.ErrorIs(t, err, redlock.ErrConfig)
	require.ErrorContains(t, err, "report")
	require.Nil(t, lock)
}

func TestOnTimeRunsNearAScheduledTimeOnly(t *testing.T) {
	client := openClient(t, redlocktest.Start(t, 1), "machine", redlock.WithTTL(time.Minute))
	locker := newLocker(t, client, 40*time.Second) // so a run may be early or late by ten seconds
	for name, c := range map[string]struct {
		due   schedule
		wants error
	}{
		"in time":           {dueIn(0), nil},
		"late":              {dueIn(-5 * time.Second), nil},
		"early":             {dueIn(5 * time.Second), nil},
		"too late":          {dueIn(-15 * time.Second), redlockgocron.ErrNotDue},
		"too early":         {dueIn(15 * time.Second), redlockgocron.ErrNotDue},
		"it is never again": {func(time.Time) time.Time { return time.Time{} }, redlockgocron.ErrNotDue},
	} {
		lock, err := locker.OnTime(c.due).Lock(t.Context(), name)
		require.ErrorIs(t, err, c.wants, name)
		require.Equal(t, err == nil, lock != nil, name)
		if lock != nil {
			require.NoError(t, lock.Unlock(t.Context()))
		}
	}
	_, err := locker.OnTime(dueIn(0)).Lock(t.Context(), "in time")
	require.ErrorIs(t, err, redlock.ErrHeld)
}

func TestOnTimeAsksTheScheduleForTheTimeJustBefore(t *testing.T) {
	client := openClient(t, redlocktest.Start(t, 1), "machine", redlock.WithTTL(time.Minute))
	hourly, err := cron.ParseStandard("@hourly")
	require.NoError(t, err)
	locker := newLocker(t, client, 40*time.Second)
	for shift, wants := range map[time.Duration]error{5 * time.Second: nil, 15 * time.Second: redlockgocron.ErrNotDue, -15 * time.Second: redlockgocron.ErrNotDue} {
		// The hour is a few seconds ago, or ahead.
		now := time.Now()
		behind := now.Sub(now.Truncate(time.Hour)) - shift
		shifted := schedule(func(after time.Time) time.Time { return hourly.Next(after.Add(-behind)).Add(behind) })
		_, err := locker.OnTime(shifted).Lock(t.Context(), shift.String())
		require.ErrorIs(t, err, wants, shift)
	}
}

// The process is suspended between its look at the clock and its request, as it were: its connection takes that long.
func TestOnTimeGivesALockBackThatCameTooLate(t *testing.T) {
	const minHold = 4 * time.Second
	nodes := redlocktest.Start(t, 1)
	slow := &redis.Pool{DialContext: func(ctx context.Context) (redis.Conn, error) {
		time.Sleep(minHold/4 + 200*time.Millisecond)
		return redis.DialURLContext(ctx, nodes.URLs()[0])
	}}
	t.Cleanup(func() { assert.NoError(t, slow.Close()) })
	client := testclient.NewUnready(t, []redlock.Pool{slow}) // its first connection is slow

	lock, err := newLocker(t, client, minHold).OnTime(dueIn(0)).Lock(t.Context(), "report")
	require.ErrorIs(t, err, redlockgocron.ErrNotDue)
	require.Nil(t, lock)
	status, err := client.Inspect(t.Context(), "gocron:report")
	require.NoError(t, err)
	require.True(t, status.Resting || status.Holder == "", "it was given back: %+v", status)
	require.Positive(t, status.Token, "it was acquired")
}

// countingLocker counts how often a scheduler asks.
type countingLocker struct {
	gocron.Locker
	asked atomic.Int32
}

func (l *countingLocker) Lock(ctx context.Context, job string) (gocron.Lock, error) {
	defer l.asked.Add(1)
	return l.Locker.Lock(ctx, job)
}

func TestTwoSchedulersShareTheRunsOfAJob(t *testing.T) {
	nodes := redlocktest.Start(t, 3)
	var runs atomic.Int32
	var lockers []*countingLocker
	for _, machine := range []string{"first", "second"} {
		locker := newLocker(t, openClient(t, nodes, machine), 600*time.Millisecond)
		lockers = append(lockers, &countingLocker{Locker: locker})
		startScheduler(t, gocron.CronJob("* * * * * *", true), gocron.NewTask(func() { runs.Add(1) }),
			gocron.WithDistributedLocker(lockers[len(lockers)-1]))
	}
	require.Eventually(t, func() bool {
		return runs.Load() >= 2 && lockers[0].asked.Load() >= 3 && lockers[1].asked.Load() >= 3
	}, patience, poll, "a scheduler goes on asking after a refusal")
	assert.Less(t, runs.Load(), lockers[0].asked.Load()+lockers[1].asked.Load(), "some were refused")
}
