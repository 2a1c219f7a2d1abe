package integration

import (
	"context"
	"errors"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/redlock-go/redlock"
	"github.com/redlock-go/redlock/integration/cluster"
)

// One node is down, and the first waiter is cut off from two more: a reservation for it at
// the two nodes that it reaches would block the others, which need three of four. It cannot
// get the lock, and must not keep them from it.
//
// Other programs on the machine disturb a comparison of speeds: so there are up to three
// pairs of phases, and medians are compared. A test of internal/waitqueue compares the
// speeds in virtual time.
func TestSoakAHalfCutWaiterLeavesTheOthersOverHalfOfTheirSpeed(t *testing.T) {
	soakOnly(t)
	const phase = 1500 * time.Millisecond
	nodes := cluster.Use(t, 5)
	nodes[0].Kill(t)
	alive := nodes[1:]
	others := make([]*redlock.Client, 4)
	for i := range others {
		others[i] = openClient(t, nodes.URLs(), shortTimeout())
		awaitAllVotes(t, others[i], alive)
	}
	halfCut := openClient(t, nodes.ProxyURLs(), shortTimeout())
	awaitAllVotes(t, halfCut, alive)
	contend(t, others, phase/4) // warm up

	var without, with []float64
	ratio := func() float64 { return median(with) / median(without) }
	for pairs := 0; pairs < 1 || pairs < 3 && ratio() <= 0.5; pairs++ {
		without = append(without, contend(t, others, phase))
		reconnect := waitHalfCut(t, others[0], halfCut, alive)
		with = append(with, contend(t, others, 2*phase))
		reconnect()
	}
	t.Logf("sections per second without it %.0f, with it %.0f", without, with)
	assert.Greater(t, ratio(), 0.5)
	assertNothingWaits(t, alive)
}

// waitHalfCut lets a client wait for a holder, as the first waiter, and cuts it off from the
// first two of four nodes before the lock is released. It waits on until the returned
// function ends the wait and heals the network.
func waitHalfCut(t *testing.T, holder, halfCut *redlock.Client, alive cluster.Nodes) (reconnect func()) {
	t.Helper()
	lease, err := holder.Mutex(queueName).Lock(within(t, soon))
	require.NoError(t, err)
	ctx, cancel := context.WithCancel(t.Context())
	var waiting sync.WaitGroup
	waiting.Go(func() {
		_, err := halfCut.Mutex(queueName).Lock(ctx)
		assert.ErrorIs(t, err, context.Canceled, "it reaches only two of five nodes")
	})
	end := sync.OnceFunc(func() { cancel(); waiting.Wait() })
	t.Cleanup(end)
	awaitQueue(t, alive, 1)
	alive[:2].Cut()
	require.NoError(t, lease.Unlock(t.Context()))
	return func() {
		end()
		alive.Heal()
		awaitAllVotes(t, halfCut, alive)
	}
}

// contend lets all clients lock and unlock one name for a while, and returns how many times
// per second they did.
func contend(t *testing.T, clients []*redlock.Client, d time.Duration) float64 {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), d)
	defer cancel()
	var sections atomic.Int64
	var callers sync.WaitGroup
	for _, client := range clients {
		callers.Go(func() {
			for {
				lease, err := client.Mutex(queueName).Lock(ctx)
				if errors.Is(err, context.DeadlineExceeded) || !assert.NoError(t, err) {
					return
				}
				sections.Add(1)
				if !assert.NoError(t, lease.Unlock(t.Context())) {
					return
				}
			}
		})
	}
	callers.Wait()
	return float64(sections.Load()) / d.Seconds()
}

func median(values []float64) float64 {
	sorted := slices.Sorted(slices.Values(values))
	return sorted[len(sorted)/2]
}

// deadTicket is the ticket of a dead client that came before all others.
const deadTicket = "0000000000000001-deadclient-0000000001"

// The waiters find the key missing at nodes that lost their memory, and the nodes reserve it
// for one that is dead: the holder's renewal restores it all the same.
func TestRecoveredNodesGetTheHoldersKeyBackWhileOthersWait(t *testing.T) {
	t.Parallel()
	notInShort(t)
	nodes := cluster.Use(t, 5)
	holder := openClient(t, nodes.URLs(), redlock.WithTTL(3*time.Second), redlock.WithNodeTimeout(time.Second))
	lease, err := holder.Mutex(queueName).Lock(within(t, soon))
	require.NoError(t, err)
	var waiters []<-chan struct{}
	for range 4 {
		waiters = append(waiters, queueUp(t, openClient(t, nodes.URLs())))
	}
	awaitQueue(t, nodes, len(waiters))

	lost := nodes[:2]
	lost.Kill(t)
	lost.Start(t)
	for _, n := range lost {
		n.Do(t, "SET", prefix+queueName, "redlock::reserved:"+deadTicket, "PX", ttl.Milliseconds())
	}
	back := func() bool {
		return !slices.ContainsFunc(lost, func(n *cluster.Node) bool { return n.Get(t, prefix+queueName) != lease.Owner() })
	}
	// Long before the reservations end.
	assert.True(t, eventually(soon, back), "the key is not back")
	time.Sleep(time.Second) // while the waiters poll
	assert.True(t, back(), "the key did not stay")
	require.NoError(t, lease.Err())
	require.NoError(t, lease.Unlock(t.Context()))
	for _, served := range waiters {
		assertServedSoon(t, served)
	}
	assertNothingWaits(t, nodes)
}
