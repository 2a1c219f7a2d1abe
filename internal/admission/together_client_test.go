package admission_test

import (
	"context"
	"fmt"
	"math/rand/v2"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/redlock-go/redlock"
	"github.com/redlock-go/redlock/internal/admission"
	"github.com/redlock-go/redlock/internal/protocol"
	"github.com/redlock-go/redlock/internal/test/testnet"
)

// A majority loses its memory, all but the list of masters, and not all of it comes back: those that forgot together are
// admitted together, as soon as they are a quorum.

// lockWithin locks and unlocks, and returns the token and how long the lock took.
func lockWithin(t *testing.T, c *redlock.Client, limit time.Duration) (token int64, took time.Duration) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), limit)
	defer cancel()
	began := time.Now()
	lease, err := c.Mutex("x").Lock(ctx)
	require.NoError(t, err)
	took = time.Since(began)
	require.NoError(t, lease.Unlock(t.Context()))
	return lease.Token(), took
}

// kill ends the servers' runs; when they come back they remember their list of masters, and have lost all else.
func kill(nodes ...*testnet.Node) {
	for _, n := range nodes {
		n.Down()
		n.Restart(map[string]any{protocol.MembersKey: n.Snapshot()[protocol.MembersKey]})
	}
}

func TestQuorumOfEmptyServersServesWhileTheOthersStayDown(t *testing.T) {
	for _, n := range []int{3, 5} {
		for run := range testnet.Tries(10, 50) {
			t.Run(fmt.Sprintf("%d nodes, run %d", n, run), func(t *testing.T) {
				testnet.InBubble(t, n, func(t *testing.T, net *testnet.Net) {
					draw := rand.New(rand.NewPCG(uint64(n), uint64(run)))
					quorum := n/2 + 1
					ttl := time.Duration(1+draw.IntN(4)) * time.Second
					clients := []*redlock.Client{net.Guarded(redlock.WithTTL(ttl)), net.Guarded(redlock.WithTTL(2 * ttl))}
					before, _ := lockWithin(t, clients[0], time.Second)
					order := draw.Perm(n)
					killed := order[:quorum+draw.IntN(n-quorum+1)]
					for _, i := range killed {
						kill(net.Nodes[i])
					}
					time.Sleep(time.Duration(draw.Int64N(int64(5 * time.Second))))
					for _, i := range killed[:quorum] {
						net.Nodes[i].Up()
						time.Sleep(time.Duration(draw.IntN(2)) * time.Duration(draw.Int64N(int64(3*time.Second))))
					}
					token, took := lockWithin(t, clients[draw.IntN(2)], 22*time.Second)
					t.Log(took)
					require.Greater(t, token, before)

					net.Nodes.Up()
					time.Sleep(30 * time.Second) // those that come late are admitted, too
					for _, i := range killed[:n/2] {
						kill(net.Nodes[i])
					}
					last, _ := lockWithin(t, clients[draw.IntN(2)], time.Second)
					require.Greater(t, last, token, "by those that came late")
				})
			})
		}
	}
}

// The one that was admitted first says so for as long as the others need it: also if a client
// begins the others' quarantines anew, since it knows a longer ttl or saw them vote.
func TestServersThatForgotTogetherAreAdmittedWhoeverComesBetween(t *testing.T) {
	testnet.InBubble(t, 3, func(t *testing.T, net *testnet.Net) {
		require.NoError(t, net.Guarded(redlock.WithTTL(2*time.Second)).Close())
		kill(net.Nodes...)
		net.Nodes[:2].Up()
		// The first client admits one of them, and is stopped.
		first := net.NewClient(redlock.WithTTL(2*time.Second), redlock.WithRestartGuard(time.Millisecond))
		net.Nodes[1].Refuse("ERR not now", "admit")
		time.Sleep(2*time.Second + admission.MajorityLossGuard + time.Second)
		require.NoError(t, first.Close())
		require.NotEmpty(t, net.Nodes[0].Redis.HGet(net.Nodes[0].Record(), "nodes"))
		net.Nodes[1].Set(func(n *testnet.Node) { n.Override = nil })
		second := net.NewClient(redlock.WithTTL(30*time.Second), redlock.WithRestartGuard(time.Millisecond))
		synctest.Wait()
		_, took := lockWithin(t, second, 45*time.Second)
		require.Greater(t, took, 29*time.Second, "the quarantine began anew, for the longer ttl")
	})
}

// A server that voted after the others had forgotten did not forget together with them: its
// votes may be known only to a server that is down.
func TestServerThatVotedSinceIsNotAdmittedWithoutTheOthers(t *testing.T) {
	testnet.InBubble(t, 3, func(t *testing.T, net *testnet.Net) {
		c := net.Guarded(redlock.WithTTL(2 * time.Second))
		kill(net.Nodes...)
		net.Nodes[:2].Up()
		lockWithin(t, c, 25*time.Second)
		net.Nodes[2].Up()
		time.Sleep(25 * time.Second)
		// A lease of the nodes 1 and 2 alone, with a token far above the count of node 0.
		net.Nodes[0].Down()
		for range 20 {
			lockWithin(t, c, time.Second)
		}
		token, _ := lockWithin(t, c, time.Second)
		kill(net.Nodes[1])
		net.Nodes[2].Down()
		net.Nodes[0].Up()
		net.Nodes[1].Up()
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		net.NoQuorum(c.Mutex("x").Lock(ctx))
		net.Nodes[2].Up()
		next, _ := lockWithin(t, c, 5*time.Second)
		require.Greater(t, next, token)
	})
}
