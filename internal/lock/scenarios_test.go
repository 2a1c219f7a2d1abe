package lock_test

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/redlock-go/redlock/internal/test/testhook"

	"github.com/stretchr/testify/require"

	"github.com/redlock-go/redlock"
	"github.com/redlock-go/redlock/fence"
	"github.com/redlock-go/redlock/internal/test/testnet"
)

// These tests show the faults of Redlock that the literature and the issue trackers report,
// one test for each story. Kleppmann: "How to do distributed locking" (2016),
// https://martin.kleppmann.com/2016/02/08/how-to-do-distributed-locking.html.
// Sanfilippo's answer: "Is Redlock safe?" (2016), http://antirez.com/news/101.

// account is the data that the lock protects: a balance that is read, and written later.
type account struct {
	guard   fence.Guard
	balance int
}

// put writes without a check of the token.
func (a *account) put(balance int) error { a.balance = balance; return nil }

// putFenced writes unless a later lease has written.
func (a *account) putFenced(lease *redlock.Lease, balance int) error {
	return a.guard.Do("account", lease.Token(), func() error { return a.put(balance) })
}

// Kleppmann's paused client. It reads under the lock, checks that its lease is
// valid, and is paused, say by a garbage collection, for longer than the ttl.
// Meanwhile another client gets the lock, reads and writes. The first wakes and
// writes its result. The lock cannot prevent that; the token can.
func TestLateWriteIsRefusedWithATokenAndNotWithoutOne(t *testing.T) {
	for name, fenced := range map[string]bool{"unfenced": false, "fenced": true} {
		t.Run(name, func(t *testing.T) {
			testnet.OfEachKind(t, 5, func(t *testing.T, net *testnet.Net) {
				a, b := net.Client(redlock.WithTTL(time.Second)), net.Client()
				store := &account{balance: 100}
				deposit := func(lease *redlock.Lease, seen, amount int) error {
					if fenced {
						return store.putFenced(lease, seen+amount)
					}
					return store.put(seen + amount)
				}
				first := net.Must(net.Mutex(a, "x", redlock.WithoutRenewal()).Lock(t.Context())) // a paused process renews nothing
				seen := store.balance
				require.True(t, first.Valid(), "asked before the pause")

				second := net.Must(b.Mutex("x").Lock(t.Context())) // waits for the end of the first
				require.NoError(t, deposit(second, store.balance, 20))
				require.NoError(t, second.Unlock(t.Context()))

				err := deposit(first, seen, 1)
				if !fenced {
					require.NoError(t, err)
					require.Equal(t, 101, store.balance, "the deposit of 20 is lost")
					return
				}
				require.ErrorIs(t, err, fence.ErrStale)
				require.Equal(t, 120, store.balance)
				require.False(t, first.Valid(), "it could have known, had it asked after the pause")
				again := net.Must(net.Mutex(a, "x").Lock(t.Context()))
				require.NoError(t, deposit(again, store.balance, 1))
				require.Equal(t, 121, store.balance)
				require.NoError(t, again.Unlock(t.Context()))
			})
		})
	}
}

// splitQuorums is the schedule of Kleppmann's timing examples: the first client
// is granted by A, B and C, while D and E are away; C meets with trouble; then A
// and B are away, and the second client asks C, D and E. It asks for as long as
// the first lease is valid.
func splitQuorums(t *testing.T, net *testnet.Net, trouble func(c *testnet.Node), opts ...redlock.ClientOption) (first, second *redlock.Lease, err error) {
	a, b := net.Guarded(opts...), net.Guarded(opts...)
	away := func(away, back []*testnet.Node) {
		for _, n := range back {
			n.Up()
		}
		for _, n := range away {
			n.Down()
		}
		time.Sleep(time.Second) // for both clients to notice it
	}
	away(net.Nodes[3:], nil)
	first, err = net.Mutex(a, "x", redlock.WithoutRenewal()).Lock(t.Context())
	require.NoError(t, err)
	require.Equal(t, 3, net.Holders(first))
	away(nil, net.Nodes[3:])
	trouble(net.Nodes[2])
	time.Sleep(time.Second) // for C to make use of the others, if it may
	away(net.Nodes[:2], nil)
	for second == nil && first.Valid() {
		if second, err = b.Mutex("x").TryLock(t.Context()); err != nil {
			time.Sleep(50 * ms)
		}
	}
	away(nil, net.Nodes[:2])
	return first, second, err
}

// jump sets a node's wall clock forward, by which Redis counts its ttls.
func jump(n *testnet.Node) { n.Redis.FastForward(11 * time.Second) }

// Kleppmann's clock jump: C's clock is stepped forward, and the first client's
// key ends early there. This breaks an assumption (docs/safety.md, A1), and admission
// does not help, as C forgot nothing: two clients hold the lock. Still the second
// lease's token is greater, so data whose writers show tokens stays whole.
func TestClockJumpInABareQuorumMakesTwoHoldersWithDifferentTokens(t *testing.T) {
	testnet.OfEachKind(t, 5, func(t *testing.T, net *testnet.Net) {
		first, second, err := splitQuorums(t, net, jump)
		require.NoError(t, err)
		require.True(t, first.Valid() && second.Valid(), "exclusion is lost")
		require.Greater(t, second.Token(), first.Token())

		store := &account{balance: 100}
		require.NoError(t, store.putFenced(first, 101), "as long as the second has not written it is in time")
		require.NoError(t, store.putFenced(second, 120))
		require.ErrorIs(t, store.putFenced(first, 102), fence.ErrStale)
		require.Equal(t, 120, store.balance)
	})
}

// The same jump where the lease stands on more nodes than it needs: the two nodes that
// jumped are a minority, which cannot grant the lock, and get their key back with the
// next renewal.
func TestClockJumpAtAMinorityIsHarmless(t *testing.T) {
	testnet.OfEachKind(t, 5, func(t *testing.T, net *testnet.Net) {
		a, b := net.Guarded(), net.Guarded()
		lease := net.Must(net.Mutex(a, "x").Lock(t.Context()))
		require.Equal(t, 5, net.Holders(lease))
		jump(net.Nodes[0])
		jump(net.Nodes[1])
		require.Equal(t, 3, net.Holders(lease))
		net.Held(b.Mutex("x").TryLock(t.Context()))
		time.Sleep(testhook.Lock(net.Mutex(a, "x")).Terms().Lease.RenewEvery + time.Second)
		require.Equal(t, 5, net.Holders(lease))
		require.NoError(t, lease.Unlock(t.Context()))
	})
}

// The crashed node of the specification ("Performance, crash recovery and fsync",
// https://redis.io/docs/latest/develop/clients/patterns/distributed-locks/), which
// Kleppmann describes too: C restarts without its data and would grant the lock that
// it has granted before. The specification asks operators for a delayed restart;
// admission sees to that.
func TestRestartedNodeDoesNotVoteBeforeTheFirstLeaseIsOver(t *testing.T) {
	crash := func(c *testnet.Node) { c.Restart(nil) }
	testnet.OfEachKind(t, 5, func(t *testing.T, net *testnet.Net) {
		first, second, err := splitQuorums(t, net, crash)
		require.Nil(t, second)
		require.ErrorIs(t, err, redlock.ErrNoQuorum)
		require.False(t, first.Valid())
		later := net.Must(net.Guarded().Mutex("x").Lock(t.Context()))
		require.Greater(t, later.Token(), first.Token())
		require.NoError(t, later.Unlock(t.Context()))
	})
	t.Run("without admission there are two holders, and the second token is no greater", func(t *testing.T) {
		testnet.OfEachKind(t, 5, func(t *testing.T, net *testnet.Net) {
			first, second, err := splitQuorums(t, net, crash, redlock.WithRestartGuard(0))
			require.NoError(t, err)
			require.True(t, first.Valid() && second.Valid())
			require.LessOrEqual(t, second.Token(), first.Token(), "C forgot its count too")
		})
	})
}

// The rollback on a dead context: redsync's LockContext undoes a failed attempt
// with the caller's ctx. If that has just ended, as is likely, nothing is undone,
// and the lock is blocked for a ttl.
func TestRollbackDoesNotNeedTheContextThatEndedTheAttempt(t *testing.T) {
	testnet.OfEachKind(t, 5, func(t *testing.T, net *testnet.Net) {
		c := net.Client()
		net.Delay(20 * ms)
		for _, lock := range []func(*redlock.Mutex, context.Context) (*redlock.Lease, error){(*redlock.Mutex).Lock, (*redlock.Mutex).TryLock} {
			ctx, cancel := context.WithTimeout(t.Context(), 30*ms) // executed, and not answered yet
			took := testnet.Elapsed(func() {
				_, err := lock(net.Mutex(c, "x"), ctx)
				require.ErrorIs(t, err, context.DeadlineExceeded)
			})
			cancel()
			require.Equal(t, 30*ms, took)
			require.True(t, net.Nodes[0].Redis.Exists("redlock:x"), "there is something to undo")
			time.Sleep(20 * ms)
			net.RequireNoKeys()
		}
	})
}

// The early return: a client that does not wait for the slowest node (redsync's
// WithFailFast, https://github.com/go-redsync/redsync/pull/133) may be gone when
// that node grants an attempt that is over by then: its lock was released, or it failed.
func TestLateGrantOfASlowNodeIsUndone(t *testing.T) {
	testnet.OfEachKind(t, 3, func(t *testing.T, net *testnet.Net) {
		a, b := net.Client(), net.Client()
		slow := net.Nodes[2]
		slow.Set(func(n *testnet.Node) { n.Delay = 300 * ms })
		took := testnet.Elapsed(func() {
			lease := net.Must(net.Mutex(a, "x").Lock(t.Context()))
			net.Held(b.Mutex("x").TryLock(t.Context()))
			require.NoError(t, lease.Unlock(t.Context()))
		})
		require.Zero(t, took, "no caller waited for the slow node")
		require.Zero(t, slow.Attempts())
		time.Sleep(time.Second)
		require.Equal(t, 2, slow.Attempts())
		net.RequireNoKeys()
	})
}

// The stalled node: it accepts connections and commands, and never answers. A
// client that waits for every node, over connections without timeouts, waits for
// ever (https://github.com/go-redsync/redsync/issues/140 has the mild form).
func TestNodeThatNeverAnswersDelaysNoCaller(t *testing.T) {
	testnet.OfEachKind(t, 5, func(t *testing.T, net *testnet.Net) {
		net.Nodes[0].Freeze() // from the beginning: not even the handshake ends
		c := net.Client()
		net.Nodes[1].Freeze() // with a connection that stands
		for range 3 {
			took := testnet.Elapsed(func() {
				lease := net.Must(net.Mutex(c, "x").Lock(t.Context()))
				require.NoError(t, lease.Extend(t.Context()))
				require.NoError(t, lease.Unlock(t.Context()))
			})
			require.Zero(t, took)
			time.Sleep(3 * time.Second) // the node is given up, and dialled again
		}
		require.Zero(t, net.Nodes[0].Attempts()+net.Nodes[1].Attempts())
	})
}

// The extension that resurrects: one that creates the key where it is missing
// (redsync's WithSetNXOnExtend; asked for in https://github.com/go-redsync/redsync/pull/147)
// and that reaches a node after the release, leaves a lock without a holder.
func TestLateExtensionDoesNotBringTheLockBack(t *testing.T) {
	testnet.OfEachKind(t, 3, func(t *testing.T, net *testnet.Net) {
		c := net.Client()
		late := net.Nodes[2]
		extend := func(lease *redlock.Lease) error { return lease.Extend(t.Context()) }
		renewal := func(lease *redlock.Lease) error {
			time.Sleep(testhook.Lock(net.Mutex(c, "x")).Terms().Lease.RenewEvery)
			return lease.Err()
		}
		for i, prolong := range []func(*redlock.Lease) error{extend, renewal} {
			lease := net.Must(net.Mutex(c, "x").Lock(t.Context()))
			synctest.Wait()
			late.Redis.Del("redlock:x")
			late.Freeze()
			require.NoError(t, prolong(lease))
			require.NoError(t, lease.Unlock(t.Context()))
			require.Equal(t, i, late.Renewals())
			late.Thaw()
			synctest.Wait()
			require.Equal(t, i+1, late.Renewals(), "it created the key, after the release at the others")
			net.RequireNoKeys()
		}
	})
}
