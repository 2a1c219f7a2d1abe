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
	"fmt"
	"io"
	"os"
	"sync"
	"time"

	"github.com/redlock-go/redlock"
	"github.com/redlock-go/redlock/examples/internal/servers"
	"github.com/redlock-go/redlock/fence"
)

const (
	// ttl is how long the machines of a pipeline that died stay reserved.
	ttl = 5 * time.Second

	machines = 3 // and permits: all programs must give the same number
	takes    = 20 * time.Millisecond
	patience = 30 * time.Second // of each deployment; without an answer in this time something is broken
)

// services are what each pipeline deploys, and on how many machines.
var services = []struct {
	name     string
	machines int
}{{"shop", 1}, {"search", 2}, {"mail", 1}}

// pipelines are the processes that deploy.
var pipelines = []string{"pipeline-1", "pipeline-2", "pipeline-3", "pipeline-4"}

func main() {
	if err := run(context.Background(), os.Stdout); err != nil {
		fmt.Fprintln(os.Stderr, "deployments:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context, out io.Writer) error {
	nodes, err := servers.Start(out, 3)
	if err != nil {
		return err
	}
	defer nodes.Close()
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	f := newFleet()
	var all sync.WaitGroup
	defer all.Wait()
	for _, pipeline := range pipelines {
		client, err := nodes.Client(ctx, pipeline, redlock.WithTTL(ttl))
		if err != nil {
			return err
		}
		defer client.Close()
		for _, service := range services {
			all.Go(func() {
				if err := deploy(ctx, client, f, pipeline+"'s "+service.name, service.machines); err != nil {
					cancel(err)
				}
			})
		}
	}
	all.Wait()
	if ctx.Err() != nil {
		return context.Cause(ctx)
	}
	fmt.Fprintf(out, "%d deployments by %d pipelines; %d machines were busy at a time, at most.\n", f.done, len(pipelines), f.most)
	return nil
}

// deploy deploys a service on so many machines. It begins anew if the lease is lost before the
// deployment is done.
func deploy(ctx context.Context, client *redlock.Client, f *fleet, service string, n int) error {
	ctx, cancel := context.WithTimeoutCause(ctx, patience, errors.New("the deployment waits too long"))
	defer cancel()
	for {
		done := false
		err := client.Semaphore("deployments", machines).Do(ctx, n, func(ctx context.Context, lease *redlock.Lease) error {
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
		if done || !tooLate(err) {
			return err
		}
	}
}

// tooLate reports whether the permits were lost before the work was done, as happens to a process
// that is paused.
func tooLate(err error) bool {
	return errors.Is(err, redlock.ErrLost) || errors.Is(err, fence.ErrStale)
}
