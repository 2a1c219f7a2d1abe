package main

import (
	"context"
	"sync"
	"time"

	"github.com/redlock-go/redlock/fence"
)

// keeper stands for the process that keeps the report, which all others call. It compares the
// token of each access in one step with the access.
type keeper struct {
	guard   fence.Guard
	edition int // of the report; protected by guard
	readers int // that there are

	mu    sync.Mutex // protects what follows
	reads int
	begun map[int]int // how many readers have begun to work with an edition
	done  int         // readers that have done their work with the last edition, and hold their shares
}

func newKeeper(readers int) *keeper {
	return &keeper{readers: readers, begun: make(map[int]int)}
}

// read returns the present edition to the holder of a share, unless a later builder has written.
func (k *keeper) read(token int64) (edition int, err error) {
	err = k.guard.Read("report", token, func() error {
		edition = k.edition
		return nil
	})
	return edition, err
}

// write takes an edition from the holder of a lease that is not shared, unless a later builder
// has written, or a later reader has read.
func (k *keeper) write(token int64, edition int) error {
	return k.guard.Write("report", token, func() error {
		k.edition = edition
		return nil
	})
}

// count records that a reader has begun to work with an edition.
func (k *keeper) count(edition int) {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.reads++
	k.begun[edition]++
}

// awaitReader returns when a reader works with the edition.
func (k *keeper) awaitReader(ctx context.Context, edition int) error {
	return k.await(ctx, func() bool { return k.begun[edition] > 0 })
}

// awaitAll returns when all readers have done their work with the last edition. All of them
// hold shares until then.
func (k *keeper) awaitAll(ctx context.Context) error {
	k.mu.Lock()
	k.done++
	k.mu.Unlock()
	err := k.await(ctx, func() bool { return k.done == k.readers })
	if err != nil {
		k.mu.Lock()
		k.done--
		k.mu.Unlock()
	}
	return err
}

// await returns when the condition, which is called under k.mu, is true. It returns ctx's cause
// if that ends before.
func (k *keeper) await(ctx context.Context, condition func() bool) error {
	for ; ; time.Sleep(time.Millisecond) {
		k.mu.Lock()
		is := condition()
		k.mu.Unlock()
		switch {
		case is:
			return nil
		case ctx.Err() != nil:
			return context.Cause(ctx)
		}
	}
}
