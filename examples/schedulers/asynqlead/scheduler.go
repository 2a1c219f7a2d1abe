// Package asynqlead runs an asynq Scheduler on one of several machines, and on another one when that dies. It is to be copied.
package asynqlead

import (
	"context"
	"runtime"
	"time"

	"github.com/hibiken/asynq"

	"github.com/redlock-go/redlock"
)

// RunScheduler runs schedulers while this machine leads, until ctx ends; it returns the cause of that. newScheduler makes one for
// each term, and must give check to it as its PreEnqueueFunc: check ends the enqueuing of a task where this machine may not lead for
// margin any more. So no tick is enqueued twice if the machines' clocks differ by less than margin; half of the ttl is a good margin.
func RunScheduler(ctx context.Context, client *redlock.Client, name string, margin time.Duration,
	newScheduler func(check func(*asynq.Task, []asynq.Option)) *asynq.Scheduler) error {
	return client.Mutex(name).Lead(ctx, func(ctx context.Context, lease *redlock.Lease) error {
		scheduler := newScheduler(func(*asynq.Task, []asynq.Option) {
			if lease.Remaining() < margin {
				runtime.Goexit() // asynq has no other way to refuse; it ends the goroutine that cron started for this tick
			}
		})
		if err := scheduler.Start(); err != nil {
			return err
		}
		<-ctx.Done()
		scheduler.Shutdown()
		select { // the next leader's clock may be behind: it begins when that has passed the last tick, too
		case <-time.After(margin):
		case <-lease.Done():
		}
		return context.Cause(ctx)
	})
}
