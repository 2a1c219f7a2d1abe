// Export copies a table for as long as nobody else needs it: the exporter lets go of the lock when
// another caller wants it, and goes on when it gets the lock again.
//
//	go run ./examples/export
//
// An export takes long, and a report that needs the same table should not wait for all of it. Without WithWanted
// the exporter would have to release the lock after every chunk, in case somebody waits; or hold it to
// the end. With it the exporter looks at Lease.Wanted between two chunks, which costs nothing. It
// lets go only if a report waits, and stands behind that in the wait queue then.
//
// An operator can ask for the same: redlock ask table, or Client.Ask. Nobody is forced: an exporter
// that does not look at Wanted keeps the lock. The position of the export is kept with the table, under the
// lease's token, so an exporter that comes too late copies no chunk twice.
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
	// ttl is how long an exporter that died keeps the reports out.
	ttl = 5 * time.Second

	chunks  = 60                    // of the table
	copying = 5 * time.Millisecond  // how long one chunk takes
	reports = 4                     // that are made meanwhile
	pause   = 20 * time.Millisecond // from the end of a report to the beginning of the next one

	patience = 30 * time.Second // of each caller; without the lock in this time something is broken
)

// table is what the lock protects.
type table struct {
	guard    fence.Guard
	chunks   int
	exported int  // of the chunks, in their order
	copying  bool // a chunk is being copied: nobody else may look at the table
	reports  int
}

func main() { demo.Main(run) }

func run(ctx context.Context, d *demo.Demo) error {
	exporter, err := d.Open(ctx, "exporter", redlock.WithTTL(ttl))
	if err != nil {
		return err
	}
	defer exporter.Close()
	reporter, err := d.Open(ctx, "reporter", redlock.WithTTL(ttl))
	if err != nil {
		return err
	}
	defer reporter.Close()

	t := &table{chunks: chunks}
	reported := make(chan error, 1)
	go func() { reported <- t.reportAll(ctx, reporter) }()
	turns, err := t.exportAll(ctx, exporter)
	if err := errors.Join(err, <-reported); err != nil {
		return err
	}
	d.Say("%d chunks were exported in %d turns, and %d reports made.", t.exported, turns, t.reports)
	return nil
}

// exportAll exports the table, in as many turns as others want it meanwhile.
func (t *table) exportAll(ctx context.Context, client *redlock.Client) (turns int, err error) {
	for done := false; !done; turns++ {
		done, err = t.exportTurn(ctx, client)
		switch {
		case errors.Is(err, redlock.ErrLost), errors.Is(err, fence.ErrStale):
			// The exporter was paused and its lease ended: it goes on in another turn.
		case err != nil:
			return turns, err
		}
	}
	return turns, nil
}

// exportTurn exports chunks until all are done, or somebody else wants the lock.
func (t *table) exportTurn(ctx context.Context, client *redlock.Client) (done bool, err error) {
	lease, err := client.Mutex("table", redlock.WithWanted(), redlock.WithWait(patience)).Lock(ctx)
	if err != nil {
		return false, err
	}
	defer lease.Unlock(ctx)
	for {
		if done, err = t.exportChunk(lease); done || err != nil {
			return done, err
		}
		select {
		case <-lease.Wanted():
			return false, nil
		case <-lease.Done():
			return false, lease.Err()
		case <-ctx.Done():
			return false, context.Cause(ctx)
		default:
		}
	}
}

// exportChunk copies the next chunk, unless a later holder of the lock came before. It reports whether that was
// the last one.
func (t *table) exportChunk(lease *redlock.Lease) (done bool, err error) {
	err = t.guard.Write("table", lease.Token(), func() error {
		t.copying = true
		time.Sleep(copying)
		t.copying = false
		t.exported++
		done = t.exported == t.chunks
		return nil
	})
	return done, err
}

// reportAll makes one report after the other.
func (t *table) reportAll(ctx context.Context, client *redlock.Client) error {
	for range reports {
		time.Sleep(pause)
		if err := t.report(ctx, client); err != nil {
			return err
		}
	}
	return nil
}

func (t *table) report(ctx context.Context, client *redlock.Client) error {
	return client.Mutex("table", redlock.WithWait(patience)).Do(ctx, func(_ context.Context, lease *redlock.Lease) error {
		return t.guard.Write("table", lease.Token(), func() error {
			if t.copying {
				return errors.New("a chunk is being copied")
			}
			t.reports++
			return nil
		})
	})
}
