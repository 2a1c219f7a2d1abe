package waitqueue_test

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/redlock-go/redlock/internal/protocol"
	"github.com/redlock-go/redlock/internal/test/testnet"
)

// A wake-up is a challenge: a waiter that is woken tries while the node still counts on it.
func TestWokenWaiterTriesWithinTheReservationHoweverOftenItFailed(t *testing.T) {
	testnet.InBubble(t, 3, func(t *testing.T, net *testnet.Net) {
		w, leave := newWaiter(t, net)
		defer leave()
		for range 10 {
			w.wake(0, "ready", w.Ticket())
			w.try(t)
		}
		took := testnet.Elapsed(func() {
			go w.wake(0, "ready", w.Ticket())
			require.NoError(t, w.AwaitTurn(context.Background(), farBack))
		})
		require.Equal(t, protocol.ReservationTTL/4, took)
		synctest.Wait()
	})
}

// A waiter that one node woke again and again in vain tries at once when a quorum has the lock for it. That one is a node
// that the holder does not reach: it never has the lock for anybody.
func TestWaiterTriesAtOnceWhenAQuorumIsReadyHoweverOftenOneNodeWokeIt(t *testing.T) {
	const longest = protocol.ReservationTTL / 4
	for name, c := range map[string]struct {
		nodes []int         // that woke it in vain
		waits time.Duration // when a quorum has woken it
	}{
		"one node": {nodes: []int{0}},
		"a quorum": {nodes: []int{0, 1}, waits: longest},
	} {
		testnet.InBubble(t, 3, func(t *testing.T, net *testnet.Net) {
			w, leave := newWaiter(t, net)
			defer leave()
			ready := func(nodes []int) {
				for _, n := range nodes {
					w.wake(n, "ready", w.Ticket())
				}
			}
			for range 10 {
				ready(c.nodes)
				w.try(t)
			}
			took := testnet.Elapsed(func() {
				ready([]int{0, 1})
				require.NoError(t, w.AwaitTurn(context.Background(), farBack))
			})
			require.Equal(t, c.waits, took, name)
			synctest.Wait()
		})
	}
}

// A waiter that was told of two hand-offs, one behind the other, looks after both: a look before the second one is over
// says nothing about it.
func TestWaiterThatIsToldOfTwoHandOffsLooksAfterEach(t *testing.T) {
	testnet.InBubble(t, 3, func(t *testing.T, net *testnet.Net) {
		w, leave := newWaiter(t, net)
		defer leave()
		awaits := func() time.Duration {
			return testnet.Elapsed(func() { require.NoError(t, w.AwaitTurn(context.Background(), farBack)) })
		}
		w.queue.Message(0, "watch "+w.Ticket()+" 500")
		time.Sleep(400 * ms)
		w.queue.Message(0, "watch "+w.Ticket()+" 500")
		require.Equal(t, 100*ms, awaits())
		w.try(t)
		require.Equal(t, 400*ms, awaits())
		w.try(t)
		require.Greater(t, awaits(), time.Second)
		synctest.Wait()
	})
}
