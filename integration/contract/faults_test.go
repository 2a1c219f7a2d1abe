package contract

import (
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/redlock-go/redlock"
	"github.com/redlock-go/redlock/integration/cluster"
)

func minorityIsDown(s scene) {
	minorityAway(s, func(ns cluster.Nodes) { ns.Kill(s) }, func(ns cluster.Nodes) { ns.Start(s) })
}

func minorityIsFrozen(s scene) {
	minorityAway(s, func(ns cluster.Nodes) { ns.Freeze(s) }, func(ns cluster.Nodes) { ns.Thaw(s) })
}

func minorityIsCutOff(s scene) {
	minorityAway(s, cluster.Nodes.Cut, cluster.Nodes.Heal)
}

// minorityAway expects that all calls go on without a minority, for a client that was connected and
// for a new one, and that nothing is left at the minority when it is back.
func minorityAway(s scene, strike, repair func(cluster.Nodes)) {
	away := s.nodes[:(len(s.nodes)-1)/2]
	client, other := s.client(), s.client()
	s.awaitUp(client)
	held := s.lock(client.Mutex(name))
	s.awaitKeys(held, s.nodes)
	waiter := s.begin(other.Mutex(name).Lock)
	s.awaitWaiters(client, name, 1)

	strike(away)
	require.NoError(s, held.Extend(s.within(soon)))
	s.unlock(held)
	next := <-waiter
	require.NotNil(s, next)
	s.unlock(next)
	newcomer := s.client(redlock.WithNodeTimeout(nodeTimeout))
	for _, c := range []*redlock.Client{client, newcomer} {
		lease := s.lock(c.Mutex("meanwhile"))
		require.NoError(s, lease.Extend(s.within(soon)))
		s.unlock(lease)
	}

	repair(away)
	for _, c := range []*redlock.Client{client, other, newcomer} {
		s.awaitUp(c)
	}
	s.awaitNoOrphans()
}

func masterRestarts(s scene) {
	masterForgets(s, func(n *cluster.Node) { n.Restart(s) })
}

func masterIsWiped(s scene) {
	masterForgets(s, func(n *cluster.Node) { n.Do(s, "FLUSHALL") })
}

// masterForgets expects that a lease outlasts a master that loses its memory, and that the master does
// not vote until a guard is over; then it gets the lease's key again.
func masterForgets(s scene, lose func(n *cluster.Node)) {
	client := s.guarded(s.addresses())
	s.awaitUp(client) // else a renewal may just give a node the key when another one loses it: then a quorum lacked it
	lease := s.lock(client.Mutex(name))
	s.awaitKeys(lease, s.nodes)

	began := time.Now()
	lose(s.nodes[0])
	_, err := s.guarded(s.addresses()).Mutex(name).TryLock(s.within(soon))
	require.ErrorIs(s, err, redlock.ErrHeld)
	other := s.lock(client.Mutex("other"))
	s.unlock(other)
	s.awaitKeys(lease, s.nodes)
	assert.GreaterOrEqual(s, time.Since(began), guard, "it voted before the leases that it forgot have ended")
	require.True(s, lease.Valid())

	s.awaitUp(client)
	s.nodes[1].Freeze(s)
	again := s.lock(client.Mutex("other")) // it takes the vote of the master that forgot
	assert.Greater(s, again.Token(), other.Token())
	s.nodes[1].Thaw(s)
	s.unlock(again)
	s.unlock(lease)
	s.awaitNoOrphans()
}

func masterForgetsItsScripts(s scene) {
	a, b := s.client(), s.client()
	lease := s.lock(a.Mutex(name))
	waiter := s.begin(b.Mutex(name).Lock)
	s.awaitWaiters(a, name, 1)
	for _, n := range s.nodes {
		n.Do(s, "SCRIPT", "FLUSH")
	}
	require.NoError(s, lease.Extend(s.within(soon)))
	s.unlock(lease)
	next := <-waiter
	require.NotNil(s, next)
	s.unlock(next)
	s.awaitNoOrphans()
}

// The nodes executed the attempt, and the client does not know it.
func noOrphanOfALostAnswer(s scene) {
	client := s.client(redlock.WithNodeTimeout(nodeTimeout))
	s.awaitUp(client)
	for _, n := range s.nodes[:2] {
		n.LoseReply()
	}
	if lease, err := client.Mutex(name).TryLock(s.within(soon)); err == nil {
		s.unlock(lease)
	}
	s.awaitUp(client)
	s.awaitNoOrphans()
}

func noOrphanOfAFrozenMajority(s scene) {
	client := s.client(redlock.WithNodeTimeout(nodeTimeout))
	s.awaitUp(client)
	s.nodes[:2].Freeze(s)
	_, err := client.Mutex(name).TryLock(s.within(soon))
	require.ErrorIs(s, err, redlock.ErrNoQuorum)
	s.nodes.Thaw(s)
	s.awaitNoOrphans()
}

// The release reaches a node that has the key only when the network has healed.
func noOrphanOfAReleaseWhileCutOff(s scene) {
	client := s.client(redlock.WithNodeTimeout(nodeTimeout))
	s.awaitUp(client)
	lease := s.lock(client.Mutex(name))
	s.awaitKeys(lease, s.nodes)
	s.nodes[0].Cut()
	s.unlock(lease)
	s.await("the client keeps a connection on which nothing is answered", func() bool {
		_ = client.Ping(s.within(soon))
		return client.Stats().Nodes[0].State == "down"
	})
	require.Equal(s, lease.Owner(), s.nodes[0].Get(s, prefix+name))
	s.nodes[0].Heal()
	s.awaitNoOrphans()
}

func noOrphanAfterClose(s scene) {
	client := s.client()
	s.lock(client.Mutex(name))
	s.lock(client.Multi([]string{"one", "two"}))
	_, err := client.RWMutex("shared").RLock(s.within(soon))
	require.NoError(s, err)
	_, err = client.Semaphore("permits", 2).Acquire(s.within(soon), 1)
	require.NoError(s, err)
	require.NoError(s, client.Close())
	s.awaitNoOrphans()
}
