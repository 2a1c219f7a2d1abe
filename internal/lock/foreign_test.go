package lock_test

import (
	"context"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/redlock-go/redlock"
	"github.com/redlock-go/redlock/internal/protocol"
	"github.com/redlock-go/redlock/internal/test/long"
	"github.com/redlock-go/redlock/internal/test/testhook"
	"github.com/redlock-go/redlock/internal/test/testnet"
)

// Another program has a key of another type where the library keeps something. Whatever that is, nothing
// of ours stays, and an error says what to do.

// foreignKeys are the keys at which another program may have something, for locks of the name x.
var foreignKeys = []string{"redlock:x", "redlock::queue:redlock:x", "redlock::readers:redlock:x",
	"redlock::asked:redlock:x"}

// foreignTypes put a value of a type at a key.
var foreignTypes = map[string]func(n *testnet.Node, key string){
	"a string": func(n *testnet.Node, key string) { _ = n.Redis.Set(key, "text") },
	"a list":   func(n *testnet.Node, key string) { _, _ = n.Redis.Push(key, "item") },
	"a hash":   func(n *testnet.Node, key string) { n.Redis.HSet(key, "field", "value") },
	"a set":    func(n *testnet.Node, key string) { _, _ = n.Redis.SetAdd(key, "member") },
}

// requireNothingOfOurs checks that no node has a key of an owner, but those that another program has.
func requireNothingOfOurs(t *testing.T, net *testnet.Net, foreign string) {
	t.Helper()
	for _, n := range net.Nodes {
		for _, key := range []string{"redlock:x", "redlock:y", "redlock::readers:redlock:x"} {
			assert.True(t, key == foreign || !n.Redis.Exists(key), "%s is left", key)
		}
	}
}

func TestForeignKeysOfEachTypeLeaveNothingOfOurs(t *testing.T) {
	for name, of := range map[string]func(c *redlock.Client) *redlock.Mutex{
		"mutex":  func(c *redlock.Client) *redlock.Mutex { return c.Mutex("x") },
		"reader": func(c *redlock.Client) *redlock.Mutex { return c.RWMutex("x").RLocker() },
		"set":    func(c *redlock.Client) *redlock.Mutex { return c.Multi([]string{"x", "y"}) },
		"rest":   func(c *redlock.Client) *redlock.Mutex { return c.Mutex("x", redlock.WithMinHold(100*ms)) },
	} {
		for _, key := range foreignKeys {
			for kind, put := range foreignTypes {
				t.Run(name+", "+kind+" at "+key, func(t *testing.T) {
					testnet.InBubble(t, 3, func(t *testing.T, net *testnet.Net) {
						foreign := func() {
							for _, n := range net.Nodes {
								put(n, key)
							}
						}
						foreign()
						c := testnet.ListeningClient(t, net)
						lease, err := of(c).TryLock(t.Context())
						if err == nil {
							require.NoError(t, lease.Unlock(t.Context()))
						} else if key != "redlock:x" || kind != "a string" {
							require.ErrorIs(t, err, redlock.ErrNoQuorum)
							require.ErrorContains(t, err, "WRONGTYPE") // real servers name it so that the remedy follows; the embedded one does not in scripts
						}
						time.Sleep(time.Second)
						requireNothingOfOurs(t, net, key)
						if key == "redlock:x" {
							return
						}
						// It comes while the lock is held.
						for _, n := range net.Nodes {
							n.Redis.Del(key)
						}
						lease = net.Must(of(c).TryLock(t.Context()))
						synctest.Wait()
						if key == "redlock::readers:redlock:x" && name == "reader" {
							require.NoError(t, lease.Unlock(t.Context()))
							return // it is where the share was
						}
						foreign()
						require.NoError(t, lease.Unlock(t.Context()))
						time.Sleep(time.Second)
						requireNothingOfOurs(t, net, key)
					})
				})
			}
		}
	}
}

func TestForceUnlockFreesALockWhoseQueueIsAForeignKey(t *testing.T) {
	testnet.InBubble(t, 3, func(t *testing.T, net *testnet.Net) {
		c, d := net.Client(), net.Client()
		net.Must(c.Mutex("x").TryLock(t.Context()))
		synctest.Wait()
		for _, n := range net.Nodes {
			_ = n.Redis.Set("redlock::queue:redlock:x", "text")
		}
		net.Status(d.ForceUnlock(t.Context(), "x"))
		time.Sleep(time.Second)
		requireNothingOfOurs(t, net, "")
	})
}

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
								require.Regexp(t, `^redlock::(record|quarantine|newest|format|members|alive)`, key)
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

// Another program may set a lock's key to a value of any length.

const huge = 20 << 20

// setHuge sets a key to a long value at all nodes.
func setHuge(t *testing.T, net *testnet.Net, key string) {
	value := strings.Repeat("another program's ", huge/18)
	for _, n := range net.Nodes {
		require.NoError(t, n.Redis.Set(key, value))
	}
}

func TestErrorsCutALongValue(t *testing.T) {
	testnet.InBubble(t, 3, func(t *testing.T, net *testnet.Net) {
		c := net.Client(redlock.WithTTL(time.Second))
		unfenced := net.Client(redlock.WithoutFencing())
		lease := net.Must(c.Mutex("lost").Lock(t.Context()))
		set := net.Must(c.Multi([]string{"lost1", "lost2"}).Lock(t.Context()))
		setHuge(t, net, "redlock:x")
		setHuge(t, net, "redlock:lost")
		setHuge(t, net, "redlock:lost2")
		waiting := func(lock func(context.Context) (*redlock.Lease, error)) error {
			ctx, cancel := context.WithTimeout(t.Context(), 100*ms)
			defer cancel()
			_, err := lock(ctx)
			return err
		}
		try := func(lock func(context.Context) (*redlock.Lease, error)) error {
			_, err := lock(t.Context())
			return err
		}
		for name, err := range map[string]error{
			"TryLock":          try(c.Mutex("x").TryLock),
			"Lock":             waiting(c.Mutex("x").Lock),
			"TryLock unfenced": try(unfenced.Mutex("x").TryLock),
			"TryRLock":         try(c.RWMutex("x").TryRLock),
			"RLock":            waiting(c.RWMutex("x").RLock),
			"Multi.TryLock":    try(c.Multi([]string{"a", "x"}).TryLock),
			"Multi.Lock":       waiting(c.Multi([]string{"a", "x"}).Lock),
			"Extend":           lease.Extend(t.Context()),
			"Extend of a set":  set.Extend(t.Context()),
		} {
			if assert.Error(t, err, name) {
				assert.Less(t, len(err.Error()), 3000, name)
				assert.Contains(t, err.Error(), "another program's ", name)
			}
		}
		_, err := c.Mutex("x").TryLock(t.Context())
		var held *redlock.HeldError
		require.ErrorAs(t, err, &held)
		require.LessOrEqual(t, len(held.Holder), 512)
		require.Less(t, len(err.Error()), 400)
	})
}

func TestLongValueIsShownAndForced(t *testing.T) {
	testnet.InBubble(t, 3, func(t *testing.T, net *testnet.Net) {
		c := net.Client()
		setHuge(t, net, "redlock:x")
		setHuge(t, net, "redlock:jobs#1")
		s := net.Status(c.Inspect(t.Context(), "x"))
		require.Len(t, s.Holder, 512)
		s, err := c.Inspect(t.Context(), "jobs")
		require.NoError(t, err)
		require.Len(t, s.Permits, 1)
		require.Len(t, s.Permits[0].Owner, 512)
		for _, name := range []string{"x", "jobs#1"} {
			s, err = c.ForceUnlock(t.Context(), name)
			require.NoError(t, err)
			require.Len(t, s.Holder, 512)
			require.Negative(t, s.Remaining, "it never expires")
		}
		synctest.Wait()
		net.RequireNoKeys()
		s, err = c.ForceUnlock(t.Context(), "x")
		require.NoError(t, err, "there is no holder")
		require.Empty(t, s.Holder)
		held := net.Must(c.Semaphore("jobs", 2).TryAcquire(t.Context(), 2))
		require.NoError(t, held.Unlock(t.Context()))
	})
}

// A key with an empty value, as another program may set it, is held.
func TestKeyWithAnEmptyValueIsHeld(t *testing.T) {
	for name, opts := range map[string][]redlock.ClientOption{"with tokens": nil, "without tokens": {redlock.WithoutFencing()}} {
		for _, version := range []string{"6.2.0", "7.0.0"} {
			t.Run(name+" on "+version, func(t *testing.T) {
				testnet.InBubble(t, 3, func(t *testing.T, net *testnet.Net) {
					for _, n := range net.Nodes {
						n.Set(func(n *testnet.Node) { n.Version = version })
						require.NoError(t, n.Redis.Set("redlock:x", ""))
						n.Redis.SetTTL("redlock:x", time.Minute)
					}
					c := net.Client(opts...)
					held := net.Held(c.Mutex("x").TryLock(t.Context()))
					require.Equal(t, protocol.EmptyHolder, held.Holder)

					ctx, cancel := context.WithTimeout(t.Context(), 5*time.Second)
					defer cancel()
					net.Held(c.Mutex("x").Lock(ctx))
					for _, n := range net.Nodes {
						require.Empty(t, holderAt(n))
						require.True(t, n.Redis.Exists("redlock:x"))
						n.Redis.Del("redlock:x")
					}
					net.RequireNoLines()
				})
			})
		}
	}
}
