package redlock

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/redlock-go/redlock/fence"
)

// What the literature and the issue trackers say can go wrong with Redlock, one
// test for each story. Kleppmann: "How to do distributed locking" (2016),
// https://martin.kleppmann.com/2016/02/08/how-to-do-distributed-locking.html.
// Sanfilippo's answer: "Is Redlock safe?" (2016), http://antirez.com/news/101.

// account is what the lock protects: a balance that is read, and written later.
type account struct {
	guard   fence.Guard
	balance int
}

// put writes without asking whose turn it is.
func (a *account) put(balance int) error { a.balance = balance; return nil }

// putFenced writes unless a later lease has written.
func (a *account) putFenced(lease *Lease, balance int) error {
	return a.guard.Do("account", lease.Token(), func() error { return a.put(balance) })
}

// Kleppmann's paused client. It reads under the lock, asks whether its lease is
// valid, and is paused, say by a garbage collection, for longer than the ttl.
// Meanwhile another one gets the lock, reads and writes. The first wakes and
// writes what it had computed. The lock cannot prevent that; the token can.
func TestAWriteAfterAPauseIsLostWithoutATokenAndRefusedWithIt(t *testing.T) {
	for name, fenced := range map[string]bool{"unfenced": false, "fenced": true} {
		t.Run(name, func(t *testing.T) {
			inBubble(t, 5, func(t *testing.T, net *testNet) {
				a, b := net.client(WithTTL(time.Second)), net.client()
				store := &account{balance: 100}
				deposit := func(lease *Lease, seen, amount int) error {
					if fenced {
						return store.putFenced(lease, seen+amount)
					}
					return store.put(seen + amount)
				}
				first, err := a.Mutex("x", WithoutRenewal()).Lock(t.Context()) // nobody renews in a paused process
				require.NoError(t, err)
				seen := store.balance
				require.True(t, first.Valid(), "asked before the pause")

				second, err := b.Mutex("x").Lock(t.Context()) // waits for the end of the first
				require.NoError(t, err)
				require.NoError(t, deposit(second, store.balance, 20))
				require.NoError(t, second.Unlock(t.Context()))

				err = deposit(first, seen, 1)
				if !fenced {
					require.NoError(t, err)
					require.Equal(t, 101, store.balance, "the deposit of 20 is lost")
					return
				}
				require.ErrorIs(t, err, fence.ErrStale)
				require.Equal(t, 120, store.balance)
				require.False(t, first.Valid(), "it could have known, had it asked after the pause")
				again, err := a.Mutex("x").Lock(t.Context())
				require.NoError(t, err)
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
func splitQuorums(t *testing.T, net *testNet, trouble func(c *testNode), opts ...Option) (first, second *Lease, err error) {
	a, b := net.guarded(opts...), net.guarded(opts...)
	away := func(away, back []*testNode) {
		for _, n := range back {
			n.up()
		}
		for _, n := range away {
			n.down()
		}
		time.Sleep(time.Second) // all have noticed
	}
	away(net.nodes[3:], nil)
	first, err = a.Mutex("x", WithoutRenewal()).Lock(t.Context())
	require.NoError(t, err)
	require.Equal(t, 3, net.holders(first))
	away(nil, net.nodes[3:])
	trouble(net.nodes[2])
	time.Sleep(time.Second) // for C to make use of the others, if it may
	away(net.nodes[:2], nil)
	for second == nil && first.Valid() {
		if second, err = b.Mutex("x").TryLock(t.Context()); err != nil {
			time.Sleep(50 * ms)
		}
	}
	away(nil, net.nodes[:2])
	return first, second, err
}

// jump sets a node's wall clock forward, by which Redis counts its ttls.
func jump(n *testNode) { n.redis.FastForward(11 * time.Second) }

// Kleppmann's clock jump: C's clock is stepped forward, and the first client's
// key ends early there. This is outside of what is assumed (docs/safety.md, A1),
// and admission does not help, as C forgot nothing: two clients hold the lock.
// Still the second one's token is greater, so what checks tokens stays whole.
func TestAClockJumpAtOneOfABareQuorumMakesTwoHoldersWhomTokensTellApart(t *testing.T) {
	inBubble(t, 5, func(t *testing.T, net *testNet) {
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

// The same jump where the lease stands on more nodes than it needs: the two that
// jumped are a minority, which cannot let anybody in, and get their key back with
// the next renewal.
func TestAClockJumpAtAMinorityIsHarmless(t *testing.T) {
	inBubble(t, 5, func(t *testing.T, net *testNet) {
		a, b := net.guarded(), net.guarded()
		lease, err := a.Mutex("x").Lock(t.Context())
		require.NoError(t, err)
		require.Equal(t, 5, net.holders(lease))
		jump(net.nodes[0])
		jump(net.nodes[1])
		require.Equal(t, 3, net.holders(lease))
		_, err = b.Mutex("x").TryLock(t.Context())
		require.ErrorIs(t, err, ErrHeld)
		time.Sleep(a.opts.renewal() + time.Second)
		require.Equal(t, 5, net.holders(lease))
		require.NoError(t, lease.Unlock(t.Context()))
	})
}

// The crashed node of the specification ("Performance, crash recovery and fsync",
// https://redis.io/docs/latest/develop/clients/patterns/distributed-locks/), which
// Kleppmann tells too: C restarts without its data and would grant the lock that
// it has granted before. The specification asks operators for a delayed restart;
// admission sees to that.
func TestARestartedNodeVotesForNobodyBeforeTheFirstLeaseIsOver(t *testing.T) {
	crash := func(c *testNode) { c.restart(nil) }
	inBubble(t, 5, func(t *testing.T, net *testNet) {
		first, second, err := splitQuorums(t, net, crash)
		require.Nil(t, second)
		require.ErrorIs(t, err, ErrNoQuorum)
		require.False(t, first.Valid())
		later, err := net.guarded().Mutex("x").Lock(t.Context())
		require.NoError(t, err)
		require.Greater(t, later.Token(), first.Token())
		require.NoError(t, later.Unlock(t.Context()))
	})
	t.Run("without admission there are two holders, whom tokens do not tell apart", func(t *testing.T) {
		inBubble(t, 5, func(t *testing.T, net *testNet) {
			first, second, err := splitQuorums(t, net, crash, WithRestartGuard(0))
			require.NoError(t, err)
			require.True(t, first.Valid() && second.Valid())
			require.LessOrEqual(t, second.Token(), first.Token(), "C forgot its count too")
		})
	})
}

// The rollback on a dead context: redsync's LockContext undoes a failed attempt
// with the caller's ctx. Where that has just ended, as is likely, nothing is
// undone, and the lock is blocked for a ttl.
func TestARollbackDoesNotNeedTheContextThatEndedTheAttempt(t *testing.T) {
	inBubble(t, 5, func(t *testing.T, net *testNet) {
		c := net.client()
		for _, n := range net.nodes {
			n.set(func(n *testNode) { n.delay = 20 * ms })
		}
		for _, lock := range []func(*Mutex, context.Context) (*Lease, error){(*Mutex).Lock, (*Mutex).TryLock} {
			ctx, cancel := context.WithTimeout(t.Context(), 30*ms) // executed, and not answered yet
			took := elapsed(func() {
				_, err := lock(c.Mutex("x"), ctx)
				require.ErrorIs(t, err, context.DeadlineExceeded)
			})
			cancel()
			require.Equal(t, 30*ms, took)
			require.True(t, net.nodes[0].redis.Exists("redlock:x"), "there is something to undo")
			time.Sleep(20 * ms)
			net.requireNoKeys()
		}
	})
}

// The early return: a client that does not wait for the slowest node (redsync's
// WithFailFast, https://github.com/go-redsync/redsync/pull/133) may be gone when
// that one grants what is over by then: a lock that was released, or an attempt
// that failed.
func TestWhatASlowNodeGrantsTooLateIsUndone(t *testing.T) {
	inBubble(t, 3, func(t *testing.T, net *testNet) {
		a, b := net.client(), net.client()
		slow := net.nodes[2]
		slow.set(func(n *testNode) { n.delay = 300 * ms })
		took := elapsed(func() {
			lease, err := a.Mutex("x").Lock(t.Context())
			require.NoError(t, err)
			_, err = b.Mutex("x").TryLock(t.Context())
			require.ErrorIs(t, err, ErrHeld)
			require.NoError(t, lease.Unlock(t.Context()))
		})
		require.Zero(t, took, "nobody waited for the slow node")
		require.Zero(t, slow.executed("acquire"))
		time.Sleep(time.Second)
		require.Equal(t, 2, slow.executed("acquire"))
		net.requireNoKeys()
	})
}

// The stalled node: it accepts connections and commands, and never answers. A
// client that waits for every node, over connections without timeouts, waits for
// ever (https://github.com/go-redsync/redsync/issues/140 has the mild form).
func TestANodeThatNeverAnswersHoldsNobodyUp(t *testing.T) {
	inBubble(t, 5, func(t *testing.T, net *testNet) {
		net.nodes[0].freeze() // from the beginning: not even the handshake ends
		c := net.client()
		net.nodes[1].freeze() // with a connection that stands
		for range 3 {
			took := elapsed(func() {
				lease, err := c.Mutex("x").Lock(t.Context())
				require.NoError(t, err)
				require.NoError(t, lease.Extend(t.Context()))
				require.NoError(t, lease.Unlock(t.Context()))
			})
			require.Zero(t, took)
			time.Sleep(3 * time.Second) // the node is given up, and dialled again
		}
		require.Zero(t, net.nodes[0].executed("acquire")+net.nodes[1].executed("acquire"))
	})
}

// The extension that resurrects: one that creates the key where it is missing
// (redsync's WithSetNXOnExtend; asked for in https://github.com/go-redsync/redsync/pull/147)
// and that reaches a node after the release, leaves a lock that nobody holds.
func TestAnExtensionThatIsLateDoesNotBringTheLockBack(t *testing.T) {
	inBubble(t, 3, func(t *testing.T, net *testNet) {
		c := net.client()
		late := net.nodes[2]
		extend := func(lease *Lease) error { return lease.Extend(t.Context()) }
		renewal := func(lease *Lease) error { time.Sleep(c.opts.renewal()); return lease.Err() }
		for i, prolong := range []func(*Lease) error{extend, renewal} {
			lease, err := c.Mutex("x").Lock(t.Context())
			require.NoError(t, err)
			synctest.Wait()
			late.redis.Del("redlock:x")
			late.freeze()
			require.NoError(t, prolong(lease))
			require.NoError(t, lease.Unlock(t.Context()))
			require.Equal(t, i, late.executed("renew"))
			late.thaw()
			synctest.Wait()
			require.Equal(t, i+1, late.executed("renew"), "it created the key, after the release at the others")
			net.requireNoKeys()
		}
	})
}
