package integration

import (
	"context"
	"errors"
	"math/rand/v2"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"

	"github.com/redlock-go/redlock"
	"github.com/redlock-go/redlock/integration/cluster"
	"github.com/redlock-go/redlock/internal/test/long"
)

// All faults except the loss of memory occur at random, at up to two of five nodes at a
// time, while clients contend for one lock: there is never more than one holder, every
// client goes on getting the lock, and in the end no key is left.
func TestExclusionHoldsAndNothingIsLeftWhileMinoritiesFailAtRandom(t *testing.T) {
	const clients = 6
	nodes := cluster.Use(t, 5)
	assertLeakFree(t)
	length := 15 * time.Second
	if !long.Tests() {
		length = 4 * time.Second
	}
	r := &room{}
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	visits := make([]*atomic.Int32, clients)
	var workers sync.WaitGroup
	for i := range clients {
		visits[i] = new(atomic.Int32)
		client := openClient(t, nodes.ProxyURLs(), redlock.WithTTL(2*soon), redlock.WithNodeTimeout(250*time.Millisecond))
		workers.Go(func() { r.visitUntil(ctx, t, client, visits[i]) })
	}
	seed := time.Now().UnixNano()
	t.Logf("seed %d", seed)
	start := time.Now()
	disturb(t, nodes, rand.New(rand.NewPCG(uint64(seed), 0)), func() bool {
		took := time.Since(start)
		starved := slices.ContainsFunc(visits, func(n *atomic.Int32) bool { return n.Load() == 0 })
		return took < length || starved && took < length+time.Minute
	})
	cancel()
	workers.Wait()
	nodes.Thaw(t)
	nodes.Heal()

	assert.Zero(t, r.crowded.Load(), "two visitors at the same time")
	assert.EqualValues(t, r.ours.Load(), r.counter, "visits were overwritten")
	for i, n := range visits {
		t.Logf("client %d: %d visits", i, n.Load())
		assert.Positive(t, n.Load(), "client %d never got the lock", i)
	}
	assertNoKeys(t, nodes)
}

// visitUntil locks and visits until ctx ends, and counts the visits.
func (r *room) visitUntil(ctx context.Context, t *testing.T, client *redlock.Client, visits *atomic.Int32) {
	for {
		lease, err := client.Mutex("room").Lock(ctx)
		if errors.Is(err, context.Canceled) || !assert.NoError(t, err) {
			return
		}
		r.enter(&r.ours)
		assert.True(t, lease.Valid(), "the ttl must be long enough for the visit")
		visits.Add(1)
		if rand.N(3) == 0 {
			_ = lease.Extend(ctx) // whether it succeeds is not the question here
		}
		// If one node too many is away for a moment, or replies are lost, there may be no
		// quorum of confirmations: the undos follow later.
		if err := lease.Unlock(ctx); err != nil && !errors.Is(err, redlock.ErrNoQuorum) {
			assert.NoError(t, err)
		}
		time.Sleep(rand.N(2 * time.Millisecond))
	}
}

// disturb lets a random fault befall each of two random nodes, again and again,
// for as long as it may go on.
func disturb(t *testing.T, nodes cluster.Nodes, r *rand.Rand, goOn func() bool) {
	t.Helper()
	faults := []func(n *cluster.Node){
		func(n *cluster.Node) { n.Freeze(t) },
		(*cluster.Node).Cut,
		(*cluster.Node).HoldReplies,
		(*cluster.Node).LoseReply,
		(*cluster.Node).Strand,
		(*cluster.Node).Reset,
		func(n *cluster.Node) { n.Delay(time.Duration(r.IntN(20)) * time.Millisecond) },
		func(n *cluster.Node) { n.Do(t, "SCRIPT", "FLUSH") },
		func(n *cluster.Node) { n.Do(t, "CLIENT", "KILL", "TYPE", "normal", "SKIPME", "yes") },
	}
	for goOn() {
		for _, place := range r.Perm(len(nodes))[:2] {
			faults[r.IntN(len(faults))](nodes[place])
		}
		// Some faults outlast the connections, most do not.
		nap := time.Duration(r.IntN(300)) * time.Millisecond
		if r.IntN(8) == 0 {
			nap = 1500 * time.Millisecond
		}
		time.Sleep(nap)
		nodes.Thaw(t)
		nodes.Heal()
		time.Sleep(time.Duration(r.IntN(100)) * time.Millisecond)
	}
}
