package redlock

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/redlock-go/redlock/internal/admission"
	"github.com/redlock-go/redlock/internal/node"
	"github.com/redlock-go/redlock/internal/quorum"
)

// Leases by bids, where something else was under way. Each of these let two hold the
// lock, or left keys, in the first version with bids.

// releaseAll lets go what links hold back, so that clients can be closed.
func (w *testNet) releaseAll() {
	for _, n := range w.nodes {
		n.set(func(n *testNode) {
			for _, l := range n.links {
				l.held = false
			}
		})
	}
}

// The second node cannot undo the attempt yet, which becomes a lease by its bids at the
// others: the node's answers to renewals count for nothing until then.
func TestARenewalDoesNotCountWhereTheAttemptIsStillToBeUndone(t *testing.T) {
	inBubble(t, 3, func(t *testing.T, net *testNet) {
		a, b := net.client(), hearingClient(t, net)
		held, err := a.Mutex("x").Lock(t.Context())
		require.NoError(t, err)
		synctest.Wait()
		defer net.releaseAll()
		second, third := net.nodes[1], net.nodes[2]
		second.redis.Del("redlock:x")
		second.set(func(n *testNode) {
			n.override = func(cmd string, args []string) string {
				if n.label(cmd, args) == "release" {
					return "BUSY Redis is busy running a script"
				}
				return ""
			}
		})
		got := make(chan *Lease, 1)
		go func() {
			l, err := b.Mutex("x").Lock(t.Context())
			require.NoError(t, err)
			got <- l
		}()
		time.Sleep(60 * ms)
		require.Equal(t, 1, b.nodes[1].Undos())
		third.set(func(n *testNode) { n.links[1].held = true }) // b's; the calls go over another
		require.NoError(t, held.Unlock(t.Context()))
		lease := <-got
		time.Sleep(20 * ms)
		require.Less(t, lease.Remaining(), claim, "a majority did not renew it")

		second.set(func(n *testNode) { n.override = nil })
		time.Sleep(time.Second)
		other, err := net.client().Mutex("x").TryLock(t.Context())
		require.NoError(t, err)
		require.False(t, lease.Valid())
		require.True(t, other.Valid())
	})
}

func TestARenewalOfAnAttemptThatIsToBeUndoneIsRecalled(t *testing.T) {
	h := &holding{owner: "me"}
	n := &admission.Member{Node: node.New(1, "node", nil, nil)}
	undo, other := &node.Undo{Owner: "me"}, &node.Undo{Owner: "other"}
	n.Undo(undo)
	n.Undo(other)
	require.Equal(t, quorum.NoAnswer, h.recount(n, quorum.Yes))
	require.Equal(t, quorum.No, h.recount(n, quorum.Recreated))
	require.Equal(t, quorum.No, h.recount(n, quorum.Yes), "it was put back before")
	undo.Receive(int64(1), nil)
	require.Equal(t, quorum.Recreated, h.recount(n, quorum.Yes))
	h.restored = 0
	require.Equal(t, quorum.Yes, h.recount(n, quorum.Yes))
}

// A bid was executed at one node before ForceUnlock seized it, and would be at another
// after it was given back.
func TestForceUnlockOutlastsTheBidsThatWereBegunBefore(t *testing.T) {
	inBubble(t, 3, func(t *testing.T, net *testNet) {
		opts := []Option{WithFencing(false), WithNodeTimeout(20 * ms)}
		a, b := net.client(opts...), hearingClient(t, net, opts...)
		c, d := net.client(opts...), net.client(opts...)
		held, err := a.Mutex("x").Lock(t.Context())
		require.NoError(t, err)
		synctest.Wait()
		defer net.releaseAll()
		for _, n := range net.nodes[1:] {
			n.set(func(n *testNode) { n.links[0].delay = 300 * ms }) // a's
		}
		net.nodes[2].set(func(n *testNode) { n.links[1].held = true }) // b's
		got := make(chan *Lease, 1)
		ctx, stop := context.WithTimeout(t.Context(), 2*time.Second)
		defer stop()
		go func() {
			l, _ := b.Mutex("x").Lock(ctx)
			got <- l
		}()
		time.Sleep(30 * ms)
		for _, n := range net.nodes[:2] {
			n.set(func(n *testNode) { n.links[1].delay = 40 * ms }) // its renewal is late
		}
		go func() { _ = held.Unlock(t.Context()) }() // reaches the first node only
		time.Sleep(5 * ms)
		_, err = c.ForceUnlock(t.Context(), "x")
		require.NoError(t, err)
		other, err := d.Mutex("x").TryLock(t.Context()) // may be refused: b is first in line
		select {
		case l := <-got:
			require.False(t, err == nil && l != nil && l.Valid() && other.Valid(), "two holders")
		case <-time.After(20 * ms):
		}
		stop()
	})
}

// A Do winds up for longer than the keys of its bid last. Its renewal is on its way when
// the client is closed, and prolongs them.
func TestCloseAwaitsADoWhoseKeysWereProlonged(t *testing.T) {
	inBubble(t, 3, func(t *testing.T, net *testNet) {
		a, b := net.client(), hearingClient(t, net)
		held, err := a.Mutex("x").Lock(t.Context())
		require.NoError(t, err)
		synctest.Wait()
		for _, n := range net.nodes {
			n.set(func(n *testNode) { n.delay = 5 * ms })
		}
		in, done := make(chan struct{}), make(chan struct{})
		go func() {
			defer close(done)
			_ = b.Mutex("x").Do(t.Context(), func(ctx context.Context, _ *Lease) error {
				close(in)
				<-ctx.Done()
				time.Sleep(time.Second)
				return nil
			})
		}()
		time.Sleep(60 * ms)
		go func() { _ = held.Unlock(t.Context()) }()
		<-in
		time.Sleep(ms)
		require.NoError(t, b.Close())
		<-done
		time.Sleep(100 * ms)
		net.requireNoKeys()
	})
}
