package redlock

import (
	"context"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/redlock-go/redlock/internal/admission"
)

// What a release executes for who was refused a moment ago.

// handOver lets b wait for a lock that a holds, lets something happen, and has a
// release it. It returns b's lease, how long after the release it came, and how many
// attempts it took at most at one node.
func handOver(t *testing.T, net *testNet, a, b *Mutex, wait time.Duration, meanwhile func()) (next *Lease, took time.Duration, attempts int) {
	lease, err := a.Lock(t.Context())
	require.NoError(t, err)
	synctest.Wait() // it has all nodes
	for _, n := range net.nodes {
		n.set(func(n *testNode) { n.delay, n.log = 10*ms, nil })
	}
	got := make(chan *Lease)
	go func() {
		next, err := b.Lock(t.Context())
		require.NoError(t, err)
		got <- next
	}()
	time.Sleep(wait)
	meanwhile()
	took = elapsed(func() {
		go func() { require.NoError(t, lease.Unlock(t.Context())) }()
		next = <-got
	})
	require.Greater(t, next.Token(), lease.Token())
	for _, n := range net.nodes {
		attempts = max(attempts, n.executed("acquire"))
	}
	return next, took, attempts
}

// hearingClient is a client that all nodes can call: the first wait opens the
// connections.
func hearingClient(t *testing.T, net *testNet, opts ...Option) *Client {
	c := net.client(opts...)
	require.NoError(t, c.line.turnOn(t.Context()))
	for slices.Contains(c.line.hearing(), 0) {
		time.Sleep(ms)
	}
	return c
}

func TestAHandOverToWhoWasRefusedAMomentAgoTakesOneRoundTrip(t *testing.T) {
	inBubble(t, 5, func(t *testing.T, net *testNet) {
		a, b := net.client(), hearingClient(t, net)
		lease, took, attempts := handOver(t, net, a.Mutex("x"), b.Mutex("x"), 60*ms, func() {})
		require.Equal(t, 20*ms, took)
		require.Equal(t, 1, attempts)
		require.Equal(t, 5, net.holders(lease))

		// The attempt was begun 80 ms ago, and its keys last for 500 ms.
		require.Equal(t, claim-b.opts.drift.of(claim)-80*ms, lease.Remaining())
		time.Sleep(20 * ms)
		synctest.Wait()
		require.Equal(t, b.opts.validUntil(0)-20*ms, lease.Remaining(), "it was renewed at once")
		for _, n := range net.nodes {
			require.Greater(t, n.redis.TTL("redlock:x"), 9*time.Second)
		}
		require.NoError(t, lease.Unlock(t.Context()))
		net.requireNoKeys()
		net.requireNoLines()
		net.requireNoBids()
	})
}

func TestAHandOverWithoutTokensTakesOneRoundTripToo(t *testing.T) {
	inBubble(t, 3, func(t *testing.T, net *testNet) {
		a, b := net.client(WithFencing(false)), hearingClient(t, net, WithFencing(false))
		held, err := a.Mutex("x").Lock(t.Context())
		require.NoError(t, err)
		synctest.Wait() // it has all nodes
		got := make(chan *Lease)
		go func() {
			next, err := b.Mutex("x").Lock(t.Context())
			require.NoError(t, err)
			got <- next
		}()
		time.Sleep(60 * ms)
		for _, n := range net.nodes {
			n.set(func(n *testNode) { n.delay, n.log = 10*ms, nil })
		}
		require.Equal(t, 20*ms, elapsed(func() {
			go func() { require.NoError(t, held.Unlock(t.Context())) }()
			held = <-got
		}))
		require.Zero(t, held.Token())
		require.Zero(t, net.nodes[0].executed("claim"))
		require.NoError(t, held.Unlock(t.Context()))
	})
}

// requireNoBids checks that no attempt waits to be executed.
func (w *testNet) requireNoBids() {
	w.t.Helper()
	w.requireNone("bid:")
}

func TestWhoWantsItsFullTTLAtOnceMakesNoBid(t *testing.T) {
	for name, opts := range map[string][]Option{
		"without renewal": {WithoutRenewal()},
		"with an end":     {WithMaxHold(time.Minute)},
		"a short ttl":     {WithTTL(claim)},
	} {
		inBubble(t, 3, func(t *testing.T, net *testNet) {
			a, b := net.client(), hearingClient(t, net)
			m := b.Mutex("x", opts...)
			lease, took, _ := handOver(t, net, a.Mutex("x"), m, 60*ms, net.requireNoBids)
			require.Equal(t, 40*ms, took, name)
			require.Equal(t, m.opts.validUntil(0)-20*ms, lease.Remaining(), name)
			require.NoError(t, lease.Unlock(t.Context()))
		})
	}
}

func TestABidThatAMinorityHeardIsTakenOverByTheNextAttempt(t *testing.T) {
	inBubble(t, 5, func(t *testing.T, net *testNet) {
		a, b := net.client(), hearingClient(t, net)
		lease, took, attempts := handOver(t, net, a.Mutex("x"), b.Mutex("x"), 60*ms, func() {
			for _, n := range net.nodes[:3] {
				n.set(func(n *testNode) {
					n.lose = func(data []byte) bool { return strings.Contains(string(data), "$7\r\nmessage") }
				})
			}
		})
		require.Equal(t, 20*ms+rest+20*ms, took)
		require.Equal(t, 2, attempts)
		require.Equal(t, b.opts.validUntil(0)-20*ms, lease.Remaining(), "it is an attempt like any other")
		require.Equal(t, 5, net.holders(lease))
		require.NoError(t, lease.Unlock(t.Context()))
		net.requireNoKeys()
	})
}

func TestWhoLeavesTakesItsBidsAlong(t *testing.T) {
	inBubble(t, 3, func(t *testing.T, net *testNet) {
		a, b := net.client(), hearingClient(t, net)
		lease, err := a.Mutex("x").Lock(t.Context())
		require.NoError(t, err)
		ctx, cancel := context.WithTimeout(t.Context(), 50*ms)
		defer cancel()
		_, err = b.Mutex("x").Lock(ctx)
		require.ErrorIs(t, err, ErrHeld)
		net.requireNoBids()
		require.NoError(t, lease.Unlock(t.Context()))
		net.requireNoKeys()
	})
}

// waiting is a waiter of an otherwise idle lock whose attempt was refused by all nodes,
// and may be executed late. leave ends its wait.
func waiting(t *testing.T, net *testNet, opts ...Option) (w *waiter, leave func()) {
	c := hearingClient(t, net, opts...)
	held, err := net.client(opts...).Mutex("x").Lock(t.Context())
	require.NoError(t, err)
	synctest.Wait() // it has all nodes
	w, err = c.line.newWaiter(t.Context(), c.Mutex("x"))
	require.NoError(t, err)
	_, r, err := w.mutex.attempt(t.Context(), w)
	require.NoError(t, err)
	require.ErrorIs(t, r.err, ErrHeld)
	return w, func() {
		w.leave(ErrHeld)
		require.NoError(t, held.Unlock(t.Context()))
	}
}

// rightOf replaces the right by which a node voted in the waiter's attempt.
func (w *waiter) rightOf(node int, right admission.VoteRight) {
	w.bid.attempt.Votes[node].Right = &right
}

func TestOnlyWhatCameOnConnectionsFromBeforeTheAttemptCounts(t *testing.T) {
	for name, change := range map[string]func(net *testNet, w *waiter, serial *uint64, owner *string){
		"":                      func(*testNet, *waiter, *uint64, *string) {},
		"another ear since":     func(_ *testNet, _ *waiter, serial *uint64, _ *string) { *serial++ },
		"an ear that is closed": func(_ *testNet, _ *waiter, serial *uint64, _ *string) { *serial = 0 },
		"another connection since": func(_ *testNet, w *waiter, _ *uint64, _ *string) {
			w.rightOf(1, admission.VoteRight{Votes: true, Record: w.bid.attempt.Votes[1].Right.Record})
		},
		"another record since": func(_ *testNet, w *waiter, _ *uint64, _ *string) {
			right := *w.bid.attempt.Votes[1].Right
			right.Record = "another"
			w.rightOf(1, right)
		},
		"the node is barred": func(net *testNet, w *waiter, _ *uint64, _ *string) {
			loseRecord(net.nodes[1], w.mutex.client)
			require.False(net.t, w.mutex.client.nodes[1].Current().Votes)
		},
		"the node is away": func(net *testNet, w *waiter, _ *uint64, _ *string) {
			net.nodes[1].down()
			synctest.Wait()
			require.Nil(net.t, w.mutex.client.nodes[1].Current())
		},
		"of the attempt before this": func(_ *testNet, _ *waiter, _ *uint64, owner *string) { *owner = "another" },
	} {
		t.Run(name, func(t *testing.T) {
			inBubble(t, 3, func(t *testing.T, net *testNet) {
				net.guarded()
				w, leave := waiting(t, net, WithRestartGuard(time.Millisecond))
				defer leave()
				nodes := w.mutex.client.nodes
				for _, n := range nodes[:2] {
					w.granted(n, w.bid.serials[n.Index], w.owner, "7")
				}
				require.NotNil(t, w.won())
				w.bid.counts[1] = 0
				w.calls = 0
				serial, owner := w.bid.serials[1], w.owner
				change(net, w, &serial, &owner)
				w.granted(nodes[1], serial, owner, "7")
				require.Equal(t, name == "", w.won() != nil)
				require.Equal(t, owner == w.owner, w.calls.Has(1), "it is ready for the next attempt")
			})
		})
	}
}

func TestWhatWasGrantedLateAndUndoneDoesNotCount(t *testing.T) {
	inBubble(t, 3, func(t *testing.T, net *testNet) {
		w, leave := waiting(t, net)
		defer leave()
		nodes := w.mutex.client.nodes
		w.granted(nodes[0], w.bid.serials[0], w.owner, "7")
		w.granted(nodes[1], w.bid.serials[1], w.owner, "7")
		serial := w.bid.serials[1]
		w.yield(w.owner, 1<<1)
		require.Nil(t, w.won())
		w.granted(nodes[1], serial, w.owner, "7")
		require.Nil(t, w.won(), "nor does what is heard of it later")
		w.granted(nodes[2], w.bid.serials[2], w.owner, "7")
		require.NotNil(t, w.won())
	})
}

func TestABidWithoutEnoughValidityIsNoLease(t *testing.T) {
	inBubble(t, 3, func(t *testing.T, net *testNet) {
		w, leave := waiting(t, net)
		defer leave()
		for _, n := range w.mutex.client.nodes {
			w.granted(n, w.bid.serials[n.Index], w.owner, "7")
		}
		valid := claim - w.mutex.opts.drift.of(claim)
		time.Sleep(valid - claim/4)
		require.NotNil(t, w.won())
		w.trip = 100 * ms
		require.Nil(t, w.won(), "the renewal would take too long")
		w.trip = 0
		time.Sleep(time.Nanosecond)
		require.Nil(t, w.won())
	})
}

func TestALeaseByABidIsLostInTimeWhereItCannotBeRenewed(t *testing.T) {
	inBubble(t, 3, func(t *testing.T, net *testNet) {
		a, b := net.client(), hearingClient(t, net)
		lease, _, _ := handOver(t, net, a.Mutex("x"), b.Mutex("x"), 60*ms, func() {
			for _, n := range net.nodes {
				n.set(func(n *testNode) {
					n.override = func(cmd string, args []string) string {
						if n.label(cmd, args) == "renew" {
							return "ERR not now"
						}
						return ""
					}
				})
			}
		})
		end := lease.Remaining()
		require.Less(t, end, claim)
		require.Equal(t, end, elapsed(func() { <-lease.Done() }))
		require.ErrorIs(t, lease.Err(), ErrLost)
		require.Greater(t, net.nodes[0].executed("renew"), 3, "it was tried again in time")
		require.Less(t, net.nodes[0].executed("renew"), 30)
		time.Sleep(100 * ms)
		net.requireNoKeys()
	})
}
