// Deployments lets three deployments run at a time, whatever the number of pipelines that want to
// deploy.
//
//	go run ./examples/deployments
//
// The pipelines run in several processes, and share a semaphore with three permits. A permit is a lease on
// one of three slots; the slots stand for three build machines, so a pipeline that has slot 2 uses
// machine 2, and knows that nobody else does. A service that is large takes two machines at once: it
// waits in the same queue, and small ones that come later do not pass it.
//
// Each machine compares tokens. Those of different slots have no order, so each machine keeps its own
// number: Lease.Slots has them.
package main

import (
	"context"
	"errors"
	"time"

	"github.com/redlock-go/redlock"
	"github.com/redlock-go/redlock/examples/internal/demo"
	"github.com/redlock-go/redlock/fence"
)

const (
	// ttl is how long the machines of a pipeline that died stay reserved.
	ttl = 5 * time.Second

	machines = 3 // and permits: all programs must give the same number
	takes    = 20 * time.Millisecond
	patience = 30 * time.Second // of each deployment; without the permits in this time something is broken
)

// services are what each pipeline deploys, and on how many machines.
var services = []struct {
	name     string
	machines int
}{{"shop", 1}, {"search", 2}, {"mail", 1}}

// pipelines are the processes that deploy.
var pipelines = []string{"pipeline-1", "pipeline-2", "pipeline-3", "pipeline-4"}

func main() { demo.Main(run) }

func run(ctx context.Context, d *demo.Demo) error {
	f := newFleet()
	all, ctx := demo.NewGroup(ctx)
	for _, pipeline := range pipelines {
		client, err := d.Open(ctx, pipeline, redlock.WithTTL(ttl))
		if err != nil {
			return err
		}
		defer client.Close()
		for _, service := range services {
			all.Go(func() error { return deploy(ctx, client, f, pipeline+"'s "+service.name, service.machines) })
		}
	}
	if err := all.Wait(); err != nil {
		return err
	}
	d.Say("%d deployments by %d pipelines; %d machines were busy at a time, at most.", f.done, len(pipelines), f.most)
	return nil
}

// deploy deploys a service on so many machines.
func deploy(ctx context.Context, client *redlock.Client, f *fleet, service string, n int) error {
	permits := client.Semaphore("deployments", machines, redlock.WithWait(patience))
	for {
		done := false
		err := permits.Do(ctx, n, func(ctx context.Context, lease *redlock.Lease) error {
			if err := f.begin(lease.Slots(), lease.Token(), service); err != nil {
				return err
			}
			select {
			case <-time.After(takes):
			case <-ctx.Done(): // the permits are lost, or the program ends
				return context.Cause(ctx)
			}
			err := f.finish(lease.Slots(), lease.Token())
			done = err == nil
			return err
		})
		switch {
		case done:
			return nil // even if the permits were lost behind it: the machines have accepted the token
		case errors.Is(err, redlock.ErrLost), errors.Is(err, fence.ErrStale):
			// The pipeline was paused and lost its permits: it begins anew, with others.
		default:
			return err
		}
	}
}
