package schedulers

import (
	"context"
	"errors"
	"time"

	"github.com/hibiken/asynq"

	"github.com/redlock-go/redlock/examples/schedulers/asynqlead"
)

const (
	asynqKind   = "asynq, RunScheduler"
	asynqPeriod = time.Second // "@every 1s" is due at each whole second

	// asynqApart is by how much asynq's clocks differ. asynq has no clock of its own that a test could set. But its schedule is the
	// same for a clock that is behind by a whole second: what differs is how the process calls its ticks.
	asynqApart  = time.Second
	asynqMargin = 1300 * time.Millisecond
)

// startAsynq takes part in the election of the process that enqueues tasks. A tick is recorded before its task is enqueued: so
// none that was enqueued is unknown, also if the process is killed.
func startAsynq(s settings, h *history) (func() error, error) {
	client, err := openClient(s, h)
	if err != nil {
		return nil, err
	}
	ctx, cancel := context.WithCancel(context.Background())
	result := make(chan error, 1)
	go func() {
		result <- asynqlead.RunScheduler(ctx, client, leaderName, asynqMargin, func(check func(*asynq.Task, []asynq.Option)) *asynq.Scheduler {
			return newAsynqScheduler(s, h, check)
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

func newAsynqScheduler(s settings, h *history, check func(*asynq.Task, []asynq.Option)) *asynq.Scheduler {
	scheduler := asynq.NewScheduler(asynq.RedisClientOpt{Addr: s.Queue}, &asynq.SchedulerOpts{
		LogLevel: asynq.FatalLevel,
		PreEnqueueFunc: func(task *asynq.Task, opts []asynq.Option) {
			tick := s.clock().tick(time.Now())
			check(task, opts)
			h.add(ran, tick)
		},
		PostEnqueueFunc: func(_ *asynq.TaskInfo, err error) {
			if err != nil {
				panic(err) // no fault strikes asynq's server
			}
			h.add(ended, 0)
		},
	})
	if _, err := scheduler.Register("@every 1s", asynq.NewTask(jobName, nil), asynq.Retention(time.Hour)); err != nil {
		panic(err)
	}
	return scheduler
}
