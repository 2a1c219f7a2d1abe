package redlockasynq

import (
	"context"
	"fmt"
	"time"

	"github.com/hibiken/asynq"
	"github.com/redis/go-redis/v9"

	"github.com/redlock-go/redlock"
)

// DefaultWindow suits most schedules: another process leads within seconds, and no task waits for
// minutes.
const DefaultWindow = 5 * time.Minute

const (
	minWindow           = time.Second
	defaultSyncInterval = 3 * time.Minute // asynq's
)

// Tasks is a fixed list of periodic tasks, for programs that call asynq's Scheduler.Register. It is
// an asynq.PeriodicTaskConfigProvider.
type Tasks []*asynq.PeriodicTaskConfig

// GetConfigs returns the list, and no error.
func (t Tasks) GetConfigs() ([]*asynq.PeriodicTaskConfig, error) { return t, nil }

// Run enqueues periodic tasks while this process leads, until ctx ends. All processes call it with
// a Mutex of the same name; one of them leads. A tick is enqueued up to window late, after a change
// of leaders or a failure of asynq's Redis; tasks are retained for at least twice the window. opts
// are those of asynq.NewPeriodicTaskManager. See README.md.
//
// Errors: those of Mutex.Lead, so ctx's Err and cause; redlock.ErrConfig for bad settings, Tasks with a bad
// schedule and equal ones among them. Other failures end a term, and Run goes on.
func Run(ctx context.Context, mutex *redlock.Mutex, window time.Duration, opts asynq.PeriodicTaskManagerOpts) error {
	if err := checkSettings(mutex, window, opts); err != nil {
		return err
	}
	store, closeStore, err := openStore(opts)
	if err != nil {
		return err
	}
	defer closeStore()
	if opts.SchedulerOpts == nil {
		opts.SchedulerOpts = &asynq.SchedulerOpts{}
	}
	if opts.SyncInterval <= 0 {
		opts.SyncInterval = defaultSyncInterval
	}
	return mutex.Lead(ctx, func(ctx context.Context, lease *redlock.Lease) error {
		return newTerm(lease, store, window, opts).run(ctx)
	})
}

func checkSettings(mutex *redlock.Mutex, window time.Duration, opts asynq.PeriodicTaskManagerOpts) error {
	remedy := ""
	switch {
	case mutex == nil:
		remedy = "the mutex is nil; give one of redlock.Client.Mutex"
	case window < minWindow:
		remedy = fmt.Sprintf("the window is %v; give at least %v, such as DefaultWindow", window, minWindow)
	case opts.PeriodicTaskConfigProvider == nil:
		remedy = "the PeriodicTaskConfigProvider is nil; give one, such as Tasks"
	case opts.RedisConnOpt == nil && opts.RedisUniversalClient == nil:
		remedy = "RedisConnOpt and RedisUniversalClient are nil; give one of them"
	default:
		tasks, _ := opts.PeriodicTaskConfigProvider.(Tasks)
		err := checkTasks(tasks)
		if err == nil {
			return nil
		}
		remedy = err.Error()
	}
	return fmt.Errorf("redlockasynq: %w: %s", redlock.ErrConfig, remedy)
}

// checkTasks returns what is wrong with a fixed list: else the log of the process that leads alone would say so.
func checkTasks(tasks Tasks) error {
	names := make(map[string]bool)
	for _, config := range tasks {
		e, err := newEntry("", config, time.UTC, 0)
		if err == nil && names[e.name] {
			err = fmt.Errorf("two periodic tasks are equal, or have the TaskID %q", e.name)
		}
		if err != nil {
			return err
		}
		names[e.name] = true
	}
	return nil
}

// openStore returns the client of asynq's Redis, and what closes it if it is not the caller's.
func openStore(opts asynq.PeriodicTaskManagerOpts) (store redis.UniversalClient, closeStore func() error, err error) {
	if opts.RedisUniversalClient != nil {
		return opts.RedisUniversalClient, func() error { return nil }, nil
	}
	store, ok := opts.RedisConnOpt.MakeRedisClient().(redis.UniversalClient)
	if !ok {
		return nil, nil, fmt.Errorf("redlockasynq: %w: RedisConnOpt %T makes no redis.UniversalClient",
			redlock.ErrConfig, opts.RedisConnOpt)
	}
	return store, store.Close, nil
}
