package schedulers

import (
	"context"
	"errors"
	"math/rand/v2"
	"time"

	"github.com/hibiken/asynq"

	"github.com/redlock-go/redlock/adapters/redlockasynq"
)

const (
	asynqKind   = "asynq, Run"
	asynqPeriod = time.Second // "@every 1s" is due at each whole second
	asynqSlots  = 4           // processes

	// asynqWindow is longer than it takes until another process leads, and so short that in a long
	// test the first tasks are no longer retained.
	asynqWindow = 25 * time.Second

	// maxHook is how long each hook takes at most, so that faults strike between a tick, its task
	// and the record.
	maxHook = 100 * time.Millisecond
)

// startAsynq takes part in the election of the process that enqueues tasks. The history serves to
// aim faults: it has each tick before its task is enqueued, or after that.
func startAsynq(s settings, h *history) (func() error, error) {
	client, err := openClient(s, h)
	if err != nil {
		return nil, err
	}
	ctx, cancel := context.WithCancel(context.Background())
	result, before := make(chan error, 1), false
	go func() {
		result <- redlockasynq.Run(ctx, client.Mutex(leaderName), asynqWindow, asynq.PeriodicTaskManagerOpts{
			RedisConnOpt:               asynq.RedisClientOpt{Addr: s.Queue},
			PeriodicTaskConfigProvider: redlockasynq.Tasks{{Cronspec: "@every 1s", Task: asynq.NewTask(jobName, nil)}},
			SchedulerOpts: &asynq.SchedulerOpts{
				LogLevel: asynq.FatalLevel,
				PreEnqueueFunc: func(*asynq.Task, []asynq.Option) {
					if before = rand.N(2) == 0; before {
						h.add(ran, s.clock().tick(time.Now()))
					}
					time.Sleep(rand.N(maxHook))
				},
				PostEnqueueFunc: func(*asynq.TaskInfo, error) {
					if !before {
						h.add(ran, s.clock().tick(time.Now()))
					}
					time.Sleep(rand.N(maxHook))
				},
			},
		})
	}()
	return func() error {
		cancel()
		err := <-result
		if errors.Is(err, context.Canceled) {
			err = nil
		}
		return errors.Join(err, client.Close())
	}, nil
}
