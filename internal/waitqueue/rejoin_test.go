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
		held := net.Must(a.Mutex("x").Lock(t.Context()))
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
	held = net.Must(holder.Mutex("x").Lock(t.Context()))
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

// The following bounds in virtual time how soon locks go on. The tests on real servers show only that they do.

// load makes a node answer as a server that loads its data, or ends that.
func load(n *testnet.Node, yes bool) {
	n.Set(func(n *testnet.Node) {
		n.Override = nil
		if yes {
			n.Override = func(string, []string) string { return "LOADING Redis is loading the dataset in memory" }
		}
	})
}

func TestNodeVotesWithinTwoSecondsOfItsRecovery(t *testing.T) {
	for name, fault := range map[string]struct{ begin, end func(n *testnet.Node) }{
		"down":    {(*testnet.Node).Down, (*testnet.Node).Up},
		"frozen":  {(*testnet.Node).Freeze, (*testnet.Node).Thaw},
		"loading": {func(n *testnet.Node) { load(n, true) }, func(n *testnet.Node) { load(n, false) }},
	} {
		t.Run(name, func(t *testing.T) {
			testnet.InBubble(t, 3, func(t *testing.T, net *testnet.Net) {
				c := net.Client()
				// votes locks, and reports whether all nodes granted the lock.
				votes := func() bool {
					lease := net.Must(c.Mutex("x").TryLock(t.Context()))
					defer func() { require.NoError(t, lease.Unlock(t.Context())) }()
					time.Sleep(ms)
					return net.Holders(lease) == len(net.Nodes)
				}
				require.True(t, votes())
				fault.begin(net.Nodes[0])
				for range 20 {
					require.False(t, votes())
					time.Sleep(500 * ms)
				}
				fault.end(net.Nodes[0])
				took := testnet.Elapsed(func() {
					for tries := 0; !votes() && tries < 1000; tries++ {
						time.Sleep(10 * ms)
					}
				})
				t.Logf("it votes after %v", took)
				require.LessOrEqual(t, took, 2*time.Second)
			})
		})
	}
}

// Other Redlock clients delete the key and send no wake-up.
func TestWaiterNoticesAForeignReleaseWithinAboutASecond(t *testing.T) {
	testnet.InBubble(t, 5, func(t *testing.T, net *testnet.Net) {
		for _, n := range net.Nodes {
			require.NoError(t, n.Redis.Set("redlock:x", "foreign"))
			n.Redis.SetTTL("redlock:x", time.Minute)
		}
		_, served := testnet.QueueUp(t, net.Client(), 1)
		time.Sleep(5 * time.Second)
		for _, n := range net.Nodes {
			require.True(t, n.Redis.Del("redlock:x"))
		}
		took := testnet.Elapsed(served.Wait)
		t.Logf("the waiter is served after %v", took)
		require.LessOrEqual(t, took, 1300*ms)
	})
}
