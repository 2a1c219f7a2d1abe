// Workers lets several pools work on one list of items, each item under a lock of its
// own.
//
//	go run ./examples/workers
//
// A worker that finds an item locked goes on to the next one: it uses TryLock. It checks
// whether the item is done after it has got the lock: a check before that may be out of date
// when the lock is granted.
//
// With a database that can skip locked rows you need this only for work outside of the
// database.
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
)

const (
	pools   = 3 // processes
	workers = 2 // of each
	items   = 24
	work    = 20 * time.Millisecond
	ttl     = 5 * time.Second // how long a worker that died keeps its item from others
)

func main() {
	if err := run(context.Background(), os.Stdout); err != nil {
		fmt.Fprintln(os.Stderr, "workers:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context, out io.Writer) error {
	nodes, err := servers.Start(out, 3)
	if err != nil {
		return err
	}
	defer nodes.Close()
	l := &list{done: make([]int, items), byPool: make([]int, pools)}
	errs := make([]error, pools*workers)
	var all sync.WaitGroup
	for pool := range pools {
		client, err := nodes.Client(ctx, fmt.Sprint("pool-", pool+1), redlock.WithTTL(ttl))
		if err != nil {
			return err
		}
		defer client.Close()
		for worker := range workers {
			slot := pool*workers + worker
			all.Go(func() { errs[slot] = process(ctx, client, l, pool) })
		}
	}
	all.Wait()
	if err := errors.Join(errs...); err != nil {
		return err
	}
	for pool, n := range l.byPool {
		fmt.Fprintf(out, "pool-%d did %d items.\n", pool+1, n)
	}
	fmt.Fprintf(out, "%d times an item was locked by somebody else, %d times it was done when the lock was granted.\n", l.locked, l.late)
	return l.verdict(out)
}

// process goes over the list, from its pool's part on, until all is done.
func process(ctx context.Context, client *redlock.Client, l *list, pool int) error {
	for !l.finished() {
		for i := range items {
			if err := one(ctx, client, l, pool, (pool*items/pools+i)%items); err != nil {
				return err
			}
		}
	}
	return nil
}

// one works on an item, unless another worker does or has done so.
func one(ctx context.Context, client *redlock.Client, l *list, pool, item int) error {
	lease, err := client.Mutex(fmt.Sprint("item:", item)).TryLock(ctx)
	switch {
	case errors.Is(err, redlock.ErrHeld):
		l.skip(&l.locked)
		return nil
	case errors.Is(err, redlock.ErrNoQuorum):
		return ctx.Err() // too few nodes answered: the next round tries again
	case err != nil:
		return err
	}
	if l.isDone(item) {
		l.skip(&l.late)
		return release(ctx, lease)
	}
	time.Sleep(work)
	if !lease.Valid() {
		return nil // the present holder does the work
	}
	l.finish(item, pool)
	return release(ctx, lease)
}

// release releases the lock. If too few nodes confirm that, the client repeats the release at
// the others later, and the work is done all the same.
func release(ctx context.Context, lease *redlock.Lease) error {
	if err := lease.Unlock(ctx); !errors.Is(err, redlock.ErrNoQuorum) {
		return err
	}
	return nil
}
