package redlock

import (
	"context"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// Waiters of a live client whose tickets were dropped by the nodes.

// A client that stalls misses a challenge, so that the nodes drop the tickets of all its
// waiters. They are back soon after it.
func TestAllWaitersOfAClientThatMissedAChallengeAreServedSoon(t *testing.T) {
	const waiters = 100
	inBubble(t, 3, func(t *testing.T, net *testNet) {
		a, d := net.client(), hearingClient(t, net)
		c, pools := net.cuttableClient()
		subscribed(t, c)
		held, err := a.Mutex("x").Lock(t.Context())
		require.NoError(t, err)
		_, all := queueUp(t, c, waiters)
		_, served := queueUp(t, d, 1)
		time.Sleep(5 * time.Second)
		kill(pools, true)
		require.NoError(t, held.Unlock(t.Context()))
		stalled := 2500*ms - elapsed(served.Wait)
		require.Positive(t, stalled)
		time.Sleep(stalled)
		kill(pools, false)
		require.Less(t, elapsed(all.Wait), 3*time.Second)
	})
}

// waitBehindALongHold returns a lease that is held for long, and waiters of another client
// that have been in line for some seconds.
func waitBehindALongHold(t *testing.T, net *testNet, waiters int) (held *Lease, leave func(), all *sync.WaitGroup) {
	holder, c := net.client(WithTTL(time.Hour)), net.client()
	subscribed(t, c)
	held, err := holder.Mutex("x").Lock(t.Context())
	require.NoError(t, err)
	leave, all = queueUp(t, c, waiters)
	time.Sleep(10 * time.Second)
	return held, leave, all
}

// The nodes lose their lines, while the lock is held for long: the waiters do not stay
// away until their own looks, which are minutes apart.
func TestAllWaitersOfAClientRejoinALineThatWasLost(t *testing.T) {
	const waiters = 300
	inBubble(t, 3, func(t *testing.T, net *testNet) {
		held, leave, all := waitBehindALongHold(t, net, waiters)
		for range 2 {
			loseLines(net)
			time.Sleep(8 * time.Second)
			for _, n := range net.nodes {
				tickets, err := n.redis.ZMembers("redlock::line:redlock:x")
				require.NoError(t, err)
				require.Equal(t, waiters, len(tickets))
			}
		}
		leave()
		all.Wait()
		require.NoError(t, held.Unlock(t.Context()))
	})
}

// A node that loses its line again and again does not make all waiters ask all the time.
func TestLinesThatAreLostAllTheTimeCostFewLooks(t *testing.T) {
	const waiters = 300
	inBubble(t, 3, func(t *testing.T, net *testNet) {
		held, leave, all := waitBehindALongHold(t, net, waiters)
		before := net.nodes[0].executed("acquire")
		for range 600 {
			loseLines(net)
			time.Sleep(100 * ms)
		}
		perSecond := float64(net.nodes[0].executed("acquire")-before) / 60
		t.Logf("%.0f looks a second", perSecond)
		assert.Positive(t, perSecond)
		assert.Less(t, perSecond, 100.0)
		leave()
		all.Wait()
		require.NoError(t, held.Unlock(t.Context()))
	})
}

func loseLines(net *testNet) {
	for _, n := range net.nodes {
		n.redis.Del("redlock::line:redlock:x")
	}
}

// Whatever is amiss, a waiter that is called tries while the nodes still count on it.
func TestACalledWaiterTriesWithinTheClaimHoweverOftenItMissed(t *testing.T) {
	for name, call := range map[string]func(w *waiter){
		"challenged": (*waiter).isChallenged,
		"called":     func(w *waiter) { w.ready(0, true) },
	} {
		inBubble(t, 3, func(t *testing.T, net *testNet) {
			w, leave := waiting(t, net)
			defer leave()
			w.misses = 10
			took := elapsed(func() {
				go call(w)
				require.NoError(t, w.awaitTurn(context.Background(), &refusal{place: 9, ahead: 3, free: time.Minute}))
			})
			require.LessOrEqual(t, took, claim/4, name)
			synctest.Wait()
		})
	}
}
