package admission_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/redlock-go/redlock"
	"github.com/redlock-go/redlock/internal/admission"
	"github.com/redlock-go/redlock/internal/protocol"
	"github.com/redlock-go/redlock/internal/test/testhook"
	"github.com/redlock-go/redlock/internal/test/testnet"
)

// A node that lost its memory, or a part of it, does not vote before all leases have ended
// that it may have forgotten.

func TestNewClusterServesAfterOneGuard(t *testing.T) {
	testnet.OfEachKind(t, 5, func(t *testing.T, net *testnet.Net) {
		c := net.NewClient(redlock.WithRestartGuard(time.Millisecond), redlock.WithTTL(10*time.Second))
		_, err := net.Mutex(c, "x").TryLock(t.Context())
		require.ErrorIs(t, err, redlock.ErrNoQuorum)
		require.ErrorContains(t, err, "it does not vote for another 10s")
		var lease *redlock.Lease
		took := testnet.Elapsed(func() { lease, err = net.Mutex(c, "x").Lock(t.Context()) })
		require.NoError(t, err)
		require.InDelta(t, 10*time.Second, took, float64(300*ms))
		require.Greater(t, lease.Token(), time.Now().Add(-time.Minute).UnixMicro(), "tokens begin from the clock")
		require.Less(t, lease.Token(), int64(1)<<53)

		again := net.NewClient(redlock.WithRestartGuard(time.Millisecond))
		other, err := net.Mutex(again, "y").TryLock(t.Context())
		require.NoError(t, err, "the next client does not wait")
		require.NoError(t, other.Unlock(t.Context()))
	})
}

// forget has the ways in which a node loses a lease that it granted.
var forget = map[string]func(n *testnet.Node, before map[string]any){
	"restarted empty":                 func(n *testnet.Node, _ map[string]any) { n.Restart(nil) },
	"restarted without its last part": func(n *testnet.Node, before map[string]any) { n.Restart(before) },
	"wiped on a live connection":      func(n *testnet.Node, _ map[string]any) { n.Redis.FlushAll() },
	"replaced by the data of another node": func(n *testnet.Node, before map[string]any) {
		n.Redis.FlushAll()
		for key := range before {
			if strings.Contains(key, ":"+n.RunID) {
				delete(before, key)
			}
		}
		n.Restore(before)
	},
	"without its record and its locks, but with its quarantine": func(n *testnet.Node, _ map[string]any) {
		for _, key := range n.Keys() {
			if !strings.HasPrefix(key, protocol.Reserved) || strings.HasPrefix(key, protocol.Key("record", n.RunID)) {
				n.Redis.Del(key)
			}
		}
	},
}

// twoHolders lets one client hold a lease on exactly a quorum, lets a node of that quorum
// forget it, and lets another client ask all nodes. second is nil if the other client got no
// lease while the first was valid.
func twoHolders(t *testing.T, net *testnet.Net, lose func(n *testnet.Node, before map[string]any), guard, ttl time.Duration) (lease, second *redlock.Lease) {
	a, b := net.Guarded(redlock.WithRestartGuard(guard), redlock.WithTTL(ttl)), net.Guarded(redlock.WithRestartGuard(guard))
	before := net.Nodes[1].Snapshot()
	time.Sleep(time.Second)
	net.Nodes[2].Down()
	synctest.Wait()
	lease, err := net.Mutex(a, "x", redlock.WithoutRenewal()).Lock(t.Context())
	require.NoError(t, err)
	require.Equal(t, 2, net.Holders(lease))
	lose(net.Nodes[1], before)
	net.Nodes[2].Up()
	for lease.Valid() {
		second, err = b.Mutex("x").TryLock(t.Context())
		if err == nil {
			return lease, second
		}
		time.Sleep(ttl / 100)
	}
	return lease, nil
}

func TestNodeThatForgotCannotHelpASecondHolder(t *testing.T) {
	t.Parallel()
	for name, lose := range forget {
		t.Run(name, func(t *testing.T) {
			testnet.OfEachKind(t, 3, func(t *testing.T, net *testnet.Net) {
				_, second := twoHolders(t, net, lose, time.Millisecond, 10*time.Second)
				require.Nil(t, second)
			})
		})
		t.Run(name+", of a longer ttl than the others use", func(t *testing.T) {
			testnet.OfEachKind(t, 3, func(t *testing.T, net *testnet.Net) {
				_, second := twoHolders(t, net, lose, time.Millisecond, 40*time.Second)
				require.Nil(t, second)
			})
		})
	}
}

// This is why admission is on: without it the same schedules produce two holders.
func TestWithoutAdmissionANodeThatForgotMakesTwoHolders(t *testing.T) {
	for name, lose := range forget {
		t.Run(name, func(t *testing.T) {
			testnet.OfEachKind(t, 3, func(t *testing.T, net *testnet.Net) {
				lease, second := twoHolders(t, net, lose, 0, 10*time.Second)
				require.NotNil(t, second)
				require.True(t, lease.Valid() && second.Valid())
			})
		})
	}
}

func TestWipedNodeVotesAgainAfterTheGuard(t *testing.T) {
	testnet.OfEachKind(t, 5, func(t *testing.T, net *testnet.Net) {
		c := net.Guarded(redlock.WithTTL(2 * time.Second))
		for i := range 5 {
			net.Nodes[i].Restart(nil)
			time.Sleep(3 * time.Second)
			lease := net.Must(net.Mutex(c, "x").Lock(t.Context()))
			require.Equal(t, 5, net.Holders(lease), "the node is back after its guard")
			require.NoError(t, lease.Unlock(t.Context()))
		}
	})
}

// A client finds a quarantine of a minute. It ends sooner: the node lost its memory again,
// and another client admitted it after a shorter one.
func TestClientFindsThatAQuarantineEndedSooner(t *testing.T) {
	testnet.OfEachKind(t, 3, func(t *testing.T, net *testnet.Net) {
		c := net.Guarded(redlock.WithTTL(time.Minute))
		net.Nodes[0].Restart(nil)
		time.Sleep(time.Second)
		require.ErrorContains(t, members(c)[0].Current().Why(), "it does not vote for another")
		net.Nodes[0].Redis.Del(protocol.Key("guard", net.Nodes[0].RunID))
		time.Sleep(2 * admission.QuarantineInterval)
		require.True(t, members(c)[0].Current().Votes)
	})
}

func TestRenewalPutsTheKeyBackAtANodeOnceItVotesAgain(t *testing.T) {
	testnet.OfEachKind(t, 3, func(t *testing.T, net *testnet.Net) {
		c := net.Guarded()
		lease := net.Must(net.Mutex(c, "x").Lock(t.Context()))
		synctest.Wait() // the attempt is over at every node
		net.Nodes[0].Restart(nil)
		time.Sleep(time.Second)
		require.NoError(t, lease.Extend(t.Context()))
		require.Equal(t, 2, net.Holders(lease), "a node that may have forgotten a vote shows nothing")
		time.Sleep(14 * time.Second) // the guard, and a renewal
		require.Equal(t, 3, net.Holders(lease))
		require.NoError(t, lease.Unlock(t.Context()))
		net.RequireNoKeys()
	})
}

// A client whose settings name three of five masters uses the list of five: it needs three votes.
func TestClientThatWasGivenSomeOfTheMasters(t *testing.T) {
	testnet.OfEachKind(t, 5, func(t *testing.T, net *testnet.Net) {
		net.Guarded()
		c, _ := clientOf(net, []int{0, 1, 2})
		lease := net.Must(net.Mutex(c, "x").Lock(t.Context()))
		require.NoError(t, lease.Unlock(t.Context()))
		require.Len(t, c.Members(), 5)
		net.Nodes[0].Down()
		time.Sleep(time.Second)
		_, err := net.Mutex(c, "x").TryLock(t.Context())
		require.ErrorContains(t, err, "0 of 3 nodes granted, 3 needed")
	})
}

func TestNodesAreUnfitForAClientOfAnotherClusterSize(t *testing.T) {
	testnet.OfEachKind(t, 7, func(t *testing.T, net *testnet.Net) {
		five, _ := clientOf(net, []int{0, 1, 2, 3, 4})
		net.Must(five.Mutex("first").Lock(t.Context()))
		c, _ := clientOf(net, []int{4, 5, 6})
		time.Sleep(time.Second) // it has looked at all of them, and at the first one again
		_, err := net.Mutex(c, "x").TryLock(t.Context())
		require.ErrorIs(t, err, redlock.ErrNoQuorum)
		require.ErrorContains(t, err, "it is a master of a cluster of 5 nodes, and this client has 3, of which most are none of them")
	})
}

// Two of three nodes vote in a cluster of five. Their records are no quorum of three, with which the third could vote.
func TestRecordsOfAnotherClusterSizeAdmitNoNode(t *testing.T) {
	testnet.InBubble(t, 3, func(t *testing.T, net *testnet.Net) {
		require.NoError(t, net.Guarded().Close())
		for _, n := range net.Nodes[1:] {
			n.Redis.HSet(n.Record(), "nodes", "5")
		}
		net.Nodes[0].Redis.FlushAll()
		c := net.NewClient(redlock.WithRestartGuard(time.Millisecond))
		time.Sleep(12 * time.Second)
		require.ErrorContains(t, members(c)[0].Current().Why(), "with the counters of 2 other nodes that vote (0 answered)")
	})
}

func TestLongerTTLIsPutOnRecordBeforeItIsUsed(t *testing.T) {
	testnet.OfEachKind(t, 3, func(t *testing.T, net *testnet.Net) {
		c := net.Guarded()
		lease := net.Must(net.Mutex(c, "x", redlock.WithTTL(time.Minute)).TryLock(t.Context()))
		require.NoError(t, lease.Unlock(t.Context()))
		for _, n := range net.Nodes {
			require.Equal(t, "60000", n.Redis.HGet(n.Record(), "ttl"))
		}
	})
}

func TestDelayedAdmissionCannotEndASecondQuarantine(t *testing.T) {
	testnet.OfEachKind(t, 3, func(t *testing.T, net *testnet.Net) {
		c, n := net.Guarded(), net.Nodes[0]
		lose := func() (quarantine string) {
			n.Redis.FlushAll()
			members(c)[0].Nudge()
			synctest.Wait()
			quarantine, _ = n.Redis.Get(n.Key("guard"))
			require.NotEmpty(t, quarantine)
			return quarantine
		}
		first := lose()
		require.NotEqual(t, first, lose())
		n.Redis.Del(n.Key("guard")) // as if the second were over
		call := protocol.AdmitCall{Run: protocol.Run(n.RunID), Quarantine: first, Nodes: 3, Longest: 10 * time.Second}
		admitted, err := protocol.ReadAdmit(n.Eval(call.Eval()))
		require.NoError(t, err)
		require.False(t, admitted, "the client collected these counters for the quarantine before")
		require.False(t, n.Redis.Exists(call.Run.Record(first)))
	})
}

func TestNamesUnderTheReservedPrefixAreRefused(t *testing.T) {
	testnet.OfEachKind(t, 1, func(t *testing.T, net *testnet.Net) {
		_, err := net.Client().Mutex(":record:x").TryLock(t.Context())
		require.ErrorIs(t, err, redlock.ErrConfig)
		require.ErrorContains(t, err, "reserved")
	})
}

// Every ten seconds the client looks at the node's record, and waits for the answer. That
// must not keep it from giving up a connection that leads nowhere, such as one that a
// firewall has forgotten.
func TestSilentConnectionIsGivenUpInTimeWhileTheRecordIsLookedAt(t *testing.T) {
	testnet.OfEachKind(t, 3, func(t *testing.T, net *testnet.Net) {
		c := net.Guarded()
		silent := net.Nodes[0].Links
		hold := func(held bool) {
			net.Nodes[0].Set(func(*testnet.Node) {
				for _, l := range silent {
					l.Held = held
				}
			})
		}
		hold(true)
		defer hold(false)
		p, deadAfter, clock := members(c)[0].Pipe(), max(4*testhook.Engine(c).NodeTimeout, time.Second), testhook.Engine(c).Clock
		for began := time.Now(); time.Since(began) < 2*admission.ProbeInterval; time.Sleep(ms) {
			require.LessOrEqual(t, p.Silence(clock()), deadAfter+deadAfter/4*6/5+ms, "the client looks once in each quarter of deadAfter, give or take a fifth of it")
		}
		lease := net.Must(net.Mutex(c, "x").Lock(t.Context()))
		require.Equal(t, 3, net.Holders(lease), "the client has a new connection")
		require.NoError(t, lease.Unlock(t.Context()))
	})
}

// A majority restarts empty: within a second every refusal says when the nodes vote again.
func TestRefusalAfterAMajorityForgotSaysWhenTheNodesVoteAgain(t *testing.T) {
	testnet.InBubble(t, 3, func(t *testing.T, net *testnet.Net) {
		c := net.Guarded(redlock.WithTTL(3 * time.Second))
		kill(net.Nodes[0], net.Nodes[1])
		net.Nodes[0].Up()
		net.Nodes[1].Up()
		time.Sleep(time.Second)
		var promised time.Time
		for {
			lease, err := c.Mutex("x").TryLock(t.Context())
			if err == nil {
				require.WithinDuration(t, promised, time.Now(), time.Second)
				require.NoError(t, lease.Unlock(t.Context()))
				return
			}
			var refused *redlock.QuorumError
			require.True(t, errors.As(err, &refused), "%v", err)
			require.NotZero(t, refused.RetryAfter, "%v", err)
			at := time.Now().Add(refused.RetryAfter)
			if !promised.IsZero() {
				require.WithinDuration(t, promised, at, time.Second)
			}
			promised = at
			time.Sleep(500 * ms)
		}
	})
}

// runShortClient opens a client that lives for one TryLock, as a job of cron does, and returns
// that call's error. TryLock asks again for three node timeouts while nodes are being admitted; its
// last attempt, and a raise, take one each.
func runShortClient(t *testing.T, net *testnet.Net) error {
	t.Helper()
	const nodeTimeout = 100 * ms // a twentieth of the ttl
	c := net.NewClient(redlock.WithTTL(2*time.Second), redlock.WithRestartGuard(time.Millisecond))
	began := time.Now()
	lease, err := c.Mutex("job").TryLock(t.Context())
	t.Logf("TryLock took %v", time.Since(began))
	require.LessOrEqual(t, time.Since(began), 5*nodeTimeout)
	if err == nil {
		require.NoError(t, lease.Unlock(t.Context()))
	}
	require.NoError(t, c.Close())
	return err
}

// A job of cron is a client that lives for less than a second. The one that comes first after the
// guard gets its lock, and admits all masters before it ends.
func TestOneShortClientAfterTheGuardAdmitsAllMasters(t *testing.T) {
	for _, n := range []int{3, 5} {
		for run := range testnet.Tries(20, 50) {
			t.Run(fmt.Sprintf("%d nodes, run %d", n, run), func(t *testing.T) {
				testnet.InBubble(t, n, func(t *testing.T, net *testnet.Net) {
					draw := rand.New(rand.NewPCG(uint64(n), uint64(run)))
					for _, node := range net.Nodes {
						way := time.Duration(draw.Int64N(int64(5 * ms)))
						node.Set(func(node *testnet.Node) { node.Delay = way })
					}
					require.ErrorIs(t, runShortClient(t, net), redlock.ErrNoQuorum)
					time.Sleep(2*time.Second + time.Duration(draw.Int64N(int64(20*ms))))
					require.NoError(t, runShortClient(t, net))
					for i, node := range net.Nodes {
						require.NotEmpty(t, node.Redis.HGet(node.Key("record")+":"+node.Redis.HGet(node.Key("quarantine"), "name"), "nodes"), "node %d", i)
					}
				})
			})
		}
	}
}

// An admission takes several round trips. Where these are long, compared with the node timeout of 100 ms, a short client waits for
// it: were each one to end before, no node would ever vote.
func TestShortClientsWithLongRoundTripsAdmitAllMasters(t *testing.T) {
	for _, c := range []struct {
		way  time.Duration // half of a round trip
		runs int           // after the guard until one gets the lock
	}{{5 * ms, 1}, {15 * ms, 2}, {25 * ms, 2}, {35 * ms, 2}, {45 * ms, 2}} {
		t.Run(fmt.Sprint(c.way), func(t *testing.T) {
			testnet.InBubble(t, 3, func(t *testing.T, net *testnet.Net) {
				net.Delay(c.way)
				require.ErrorIs(t, runShortClient(t, net), redlock.ErrNoQuorum)
				time.Sleep(2100 * ms)
				err := runShortClient(t, net)
				for i, node := range net.Nodes {
					require.NotEmpty(t, node.Redis.HGet(node.Record(), "nodes"), "node %d", i)
				}
				if c.runs == 2 {
					err = runShortClient(t, net)
				}
				require.NoError(t, err)
			})
		})
	}
}

// A client that reaches exactly a quorum cannot admit a node of it: the tokens of leases that the node forgot may be known
// only to a node that this client does not reach. One client that reaches q others for a moment admits it, for all.
func TestNodeIsAdmittedByAClientThatReachesAQuorumOfOthers(t *testing.T) {
	testnet.InBubble(t, 3, func(t *testing.T, net *testnet.Net) {
		before, _ := lockWithin(t, net.Guarded(redlock.WithTTL(2*time.Second)), time.Second)
		require.NoError(t, net.Clients[0].Close())
		opts := []redlock.ClientOption{redlock.WithTTL(2 * time.Second), redlock.WithRestartGuard(time.Millisecond)}
		left, ofLeft := net.CuttableClient(opts...)
		right, ofRight := net.CuttableClient(opts...)
		away := []*testnet.Cuttable{ofLeft[2], ofRight[0]}
		testnet.Hold(away, true)
		defer testnet.Hold(away, false)
		net.Nodes[0].Restart(nil)
		for range 20 {
			token, _ := lockWithin(t, right, 5*time.Second)
			require.Greater(t, token, before)
			before = token
			time.Sleep(time.Second)
		}
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		_, err := left.Mutex("x").Lock(ctx)
		require.ErrorIs(t, err, redlock.ErrNoQuorum)
		require.ErrorContains(t, err, "votes again with the counters of 2 other nodes that vote (1 answered)")

		require.NoError(t, net.NewClient(opts...).Ping(t.Context()))
		time.Sleep(time.Second)
		token, _ := lockWithin(t, left, 5*time.Second)
		require.Greater(t, token, before)
	})
}
