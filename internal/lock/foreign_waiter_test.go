package lock_test

import (
	"context"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/redlock-go/redlock"
	"github.com/redlock-go/redlock/internal/protocol"
	"github.com/redlock-go/redlock/internal/test/long"
	"github.com/redlock-go/redlock/internal/test/testhook"
	"github.com/redlock-go/redlock/internal/test/testnet"
)

// waiterKeys are the kinds of keys that a waiter has at a node, or that stand beside its lock, and whether one of another type
// keeps it from the lock.
var waiterKeys = map[string]bool{"queue": true, "slots": true, "alive": false, "parked": false, "wants": false,
	"asked": false, "watched": false, "doubts": false, "full": false, "split": false, "record": true}

// takeAt makes an attempt that waits, and one that does not, for a lock of each primitive.
var takeAt = map[string]struct {
	lock func(ctx context.Context, c *redlock.Client) (*redlock.Lease, error)
	name string // of the key that the waiter's keys name
}{
	"mutex": {func(ctx context.Context, c *redlock.Client) (*redlock.Lease, error) { return c.Mutex("x").Lock(ctx) }, "redlock:x"},
	"reader": {func(ctx context.Context, c *redlock.Client) (*redlock.Lease, error) {
		return c.RWMutex("x").RLocker().Lock(ctx)
	}, "redlock:x"},
	"set": {func(ctx context.Context, c *redlock.Client) (*redlock.Lease, error) {
		return c.Multi([]string{"x", "y"}).Lock(ctx)
	}, "redlock:x"},
	"permits": {func(ctx context.Context, c *redlock.Client) (*redlock.Lease, error) {
		return c.Semaphore("s", 2).Acquire(ctx, 2)
	}, protocol.Key("slots", "redlock:s")},
	"told": {func(ctx context.Context, c *redlock.Client) (*redlock.Lease, error) {
		return c.Mutex("x", redlock.WithWanted()).Lock(ctx)
	}, "redlock:x"},
}

// keyOfWaiter returns the key of a kind of the waiter that stands in the queue of a lock.
func keyOfWaiter(t *testing.T, n *testnet.Node, kind, lock string, waiter *redlock.Client) string {
	t.Helper()
	queue := lock
	if !strings.HasPrefix(lock, protocol.Key("slots", "")) {
		queue = protocol.Key("queue", lock)
	}
	tickets, err := n.Redis.ZMembers(queue)
	require.NoError(t, err)
	require.Len(t, tickets, 1)
	switch kind {
	case "queue", "slots":
		return queue
	case "alive":
		return protocol.Key("alive", testhook.Engine(waiter).ID)
	case "parked", "wants":
		return protocol.Key(kind, tickets[0])
	case "record":
		return n.Record()
	}
	return protocol.Key(kind, lock)
}

// Another program puts a key of another type in place of each that a waiter has, while it waits. The holder's release goes
// through, Inspect shows the lock, and the waiter gets it, or an error that names the cause. When the key is gone, nothing of
// ours is left.
func TestForeignKeysWhileACallerWaits(t *testing.T) {
	for name, take := range takeAt {
		for kind, blocks := range waiterKeys {
			if ofPermits := kind == "slots" || kind == "full" || kind == "split"; name == "permits" && kind == "queue" || name != "permits" && ofPermits {
				continue
			}
			for of, put := range foreignTypes {
				if !long.Tests() && of != "a list" {
					continue
				}
				t.Run(name+", "+of+" at "+kind, func(t *testing.T) {
					testnet.InBubble(t, 3, func(t *testing.T, net *testnet.Net) {
						c := net.Guarded(redlock.WithTTL(3 * time.Second))
						replaceAndRelease(t, net, c, name, kind, blocks, put)
						if kind == "record" {
							time.Sleep(30 * time.Second) // a majority that lost its records waits for so long
						}
						lease, err := take.lock(t.Context(), c)
						require.NoError(t, err)
						require.NoError(t, lease.Unlock(t.Context()))
						time.Sleep(10 * time.Second)
						for _, n := range net.Nodes {
							for _, key := range n.Keys() {
								require.Regexp(t, `^redlock::(record|quarantine|newest|format|alive)`, key)
								require.True(t, !strings.HasPrefix(key, protocol.Key("alive", "")) || n.Redis.TTL(key) > 0, "%s ends", key)
							}
						}
					})
				})
			}
		}
	}
}

// replaceAndRelease replaces a waiter's key while it waits for c's lease, releases that, and deletes the key when the waiter
// has its lock, or an error.
func replaceAndRelease(t *testing.T, net *testnet.Net, c *redlock.Client, name, kind string, blocks bool, put func(*testnet.Node, string)) {
	d := net.NewClient(redlock.WithTTL(3*time.Second), redlock.WithRestartGuard(time.Millisecond))
	take, holder, inspected := takeAt[name], takeAt[name], "x"
	switch name {
	case "reader":
		holder = takeAt["mutex"]
	case "permits":
		inspected = "s"
	}
	held, err := holder.lock(t.Context(), c)
	require.NoError(t, err)
	synctest.Wait() // a majority granted the lock: the last node must grant it before the waiter asks
	ctx, stop := context.WithTimeout(t.Context(), 10*time.Second)
	defer stop()
	over := make(chan error, 1)
	go func() {
		lease, err := take.lock(ctx, d)
		if err == nil {
			err = lease.Unlock(t.Context())
		}
		over <- err
	}()
	time.Sleep(300 * ms)
	synctest.Wait()
	keys := make([]string, len(net.Nodes))
	for i, n := range net.Nodes {
		keys[i] = keyOfWaiter(t, n, kind, take.name, d)
		n.Redis.Del(keys[i])
		put(n, keys[i])
	}
	if _, err = c.Inspect(t.Context(), inspected); !blocks {
		require.NoError(t, err)
	}
	require.NoError(t, held.Unlock(t.Context()))
	if err := <-over; blocks && err != nil {
		require.ErrorIs(t, err, redlock.ErrNoQuorum) // an empty record is one that was lost, and has no other type
	} else {
		require.NoError(t, err)
	}
	for i, n := range net.Nodes {
		n.Redis.Del(keys[i])
	}
}
