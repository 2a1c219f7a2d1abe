package redlockasynq

import (
	"bytes"
	"context"
	"errors"
	"log/slog"
	"sync/atomic"
	"testing"
	"time"

	"github.com/alicebob/miniredis/v2"
	"github.com/hibiken/asynq"
	"github.com/redis/go-redis/v9"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/redlock-go/redlock"
	"github.com/redlock-go/redlock/redlocktest"
)

func TestBadSettingsAreErrConfig(t *testing.T) {
	client := openClient(t, redlocktest.Start(t, 3))
	mutex, nowhere := client.Mutex(lockName), asynq.RedisClientOpt{Addr: "localhost:1"}
	good := asynq.PeriodicTaskManagerOpts{PeriodicTaskConfigProvider: Tasks{}, RedisConnOpt: nowhere}
	noProvider := asynq.PeriodicTaskManagerOpts{RedisConnOpt: nowhere}
	noRedis := asynq.PeriodicTaskManagerOpts{PeriodicTaskConfigProvider: Tasks{}}
	assert.ErrorIs(t, Run(t.Context(), nil, window, good), redlock.ErrConfig)
	assert.ErrorIs(t, Run(t.Context(), mutex, time.Millisecond, good), redlock.ErrConfig)
	assert.ErrorIs(t, Run(t.Context(), client.Mutex(""), window, good), redlock.ErrConfig)
	assert.ErrorIs(t, Run(t.Context(), mutex, window, noProvider), redlock.ErrConfig)
	assert.ErrorIs(t, Run(t.Context(), mutex, window, noRedis), redlock.ErrConfig)
}

// A process that does not lead would start without a word, and lead one day.
func TestFixedTasksAreCheckedAtTheStart(t *testing.T) {
	client := openClient(t, redlocktest.Start(t, 3))
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	for text, tasks := range map[string]Tasks{
		`periodic task "b" has a bad schedule`: {named("@hourly", "a"), named("0 3 * *", "b")},
		`have the TaskID "a"`:                  {named("@hourly", "a"), named("@daily", "a")},
		"its task, is nil":                     {{Cronspec: "@hourly"}},
	} {
		err := Run(ctx, client.Mutex(lockName), window, asynq.PeriodicTaskManagerOpts{
			PeriodicTaskConfigProvider: tasks, RedisConnOpt: asynq.RedisClientOpt{Addr: "localhost:1"}})
		require.ErrorIs(t, err, redlock.ErrConfig)
		require.ErrorContains(t, err, text)
	}
}

func TestOneProcessEnqueuesAndAnotherGoesOn(t *testing.T) {
	nodes, queue := redlocktest.Start(t, 3), miniredis.RunT(t)
	opts := asynq.PeriodicTaskManagerOpts{
		RedisConnOpt:               asynq.RedisClientOpt{Addr: queue.Addr()},
		SchedulerOpts:              &asynq.SchedulerOpts{LogLevel: asynq.FatalLevel},
		PeriodicTaskConfigProvider: Tasks{named("@every 1s", "t")},
	}
	first := startMember(t, nodes, opts)
	<-first.asked
	second := startMember(t, nodes, opts)
	require.Eventually(t, func() bool { return len(dueTimes(t, queue)) >= 2 }, patience, poll)
	assert.Empty(t, second.asked, "a process that does not lead asks no provider")
	require.ErrorIs(t, first.stop(), context.Canceled)
	<-second.asked
	led := len(dueTimes(t, queue))
	require.Eventually(t, func() bool { return len(dueTimes(t, queue)) >= led+2 }, patience, poll)
	times := dueTimes(t, queue)
	for i := 1; i < len(times); i++ {
		require.Equal(t, time.Second, times[i].Sub(times[i-1]), "no tick is missing, and none is there twice")
	}
}

// dueTimes returns the ticks at asynq's Redis, the oldest first.
func dueTimes(t *testing.T, queue *miniredis.Miniredis) (times []time.Time) {
	t.Helper()
	ids, err := queue.List("asynq:{default}:pending")
	if err != nil {
		return nil
	}
	for i := len(ids) - 1; i >= 0; i-- {
		due, err := time.Parse(time.RFC3339, ids[i][len("t@"):])
		require.NoError(t, err)
		times = append(times, due)
	}
	return times
}

// changing is a provider that fails at times, and whose list grows.
type changing struct{ calls atomic.Int32 }

func (c *changing) GetConfigs() ([]*asynq.PeriodicTaskConfig, error) {
	if n := c.calls.Add(1); n == 1 || n == 3 {
		return nil, errors.New("the database is away")
	} else if n < 4 {
		return nil, nil
	}
	return Tasks{named("@every 1s", "t")}, nil
}

func TestTheProviderIsAskedAgainAndMayFail(t *testing.T) {
	queue, log := miniredis.RunT(t), &lines{}
	store := redis.NewClient(&redis.Options{Addr: queue.Addr()})
	defer store.Close()
	m := startMember(t, redlocktest.Start(t, 3), asynq.PeriodicTaskManagerOpts{
		RedisUniversalClient: store, SyncInterval: 20 * time.Millisecond, PeriodicTaskConfigProvider: &changing{},
		SchedulerOpts: &asynq.SchedulerOpts{Logger: log},
	})
	require.Eventually(t, func() bool { return len(dueTimes(t, queue)) >= 1 }, patience, poll)
	assert.Contains(t, log.String(), "GetConfigs failed, the tasks stay as they are: the database is away")
	require.ErrorIs(t, m.stop(), context.Canceled)
	assert.NoError(t, store.Ping(t.Context()).Err(), "the program's client is not closed")
}

func TestLinesBelowTheLevelAreNotLogged(t *testing.T) {
	for level, want := range map[asynq.LogLevel]string{
		0:                "i\nw\ne", // not set
		asynq.DebugLevel: "i\nw\ne",
		asynq.WarnLevel:  "w\ne",
		asynq.FatalLevel: "",
	} {
		got := &lines{}
		log := newLogger(&asynq.SchedulerOpts{Logger: got, LogLevel: level})
		log.infof("i")
		log.warnf("w")
		log.errorf("%s", "e")
		assert.Equal(t, want, got.String(), "level %d", level)
	}
}

func TestSlogsDefaultIsTheLoggerWithoutAnother(t *testing.T) {
	var got bytes.Buffer
	before := slog.Default()
	defer slog.SetDefault(before)
	slog.SetDefault(slog.New(slog.NewTextHandler(&got, nil)))
	newLogger(&asynq.SchedulerOpts{}).warnf("task %q", "a")
	assert.Contains(t, got.String(), "level=WARN")
	assert.Contains(t, got.String(), `task \"a\"`)
}
