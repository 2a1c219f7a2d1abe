package redlockasynq

import (
	"testing"
	"time"

	"github.com/hibiken/asynq"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// tokyo is a time zone without daylight saving time.
var tokyo = time.FixedZone("Tokyo", 9*60*60)

func entryOf(t *testing.T, spec string, location *time.Location, opts ...asynq.Option) *entry {
	t.Helper()
	e, err := newEntry(lockName, periodic(spec, "report", opts...), location, window)
	require.NoError(t, err)
	return e
}

func TestTicksAreTheSameInEveryProcess(t *testing.T) {
	for _, c := range []struct {
		spec     string
		location *time.Location
		after    time.Time
		want     string
	}{
		{"@every 7s", time.UTC, noon.Add(3 * time.Second), "2026-03-01T12:00:10Z"},
		{"@every 7s", tokyo, noon.Add(9 * time.Second), "2026-03-01T12:00:10Z"},
		{"@every 7s", time.UTC, noon.Add(10 * time.Second), "2026-03-01T12:00:17Z"},
		{"@every 100ms", time.UTC, noon, "2026-03-01T12:00:01Z"}, // asynq's least
		{"@daily", time.UTC, noon, "2026-03-02T00:00:00Z"},
		{"@daily", tokyo, noon, "2026-03-01T15:00:00Z"},
		{"CRON_TZ=Asia/Tokyo 0 0 * * *", time.UTC, noon, "2026-03-01T15:00:00Z"},
		{"*/5 * * * *", time.UTC, noon.Add(time.Second), "2026-03-01T12:05:00Z"},
	} {
		due := entryOf(t, c.spec, c.location).next(c.after)
		assert.Equal(t, c.want, due.UTC().Format(time.RFC3339), "%s after %v", c.spec, c.after)
	}
}

func TestAScheduleWithoutTicksHasNone(t *testing.T) {
	assert.Empty(t, entryOf(t, "0 0 30 2 *", time.UTC).ticks(nil, noon, noon.Add(time.Hour)))
}

func TestEntriesThatDifferHaveIDsThatDiffer(t *testing.T) {
	ids := make(map[string]string)
	payload := func(text string) *asynq.PeriodicTaskConfig {
		return &asynq.PeriodicTaskConfig{Cronspec: "@hourly", Task: asynq.NewTask("t", []byte(text))}
	}
	for _, c := range []struct {
		what, group string
		config      *asynq.PeriodicTaskConfig
	}{
		{"the first", "a", payload("p")},
		{"another lock", "b", payload("p")},
		{"another payload", "a", payload("q")},
		{"no payload", "a", periodic("@hourly", "t")},
		{"another schedule", "a", periodic("@daily", "t")},
		{"another type", "a", periodic("@hourly", "u")},
		{"the first's bytes, cut elsewhere", "a", periodic("@hourly", "tp")},
		{"another queue", "a", periodic("@hourly", "t", asynq.Queue("q"))},
		{"a TaskID", "a", periodic("@hourly", "t", asynq.TaskID("id"))},
	} {
		e, err := newEntry(c.group, c.config, time.UTC, window)
		require.NoError(t, err)
		id := tick{entry: e, due: noon}.id()
		assert.Empty(t, ids[id], "%s has the ID of an earlier one", c.what)
		ids[id] = c.what
	}
	assert.Contains(t, ids, "id@2026-03-01T12:00:00Z")
}

func TestTheOrderOfOptionsDoesNotChangeAnID(t *testing.T) {
	one := entryOf(t, "@hourly", time.UTC, asynq.Queue("q"), asynq.MaxRetry(1))
	other := entryOf(t, "@hourly", tokyo, asynq.MaxRetry(1), asynq.Queue("q"))
	assert.Equal(t, one.name, other.name)
}

func TestTasksAreRetainedForTwiceTheWindowAtLeast(t *testing.T) {
	retention := func(e *entry) (d time.Duration) {
		for _, opt := range e.opts {
			if opt.Type() == asynq.RetentionOpt {
				d = opt.Value().(time.Duration)
			}
		}
		return d
	}
	assert.Equal(t, window, retention(entryOf(t, "@hourly", time.UTC)))
	assert.Equal(t, window, retention(entryOf(t, "@hourly", time.UTC, asynq.Retention(time.Second))))
	assert.Equal(t, time.Hour, retention(entryOf(t, "@hourly", time.UTC, asynq.Retention(time.Hour))))
}

func TestBadConfigsAreRefused(t *testing.T) {
	bad := []*asynq.PeriodicTaskConfig{nil, {Cronspec: "@hourly"}, periodic("", "t"), periodic("hourly", "t"),
		periodic("@hourly", "t", nil)}
	for _, config := range bad {
		_, err := newEntry(lockName, config, time.UTC, window)
		assert.Error(t, err)
	}
}
