package waitqueue_test

import (
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/redlock-go/redlock"
	"github.com/redlock-go/redlock/internal/test/testnet"
)

// Waiters of a live client whose tickets were dropped by the nodes.

// A client that stalls misses a challenge, so that the nodes drop the tickets of all its waiters.
// The waiters are back soon after the stall.
func TestWaitersOfAClientThatMissedAChallengeAreServedSoon(t *testing.T) {
	const waiters = 100
	testnet.InBubble(t, 3, func(t *testing.T, net *testnet.Net) {
		a, d := net.Client(), testnet.ListeningClient(t, net)
		c, pools := net.CuttableClient()
		subscribe(t, c)
		held, err := a.Mutex("x").Lock(t.Context())
		require.NoError(t, err)
		_, all := testnet.QueueUp(t, c, waiters)
		_, served := testnet.QueueUp(t, d, 1)
		time.Sleep(5 * time.Second)
		testnet.Hold(pools, true)
		require.NoError(t, held.Unlock(t.Context()))
		stalled := 2500*ms - testnet.Elapsed(served.Wait)
		require.Positive(t, stalled)
		time.Sleep(stalled)
		testnet.Hold(pools, false)
		took := testnet.Elapsed(all.Wait)
		t.Log(took)
		require.Less(t, took, 3*time.Second)
	})
}

// waitBehindALongHold returns a lease that is held for long, and waiters of another client that
// have been in the queue for some seconds.
func waitBehindALongHold(t *testing.T, net *testnet.Net, waiters int) (held *redlock.Lease, leave func(), all *sync.WaitGroup) {
	holder, c := net.Client(redlock.WithTTL(time.Hour)), net.Client()
	subscribe(t, c)
	held, err := holder.Mutex("x").Lock(t.Context())
	require.NoError(t, err)
	synctest.Wait() // it has all nodes: a free one would not keep all waiters in its queue
	leave, all = testnet.QueueUp(t, c, waiters)
	time.Sleep(10 * time.Second)
	return held, leave, all
}

// The nodes lose their queues while the lock is held for long: the foremost waiter has the others ask again, which do not look
// by themselves.
func TestWaitersOfAClientRejoinAQueueThatWasLost(t *testing.T) {
	const waiters = 300
	testnet.InBubble(t, 3, func(t *testing.T, net *testnet.Net) {
		held, leave, all := waitBehindALongHold(t, net, waiters)
		for range 2 {
			loseQueues(net)
			time.Sleep(8 * time.Second)
			for _, n := range net.Nodes {
				tickets, err := n.Redis.ZMembers("redlock::queue:redlock:x")
				require.NoError(t, err)
				require.Equal(t, waiters, len(tickets))
			}
		}
		leave()
		all.Wait()
		require.NoError(t, held.Unlock(t.Context()))
	})
}

// A node that loses its queue again and again does not make all waiters ask all the time.
func TestQueueThatIsLostAgainAndAgainCostsFewLooks(t *testing.T) {
	testnet.SlowWithRace(t)
	const waiters, seconds = 300, 60
	testnet.InBubble(t, 3, func(t *testing.T, net *testnet.Net) {
		held, leave, all := waitBehindALongHold(t, net, waiters)
		before := net.Nodes[0].Executed("acquire")
		for range 10 * seconds {
			loseQueues(net)
			time.Sleep(100 * ms)
		}
		perSecond := float64(net.Nodes[0].Executed("acquire")-before) / float64(seconds)
		t.Logf("%.0f looks a second", perSecond)
		assert.Positive(t, perSecond)
		assert.Less(t, perSecond, 100.0)
		leave()
		all.Wait()
		require.NoError(t, held.Unlock(t.Context()))
	})
}

// loseQueues deletes the queues at all nodes.
func loseQueues(net *testnet.Net) {
	for _, n := range net.Nodes {
		n.Redis.Del("redlock::queue:redlock:x")
	}
}
