package integration

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/redlock-go/redlock"
	"github.com/redlock-go/redlock/integration/cluster"
	"github.com/redlock-go/redlock/internal/test/long"
)

// A fault takes nodes away from their clients.
type fault struct {
	name   string
	urls   func(cluster.Nodes) []string
	strike func(testing.TB, cluster.Nodes)
	repair func(testing.TB, cluster.Nodes)
	// outcome and cause are those of a vote under this fault, of a client that was connected.
	outcome redlock.Outcome
	cause   string
}

var (
	down = fault{
		name:    "down",
		urls:    cluster.Nodes.URLs,
		strike:  func(t testing.TB, ns cluster.Nodes) { ns.Kill(t) },
		repair:  func(t testing.TB, ns cluster.Nodes) { ns.Start(t) },
		outcome: "not sent",
		cause:   "connect",
	}
	frozen = fault{
		name:    "frozen",
		urls:    cluster.Nodes.URLs,
		strike:  func(t testing.TB, ns cluster.Nodes) { ns.Freeze(t) },
		repair:  func(t testing.TB, ns cluster.Nodes) { ns.Thaw(t) },
		outcome: "unknown",
		cause:   "no answer within " + nodeTimeout.String(),
	}
	cutOff = fault{
		name:    "cut off",
		urls:    cluster.Nodes.ProxyURLs,
		strike:  func(_ testing.TB, ns cluster.Nodes) { ns.Cut() },
		repair:  func(_ testing.TB, ns cluster.Nodes) { ns.Heal() },
		outcome: "unknown",
		cause:   "no answer within " + nodeTimeout.String(),
	}
)

// eachFault runs a test for every size of cluster and every fault; for five nodes
// only, unless long tests run.
func eachFault(t *testing.T, test func(t *testing.T, nodes cluster.Nodes, f fault)) {
	sizes := []int{3, 5, 7}
	if !long.Tests() {
		sizes = []int{5}
	}
	for _, n := range sizes {
		for _, f := range []fault{down, frozen, cutOff} {
			t.Run(fmt.Sprintf("%d nodes, %s", n, f.name), func(t *testing.T) {
				t.Parallel()
				test(t, cluster.Use(t, n), f)
			})
		}
	}
}

// A healthy majority does not wait for the others: the node timeout is longer than
// the calls may take.
func TestLocksWorkWhileAnyMinorityIsAway(t *testing.T) {
	eachFault(t, func(t *testing.T, nodes cluster.Nodes, f fault) {
		client := openClient(t, f.urls(nodes))
		awaitAllVotes(t, client, nodes)
		for i, away := range minorities(len(nodes), !long.Tests() || f.name == down.name) {
			lost := nodes.Pick(away...)
			f.strike(t, lost)
			took := timed(func() { assertUsable(t, client, fmt.Sprint("minority-", i)) })
			assert.Less(t, took, soon, "three calls without nodes %v", away)
			f.repair(t, lost)
			awaitAllVotes(t, client, nodes)
		}
		assertNoKeys(t, nodes)
	})
}

// That calls end within a node timeout is shown in virtual time:
// TestMajorityAwayGivesNoQuorumWithinANodeTimeout.
func TestMajorityAwayIsErrNoQuorumAndNamesEachNode(t *testing.T) {
	eachFault(t, func(t *testing.T, nodes cluster.Nodes, f fault) {
		client := openClient(t, f.urls(nodes), shortTimeout())
		awaitAllVotes(t, client, nodes)
		held, err := client.Mutex("held").Lock(t.Context())
		require.NoError(t, err)
		lost := nodes[:len(nodes)/2+1]
		f.strike(t, lost)
		if f.name == down.name {
			awaitDisconnects(t, client, lost)
		}

		took := timed(func() { _, err = client.Mutex("name").TryLock(t.Context()) })
		assert.Less(t, took, soon)
		assertVotes(t, err, nodes, lost, f)

		took = timed(func() { err = held.Extend(t.Context()) })
		assert.ErrorIs(t, err, redlock.ErrNoQuorum)
		assert.Less(t, took, soon)
		took = timed(func() { err = held.Unlock(t.Context()) })
		assert.ErrorIs(t, err, redlock.ErrNoQuorum)
		assert.Less(t, took, soon)

		ctx, cancel := context.WithTimeout(t.Context(), 2*nodeTimeout)
		defer cancel()
		took = timed(func() { _, err = client.Mutex("name").Lock(ctx) })
		assert.ErrorIs(t, err, redlock.ErrNoQuorum)
		assert.ErrorIs(t, err, context.DeadlineExceeded)
		assert.Less(t, took, soon)

		assertNoKeys(t, nodes[len(lost):])
		f.repair(t, lost)
		awaitAllVotes(t, client, nodes)
		assertNoKeys(t, nodes)
	})
}

// awaitDisconnects waits until the client has noticed its broken connections.
func awaitDisconnects(t *testing.T, client *redlock.Client, lost cluster.Nodes) {
	t.Helper()
	require.True(t, eventually(soon, func() bool {
		_, err := client.Mutex("news").TryLock(t.Context())
		var failed *redlock.QuorumError
		known := 0
		if errors.As(err, &failed) {
			for _, vote := range failed.Votes {
				if vote.Outcome == down.outcome && strings.Contains(vote.Cause.Error(), down.cause) {
					known++
				}
			}
		}
		return known == len(lost)
	}), "the client does not notice that the nodes are down")
}

// assertVotes expects ErrNoQuorum with a vote of every node: why the lost ones
// have none, and that the others granted.
func assertVotes(t *testing.T, err error, nodes, lost cluster.Nodes, f fault) {
	t.Helper()
	require.ErrorIs(t, err, redlock.ErrNoQuorum)
	var failed *redlock.QuorumError
	require.ErrorAs(t, err, &failed)
	require.Len(t, failed.Votes, len(nodes))
	assert.Equal(t, len(nodes)/2+1, failed.Need)
	for i, vote := range failed.Votes {
		addr := strings.TrimPrefix(f.urls(nodes)[i], "redis://")
		assert.Equal(t, i, vote.Index)
		assert.Contains(t, vote.Node, addr)
		if i >= len(lost) {
			continue // granted, or not waited for any more
		}
		assert.Equal(t, f.outcome, vote.Outcome, "node %d: %v", i, vote.Cause)
		assert.ErrorContains(t, vote.Cause, f.cause)
		assert.ErrorContains(t, err, addr)
		assert.ErrorContains(t, err, vote.Cause.Error())
	}
}

// minorities lists sets of places among n: all largest minorities, or only so
// many that each node is away once.
func minorities(n int, few bool) [][]int {
	size := (n - 1) / 2
	var sets [][]int
	if few {
		for first := 0; first < n; first += size {
			set := make([]int, size)
			for i := range set {
				set[i] = (first + i) % n
			}
			sets = append(sets, set)
		}
		return sets
	}
	var grow func(set []int, from int)
	grow = func(set []int, from int) {
		if len(set) == size {
			sets = append(sets, append([]int(nil), set...))
			return
		}
		for i := from; i < n; i++ {
			grow(append(set, i), i+1)
		}
	}
	grow(nil, 0)
	return sets
}
