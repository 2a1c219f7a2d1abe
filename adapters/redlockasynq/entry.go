package redlockasynq

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/hibiken/asynq"
	"github.com/robfig/cron/v3"
)

// entry is a periodic task with its schedule.
type entry struct {
	name     string // what its task IDs begin with
	schedule cron.Schedule
	location *time.Location
	task     *asynq.Task
	opts     []asynq.Option // with the retention, and without a TaskID
}

// newEntry returns the entry of a config. group keeps the names of one lock's entries apart from
// those of others.
func newEntry(
	group string, config *asynq.PeriodicTaskConfig, location *time.Location, retention time.Duration,
) (*entry, error) {
	if config == nil || config.Task == nil {
		return nil, errors.New("a periodic task's config, or its task, is nil")
	}
	if slices.Contains(config.Opts, nil) {
		return nil, fmt.Errorf("periodic task %q has an option that is nil", config.Task.Type())
	}
	schedule, err := parse(config.Cronspec)
	if err != nil {
		return nil, fmt.Errorf("periodic task %q has a bad schedule: %w", config.Task.Type(), err)
	}
	e := &entry{name: hashOf(group, config), schedule: schedule, location: location, task: config.Task}
	for _, opt := range config.Opts {
		switch opt.Type() {
		case asynq.TaskIDOpt:
			e.name, _ = opt.Value().(string)
		case asynq.RetentionOpt:
			own, _ := opt.Value().(time.Duration)
			retention = max(retention, own)
		default:
			e.opts = append(e.opts, opt)
		}
	}
	e.opts = append(e.opts, asynq.Retention(retention))
	return e, nil
}

// hashOf returns what tells an entry from others: what asynq's PeriodicTaskManager compares, and
// the group.
func hashOf(group string, config *asynq.PeriodicTaskConfig) string {
	parts := []string{group, config.Cronspec, config.Task.Type(), string(config.Task.Payload())}
	opts := make([]string, len(config.Opts))
	for i, opt := range config.Opts {
		opts[i] = opt.String()
	}
	slices.Sort(opts)
	hash := sha256.New()
	for _, part := range append(parts, opts...) {
		fmt.Fprintf(hash, "%d:%s", len(part), part)
	}
	return hex.EncodeToString(hash.Sum(nil)[:16])
}

// parse reads a schedule as asynq does. But "@every d" has the same ticks in every process: the
// multiples of d.
func parse(spec string) (cron.Schedule, error) {
	schedule, err := cron.ParseStandard(spec)
	if every, ok := schedule.(cron.ConstantDelaySchedule); ok {
		return aligned(every.Delay), err
	}
	return schedule, err
}

// aligned is a schedule whose ticks are the multiples of a duration since the year 1.
type aligned time.Duration

func (a aligned) Next(t time.Time) time.Time {
	return t.Truncate(time.Duration(a)).Add(time.Duration(a))
}

// next returns the first tick after t; the zero time if there is none.
func (e *entry) next(t time.Time) time.Time { return e.schedule.Next(t.In(e.location)) }

// tick is one scheduled time of an entry.
type tick struct {
	entry *entry
	due   time.Time
	tries int // that failed
}

// ticks appends the entry's ticks after from, and up to to.
func (e *entry) ticks(all []tick, from, to time.Time) []tick {
	for due := e.next(from); !due.IsZero() && !due.After(to); due = e.next(due) {
		all = append(all, tick{entry: e, due: due})
	}
	return all
}

// id returns the ID of the tick's task. Ticks are whole seconds apart.
func (t tick) id() string { return t.entry.name + "@" + t.due.UTC().Format(time.RFC3339) }

// opts returns the options of the tick's task.
func (t tick) opts() []asynq.Option {
	return append(slices.Clip(t.entry.opts), asynq.TaskID(t.id()))
}

// Tick returns the scheduled time of the task that an asynq.Handler runs with ctx. The task may run
// later: it waited in its queue, or its tick fell between two leaders. ok is false if Run did not
// enqueue the task.
func Tick(ctx context.Context) (due time.Time, ok bool) {
	id, _ := asynq.GetTaskID(ctx)
	at := strings.LastIndexByte(id, '@')
	if at < 0 {
		return time.Time{}, false
	}
	due, err := time.Parse(time.RFC3339, id[at+1:])
	return due, err == nil
}
