// Cache keeps a report that takes long to build: many readers in several processes use it at
// the same time, and one process rebuilds it, alone.
//
//	go run ./examples/cache
//
// The readers hold shares of a lock for readers and writers. The builder holds the lock alone
// while it builds an edition. Then it downgrades its lease, and reads what it has built: the
// readers are let in beside it, and no other builder comes between.
//
// Builder and readers access the report with the tokens of their leases, and the report's
// keeper compares them. So a builder that was paused, and whose lease has ended, cannot write
// beneath a reader; and a reader that was paused does not get the edition of a later builder.
package main

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/redlock-go/redlock"
	"github.com/redlock-go/redlock/examples/internal/demo"
	"github.com/redlock-go/redlock/fence"
)

const (
	// ttl is how long a process that died keeps the others out.
	ttl = 5 * time.Second

	processes = 3
	readers   = 4 // of each process
	editions  = 3
	building  = 50 * time.Millisecond // how long an edition takes
	using     = 10 * time.Millisecond // how long a reader works with one
	patience  = 30 * time.Second      // of each caller; without the lock in this time something is broken
)

func main() { demo.Main(run) }

func run(ctx context.Context, d *demo.Demo) error {
	k := newKeeper(processes * readers)
	all, ctx := demo.NewGroup(ctx)
	for i := range processes {
		client, err := d.Open(ctx, fmt.Sprint("web-", i+1), redlock.WithTTL(ttl))
		if err != nil {
			return err
		}
		defer client.Close()
		for range readers {
			all.Go(func() error { return readAll(ctx, client.RWMutex("report", redlock.WithWait(patience)), k) })
		}
	}
	client, err := d.Open(ctx, "builder", redlock.WithTTL(ttl))
	if err != nil {
		return err
	}
	defer client.Close()
	all.Go(func() error { return buildAll(ctx, d, client.RWMutex("report", redlock.WithWait(patience)), k) })
	if err := all.Wait(); err != nil {
		return err
	}
	d.Say("%d readers in %d processes read %d times. In the end all of them held the lock together.",
		processes*readers, processes, k.reads)
	return nil
}

// buildAll builds one edition after the other.
func buildAll(ctx context.Context, d *demo.Demo, lock *redlock.RWMutex, k *keeper) error {
	for edition := 1; edition <= editions; {
		err := build(ctx, d, lock, k, edition)
		switch {
		case errors.Is(err, redlock.ErrLost), errors.Is(err, fence.ErrStale):
			// The builder was paused and its lease ended: it builds the edition again, under a new lease.
		case err != nil:
			return fmt.Errorf("edition %d: %w", edition, err)
		default:
			edition++
		}
	}
	return nil
}

// build builds an edition, alone, and reads it at once, beside the readers that it lets in.
func build(ctx context.Context, d *demo.Demo, lock *redlock.RWMutex, k *keeper, edition int) error {
	return lock.Do(ctx, func(ctx context.Context, lease *redlock.Lease) error {
		time.Sleep(building)
		if err := k.write(lease.Token(), edition); err != nil {
			return err
		}
		d.Say("The builder has built edition %d, alone.", edition)

		// From here on the builder must not write. If too few nodes answer, its lease is
		// a share all the same, and its renewals let the readers in at the others.
		if err := lease.Downgrade(ctx); err != nil && !errors.Is(err, redlock.ErrNoQuorum) {
			return err
		}
		if err := k.awaitReader(ctx, edition); err != nil {
			return err
		}
		found, err := k.read(lease.Token())
		if err != nil {
			return err
		}
		d.Say("The builder reads edition %d, beside other readers.", found)
		return nil
	})
}

// readAll reads again and again, until it has read the last edition.
func readAll(ctx context.Context, lock *redlock.RWMutex, k *keeper) error {
	for last := 0; last < editions; {
		edition, err := read(ctx, lock, k)
		switch {
		case errors.Is(err, redlock.ErrLost), errors.Is(err, fence.ErrStale): // it was paused: again
		case err != nil:
			return err
		case edition < last:
			return fmt.Errorf("edition %d was read after edition %d", edition, last)
		default:
			last = edition
		}
	}
	return nil
}

// read works with the present edition, beside other readers. The edition must not change
// meanwhile.
func read(ctx context.Context, lock *redlock.RWMutex, k *keeper) (edition int, err error) {
	err = lock.RDo(ctx, func(ctx context.Context, lease *redlock.Lease) error {
		edition, err = k.read(lease.Token())
		if err != nil {
			return err
		}
		k.count(edition)
		time.Sleep(using)
		again, err := k.read(lease.Token())
		switch {
		case err != nil:
			return err
		case again != edition:
			return fmt.Errorf("edition %d became edition %d under a reader", edition, again)
		case edition == editions:
			return k.awaitAll(ctx)
		}
		return nil
	})
	return edition, err
}
