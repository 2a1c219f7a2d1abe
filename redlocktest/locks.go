package redlocktest

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"time"

	"github.com/redlock-go/redlock"
)

const (
	// clientTTL is shorter than the library's default, so that a loss is found sooner. It leaves a busy test
	// machine a quarter of a second for a vote.
	clientTTL = 5 * time.Second

	// maxWait bounds how long Hold waits for the lock, and Lose for a holder.
	maxWait = 10 * time.Second
)

// Client starts n nodes and returns a client over them, as Start and Nodes.Client do.
func Client(tb TB, n int, opts ...redlock.ClientOption) *redlock.Client {
	tb.Helper()
	return Start(tb, n).Client(tb, opts...)
}

// Client returns a client over the nodes that lives until tb's test is over. It has no restart guard, a ttl of
// 5 s and no log, unless opts say otherwise. It fails the test for a bad option.
func (n *Nodes) Client(tb TB, opts ...redlock.ClientOption) *redlock.Client {
	tb.Helper()
	defaults := []redlock.ClientOption{redlock.WithRestartGuard(0), redlock.WithTTL(clientTTL), redlock.WithLogger(nil)}
	client, err := redlock.Open(n.URLs(), append(defaults, opts...)...)
	if err != nil {
		tb.Fatalf("redlocktest: %v", err)
	}
	tb.Cleanup(func() { _ = client.Close() }) // its error is that nodes are stopped
	return client
}

// Hold acquires the mutex of this name for another client, with this label, as another process would. The client
// holds it until the lease is released or tb's test is over. Hold waits for a holder, and fails the test after 10 s.
// Options are the client's, as for Nodes.Client.
func (n *Nodes) Hold(tb TB, name, label string, opts ...redlock.ClientOption) *redlock.Lease {
	tb.Helper()
	client := n.Client(tb, append(opts[:len(opts):len(opts)], redlock.WithOwnerLabel(label))...)
	ctx, cancel := context.WithTimeout(context.Background(), maxWait)
	defer cancel()
	lease, err := client.Mutex(name).Lock(ctx)
	if err != nil {
		tb.Fatalf("redlocktest: hold: %v", err)
	}
	tb.Cleanup(func() { runtime.KeepAlive(lease) }) // a test may drop it: the library releases a lease that nobody can reach
	return lease
}

// Lose takes the lock of this name from its holder, its readers, or the holders of its permits, with
// redlock.Client.ForceUnlock. Their leases are lost at their next renewal, within a third of their ttl. Lose waits
// for a holder, and fails the test after 10 s. Options are those of the client that takes the lock: it needs the
// holder's prefix.
func (n *Nodes) Lose(tb TB, name string, opts ...redlock.ClientOption) {
	tb.Helper()
	client := n.Client(tb, opts...)
	ctx, cancel := context.WithTimeout(context.Background(), maxWait)
	defer cancel()
	var last error // of an attempt whose answers came too late
	for forced := false; ; time.Sleep(time.Millisecond) {
		found, err := takeFromHolders(ctx, client, name)
		if forced = forced || found; err == nil && forced {
			return // found or not: the nodes may have done what their answers did not say in time
		}
		if ctx.Err() == nil {
			last = err
			continue
		}
		if last == nil {
			last = fmt.Errorf("lock %q has no holder", name)
		}
		tb.Fatalf("redlocktest: lose: %v", last)
	}
}

// takeFromHolders takes the lock from those that hold it. found reports whether there were any.
func takeFromHolders(ctx context.Context, client *redlock.Client, name string) (found bool, err error) {
	s, err := client.Inspect(ctx, name)
	if err != nil {
		return false, err
	}
	held := heldLocks(&s)
	for _, lock := range held {
		_, failed := client.ForceUnlock(ctx, lock)
		err = errors.Join(err, failed)
	}
	return len(held) > 0, err
}

// heldLocks returns the locks that make up the holding: the name itself, or the slots of a semaphore.
func heldLocks(s *redlock.Status) (names []string) {
	if s.Holder != "" && !s.Resting || len(s.Readers) > 0 {
		names = append(names, s.Name)
	}
	for _, p := range s.Permits {
		names = append(names, fmt.Sprintf("%s#%d", s.Name, p.Slot))
	}
	return names
}
