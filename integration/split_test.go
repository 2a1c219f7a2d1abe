package integration

import (
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/redlock-go/redlock"
	"github.com/redlock-go/redlock/integration/cluster"
)

// Clients that ask at the same instant may split the votes so that none has a quorum;
// TryLock must resolve that by itself. Near the servers a split is rare: the client that is
// first at one node is first at most nodes. Far away, where requests overtake each other on
// their way, it is the rule.
func TestOneOfSeveralConcurrentTryLocksGetsAFreeLock(t *testing.T) {
	notInShort(t)
	for _, place := range []struct {
		name    string
		urls    func(cluster.Nodes) []string
		delay   time.Duration
		clients []int
		rounds  int
	}{
		{"near", cluster.Nodes.URLs, 0, []int{2, 3, 5, 8}, 200},
		{"far", cluster.Nodes.ProxyURLs, time.Millisecond, []int{3, 5, 8}, 60},
	} {
		for _, n := range place.clients {
			t.Run(fmt.Sprintf("%d clients, %s", n, place.name), func(t *testing.T) {
				nodes := cluster.Use(t, 5)
				clients := distinctClients(t, nodes, n, place.urls)
				for _, node := range nodes {
					node.Delay(place.delay)
				}
				won := 0
				for round := range place.rounds {
					name := fmt.Sprint("round-", round)
					winners := tryAtOnce(t, clients, name)
					require.LessOrEqual(t, winners, 1, "the lock was granted twice")
					won += winners
				}
				t.Logf("someone got it in %d of %d rounds", won, place.rounds)
				assert.GreaterOrEqual(t, won, place.rounds*99/100)
				assertNoKeys(t, nodes)
			})
		}
	}
}

// distinctClients makes n clients, each of which asks the nodes in an order of its own, as if
// other nodes were near to it.
func distinctClients(t *testing.T, nodes cluster.Nodes, n int, urlsOf func(cluster.Nodes) []string) []*redlock.Client {
	t.Helper()
	clients := make([]*redlock.Client, n)
	for i := range clients {
		urls := urlsOf(nodes)
		first := i % len(urls)
		clients[i] = openClient(t, append(urls[first:], urls[:first]...))
		awaitAllVotes(t, clients[i], nodes)
	}
	return clients
}

// tryAtOnce lets all clients try, from a barrier on, and returns how many got the
// lock. It is released when all have their answer.
func tryAtOnce(t *testing.T, clients []*redlock.Client, name string) int {
	t.Helper()
	var winners atomic.Int32
	var ready, answered, done sync.WaitGroup
	barrier := make(chan struct{})
	for _, client := range clients {
		ready.Add(1)
		answered.Add(1)
		done.Go(func() {
			ready.Done()
			<-barrier
			lease, err := client.Mutex(name).TryLock(t.Context())
			answered.Done()
			if err != nil {
				return
			}
			winners.Add(1)
			answered.Wait()
			assert.NoError(t, lease.Unlock(t.Context()))
		})
	}
	ready.Wait()
	close(barrier)
	done.Wait()
	return int(winners.Load())
}
