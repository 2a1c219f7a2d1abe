// Migrate brings a database to a new version when a service starts, on many machines
// at once.
//
//	go run ./examples/migrate
//
// All wait for the lock; the first migrates, and the others find the migration done. The
// database keeps the token of the lease with its version, and refuses a lower one: so a
// machine that was paused in the middle, and lost its lease, cannot overwrite the work of the
// next one.
//
// If your database has transactional changes of its schema and locks of its own, use those
// instead.
package main

import (
	"context"
	"errors"
	"fmt"
	"sync/atomic"
	"time"

	"github.com/redlock-go/redlock"
	"github.com/redlock-go/redlock/examples/internal/demo"
	"github.com/redlock-go/redlock/fence"
)

const (
	ttl   = 5 * time.Second
	steps = 3
	step  = 50 * time.Millisecond
)

func main() { demo.Main(run) }

func run(ctx context.Context, d *demo.Demo) error {
	db := &database{}
	all, ctx := demo.NewGroup(ctx)
	for i := range 4 {
		all.Go(func() error { return start(ctx, d, fmt.Sprint("app-", i+1), db) })
	}
	if err := all.Wait(); err != nil {
		return err
	}
	d.Say("All have started. The database is at version %d after %d steps.", db.version.Load(), db.applied)
	return nil
}

// start is the beginning of a service: it serves when the database has its version. A machine
// that cannot get the lock in time must not serve.
func start(ctx context.Context, d *demo.Demo, name string, db *database) error {
	client, err := d.Open(ctx, name, redlock.WithTTL(ttl))
	if err != nil {
		return err
	}
	defer client.Close()
	ctx, cancel := context.WithTimeoutCause(ctx, 30*time.Second, errors.New("the migration takes too long"))
	defer cancel()
	err = client.Mutex("migrate:orders").Do(ctx, func(ctx context.Context, lease *redlock.Lease) error {
		if v := db.version.Load(); v >= steps {
			d.Say("%s finds version %d and starts.", name, v)
			return nil
		}
		for v := db.version.Load(); v < steps; v = db.version.Load() {
			if ctx.Err() != nil {
				return context.Cause(ctx) // the lease is lost: the next one goes on from here
			}
			if err := db.apply(lease.Token(), v+1); err != nil {
				return err
			}
			d.Say("%s brings the database to version %d.", name, v+1)
		}
		return nil
	})
	if err != nil {
		return fmt.Errorf("%s does not start: %w", name, err)
	}
	return nil
}

// database stands for a real one, which would keep the version and the token in one
// row, and change it in the transaction of each step. See package fence.
type database struct {
	guard   fence.Guard
	version atomic.Int64
	applied int // protected by guard
}

// apply makes one step, unless a later lease has made one.
func (d *database) apply(token, version int64) error {
	return d.guard.Do("schema", token, func() error {
		time.Sleep(step)
		d.version.Store(version)
		d.applied++
		return nil
	})
}
