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
	"io"
	"os"
	"sync"
	"time"

	"github.com/redlock-go/redlock"
	"github.com/redlock-go/redlock/examples/internal/servers"
	"github.com/redlock-go/redlock/fence"
)

const (
	ttl   = 5 * time.Second
	steps = 3
	step  = 50 * time.Millisecond
)

func main() {
	if err := run(context.Background(), os.Stdout); err != nil {
		fmt.Fprintln(os.Stderr, "migrate:", err)
		os.Exit(1)
	}
}

func run(ctx context.Context, out io.Writer) error {
	nodes, err := servers.Start(out, 3)
	if err != nil {
		return err
	}
	defer nodes.Close()
	db := &database{out: out}
	errs := make([]error, 4)
	var all sync.WaitGroup
	for i := range errs {
		name := fmt.Sprint("app-", i+1)
		client, err := nodes.Client(ctx, name, redlock.WithTTL(ttl))
		if err != nil {
			return err
		}
		defer client.Close()
		all.Go(func() { errs[i] = start(ctx, client, db, name) })
	}
	all.Wait()
	if err := errors.Join(errs...); err != nil {
		return err
	}
	fmt.Fprintf(out, "All have started. The database is at version %d after %d steps.\n", db.version, db.applied)
	return nil
}

// start is the beginning of a service: it serves when the database has its version. A machine
// that cannot get the lock in time must not serve.
func start(ctx context.Context, client *redlock.Client, db *database, name string) error {
	ctx, cancel := context.WithTimeoutCause(ctx, 30*time.Second, errors.New("the migration takes too long"))
	defer cancel()
	err := client.Mutex("migrate:orders").Do(ctx, func(ctx context.Context, lease *redlock.Lease) error {
		if v := db.at(); v >= steps {
			db.say("%s finds version %d and starts.", name, v)
			return nil
		}
		for v := db.at(); v < steps; v = db.at() {
			if ctx.Err() != nil {
				return context.Cause(ctx) // the lease is lost: the next one goes on from here
			}
			if err := db.apply(lease.Token(), v+1); err != nil {
				return err
			}
			db.say("%s brings the database to version %d.", name, v+1)
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
	guard fence.Guard

	mu      sync.Mutex // protects what follows
	out     io.Writer
	version int
	applied int
}

func (d *database) at() int {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.version
}

// apply makes one step, unless a later lease has made one.
func (d *database) apply(token int64, version int) error {
	return d.guard.Do("schema", token, func() error {
		time.Sleep(step)
		d.mu.Lock()
		defer d.mu.Unlock()
		d.version = version
		d.applied++
		return nil
	})
}

func (d *database) say(format string, args ...any) {
	d.mu.Lock()
	defer d.mu.Unlock()
	fmt.Fprintf(d.out, format+"\n", args...)
}
