// Workers lets several pools work on one list of items, each item under a lock of its
// own.
//
//	go run ./examples/workers
//
// A worker that finds an item locked goes on to the next one: it uses TryDo. It checks
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
	"time"

	"github.com/redlock-go/redlock"
	"github.com/redlock-go/redlock/examples/internal/demo"
)

const (
	pools   = 3 // processes
	workers = 2 // of each
	items   = 24
	work    = 20 * time.Millisecond
	ttl     = 5 * time.Second // how long a worker that died keeps its item from others
)

func main() { demo.Main(run) }

func run(ctx context.Context, d *demo.Demo) error {
	l := &list{done: make([]int, items), byPool: make([]int, pools)}
	all, ctx := demo.NewGroup(ctx)
	for pool := range pools {
		client, err := d.Open(ctx, fmt.Sprint("pool-", pool+1), redlock.WithTTL(ttl))
		if err != nil {
			return err
		}
		defer client.Close()
		for range workers {
			all.Go(func() error { return process(ctx, client, l, pool) })
		}
	}
	if err := all.Wait(); err != nil {
		return err
	}
	for pool, n := range l.byPool {
		d.Say("pool-%d did %d items.", pool+1, n)
	}
	d.Say("%d times an item was locked by somebody else, %d times it was done when the lock was granted.", l.locked, l.late)
	if err := l.verdict(); err != nil {
		return err
	}
	d.Say("Each of %d items was done once.", items)
	return nil
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
	err := client.Mutex(fmt.Sprint("item:", item)).TryDo(ctx, func(_ context.Context, lease *redlock.Lease) error {
		if l.isDone(item) {
			l.skip(&l.late)
			return nil
		}
		time.Sleep(work)
		if !lease.Valid() {
			return lease.Err()
		}
		l.finish(item, pool)
		return nil
	})
	switch {
	case errors.Is(err, redlock.ErrHeld):
		l.skip(&l.locked)
		return nil
	case errors.Is(err, redlock.ErrNoQuorum), errors.Is(err, redlock.ErrLost):
		return ctx.Err() // the next round looks at the item again
	default:
		return err
	}
}
