package integration

import (
	"context"
	"math/rand/v2"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/redlock-go/redlock"
	"github.com/redlock-go/redlock/integration/cluster"
)

// Several clients lock one name, admission on, while one server after the other
// is killed and comes back with all its data, with an old copy, or with none,
// and another one is frozen. Tokens increase, and nobody holds beside another.
func TestTokensIncreaseWhileServersLoseTheirMemory(t *testing.T) {
	const clients, shortTTL, rounds = 8, 2 * time.Second, 4
	nodes := cluster.Use(t, 5)
	assertLeakFree(t)

	ctx, cancel := context.WithCancel(t.Context())
	var last, holders, leases int64
	var mu sync.Mutex // protects the three
	var workers sync.WaitGroup
	work := func(_ context.Context, lease *redlock.Lease) error {
		mu.Lock()
		defer mu.Unlock()
		assert.Zero(t, holders, "two holders")
		assert.Greater(t, lease.Token(), last)
		last = lease.Token()
		holders, leases = 1, leases+1
		mu.Unlock()
		time.Sleep(time.Millisecond)
		mu.Lock()
		holders = 0
		return nil
	}
	for range clients {
		client := openClient(t, nodes.URLs(), redlock.WithTTL(shortTTL), redlock.WithNodeTimeout(100*time.Millisecond),
			redlock.WithRestartGuard(time.Millisecond)) // on again, as long as the ttl
		workers.Go(func() {
			for ctx.Err() == nil {
				_ = client.Mutex("tokens").Do(ctx, work)
			}
		})
	}
	defer workers.Wait()
	defer cancel()
	held := func() int64 {
		mu.Lock()
		defer mu.Unlock()
		return leases
	}
	goesOn := func() {
		before := held()
		require.True(t, eventually(20*time.Second, func() bool { return held() > before+5 }), "nobody gets the lock any more")
	}
	goesOn()
	for range rounds {
		victim := rand.N(len(nodes))
		switch rand.N(3) {
		case 0: // comes back with its last save, and without its tail
			nodes[victim].Save(t)
			goesOn()
			nodes[victim].Restart(t)
		case 1: // comes back empty
			nodes[victim].Kill(t)
			goesOn()
			nodes[victim].Start(t)
		case 2:
			nodes[victim].Do(t, "FLUSHALL")
		}
		other := nodes[(victim+1+rand.N(len(nodes)-1))%len(nodes)]
		other.Freeze(t)
		goesOn()
		other.Thaw(t)
		time.Sleep(shortTTL + recovery) // a minority at a time: admitted again
		goesOn()
	}
	t.Logf("%d leases, the last token is %d", held(), last)
}

// A lease that renews itself outlasts its ttl while one server is killed.
func TestALeaseOutlastsItsTTLOnRealServers(t *testing.T) {
	nodes := cluster.Use(t, 5)
	client := openClient(t, nodes.URLs(), redlock.WithTTL(time.Second))
	lease, err := client.Mutex("long").Lock(t.Context())
	require.NoError(t, err)
	nodes[0].Kill(t)
	nodes[1].Freeze(t)
	select {
	case <-lease.Done():
		t.Fatal(lease.Err())
	case <-time.After(4 * time.Second):
	}
	nodes[0].Start(t)
	nodes[1].Thaw(t)
	time.Sleep(recovery)
	for _, n := range nodes {
		assert.Equal(t, lease.Owner(), n.Get(t, prefix+"long"), "its key is back everywhere")
	}
	require.NoError(t, lease.Unlock(t.Context()))
	assertNoKeys(t, nodes)
}
