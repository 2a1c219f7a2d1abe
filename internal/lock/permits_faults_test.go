package lock_test

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/redlock-go/redlock"
	"github.com/redlock-go/redlock/internal/protocol"
	"github.com/redlock-go/redlock/internal/test/testnet"
)

const slotKey = "redlock:x#"

// queueOf returns the tickets in a node's queue for the semaphore x.
func queueOf(n *testnet.Node) []string {
	tickets, err := n.Redis.ZMembers(protocol.Key("slots", "redlock:x"))
	if err != nil {
		return nil
	}
	return tickets
}

// A node that chose another slot than the quorum gives it back while the lease is held, and the
// renewal makes the lease's slot there.
func TestNodeThatChoseAnotherSlotGivesItBack(t *testing.T) {
	testnet.InBubble(t, 3, func(t *testing.T, net *testnet.Net) {
		require.NoError(t, net.Nodes[2].Redis.Set(slotKey+"0", "left over")) // of a dead client, say
		net.Nodes[2].Redis.SetTTL(slotKey+"0", 9*time.Second)
		s := net.Client(redlock.WithTTL(30*time.Second)).Semaphore("x", 2)
		var lease *redlock.Lease
		for lease == nil { // until the nodes begin at slot 0
			l := net.Must(s.TryAcquire(t.Context(), 1))
			if l.Slots()[0] == 0 {
				lease = l
				break
			}
			require.NoError(t, l.Unlock(t.Context()))
		}
		synctest.Wait()
		require.False(t, net.Nodes[2].Redis.Exists(slotKey+"1"), "the node chose slot 1, as slot 0 was taken there")
		time.Sleep(20 * time.Second)
		for _, n := range net.Nodes {
			held, err := n.Redis.Get(slotKey + "0")
			require.NoError(t, err)
			require.Equal(t, lease.Owner(), held)
		}
		require.NoError(t, lease.Unlock(t.Context()))
		net.RequireNoKeys()
	})
}

// A waiter that got its permits leaves the queues of the nodes that refused it.
func TestWaiterLeavesTheQueuesOfNodesThatRefusedIt(t *testing.T) {
	testnet.InBubble(t, 3, func(t *testing.T, net *testnet.Net) {
		holder, c, other := net.Client(), testnet.ListeningClient(t, net), net.Client()
		held := net.Must(holder.Semaphore("x", 1).Acquire(t.Context(), 1))
		synctest.Wait() // all nodes have granted it before another client asks
		got := net.Begin(testnet.Acquire(c.Semaphore("x", 1), 1))
		time.Sleep(100 * ms)
		require.NoError(t, net.Nodes[0].Redis.Set(slotKey+"0", "left over"))
		net.Nodes[0].Redis.SetTTL(slotKey+"0", 20*time.Second)
		require.NoError(t, held.Unlock(t.Context()))
		lease := <-got
		synctest.Wait()
		for i, n := range net.Nodes {
			require.Empty(t, queueOf(n), "node %d", i)
		}
		net.Held(other.Semaphore("x", 1).TryAcquire(t.Context(), 1))
		require.NoError(t, lease.Unlock(t.Context()))
	})
}

// An attempt that a quorum granted, and that got no token, is rolled back; the next one of the same
// call has only its own slots.
func TestLeaseHasOnlyTheSlotsOfItsOwnAttempt(t *testing.T) {
	testnet.InBubble(t, 3, func(t *testing.T, net *testnet.Net) {
		c := net.Guarded()
		for i, n := range net.Nodes { // the counts differ: each attempt raises the nodes
			n.Redis.HIncrBy(n.Record(), protocol.StripeOf(slotKey+"0"), 100*i)
			n.Redis.HIncrBy(n.Record(), protocol.StripeOf(slotKey+"1"), 100*i)
		}
		for _, n := range net.Nodes[1:] {
			n.Set(func(n *testnet.Node) {
				raises := 0
				n.Override = func(cmd string, args []string) string {
					if n.Label(cmd, args) == "raise" && raises == 0 {
						raises++
						return "ERR not now"
					}
					return ""
				}
			})
		}
		ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
		defer cancel()
		lease := net.Must(c.Semaphore("x", 5).Acquire(ctx, 2))
		require.Len(t, lease.Slots(), 2)
		require.NoError(t, lease.Extend(ctx))
		synctest.Wait()
		for _, n := range net.Nodes {
			slots := 0
			for _, key := range n.Redis.Keys() {
				if value, err := n.Redis.Get(key); err == nil && value == lease.Owner() {
					slots++
				}
			}
			require.Equal(t, 2, slots)
		}
		require.NoError(t, lease.Unlock(ctx))
		net.RequireNoKeys()
	})
}

func TestPermitsOfADeadClientComeBackWithItsTTL(t *testing.T) {
	testnet.InBubble(t, 3, func(t *testing.T, net *testnet.Net) {
		dies, c := net.Client(redlock.WithTTL(5*time.Second)), net.Client()
		for range 3 {
			l := net.Must(dies.Semaphore("x", 3).Acquire(t.Context(), 1))
			net.Die(dies, l)
			time.Sleep(time.Second)
		}
		began := time.Now()
		var entered []time.Duration
		for range 3 {
			l := net.Must(c.Semaphore("x", 3).Acquire(t.Context(), 1))
			defer func() { assert.NoError(t, l.Unlock(context.Background())) }()
			entered = append(entered, time.Since(began))
		}
		for i, at := range entered { // one second after the other, each when its ttl ends
			require.InDelta(t, float64(i+2), at.Seconds(), 1.1, "%v", entered)
		}
	})
}

// A client dies with several of the first waiters, when it is their turn.
func TestDeadFirstWaitersForPermitsDelayTheNextForSeconds(t *testing.T) {
	for _, dead := range []int{1, 5, 30} {
		testnet.InBubble(t, 3, func(t *testing.T, net *testnet.Net) {
			holder, c := net.Client(), testnet.ListeningClient(t, net)
			dies, pools := net.CuttableClient()
			held := net.Must(holder.Semaphore("x", 2).Acquire(t.Context(), 2))
			ctx, leave := context.WithCancel(t.Context())
			var gone sync.WaitGroup
			for i := range dead {
				gone.Go(func() {
					_, err := dies.Semaphore("x", 2).Acquire(ctx, 1+i%2)
					assert.ErrorIs(t, err, context.Canceled)
				})
				time.Sleep(10 * ms)
			}
			got := make(chan time.Time, 1)
			go func() {
				l, err := c.Semaphore("x", 2).Acquire(t.Context(), 1)
				if assert.NoError(t, err) {
					got <- time.Now()
					assert.NoError(t, l.Unlock(t.Context()))
				}
			}()
			time.Sleep(500 * ms)
			testnet.Hold(pools, true)
			released := time.Now()
			require.NoError(t, held.Unlock(t.Context()))
			took := (<-got).Sub(released)
			t.Logf("%d dead waiters: %v", dead, took)
			require.Less(t, took, 3*time.Second)
			leave()
			testnet.Hold(pools, false)
			gone.Wait()
		})
	}
}

func TestSlotIsTheMutexOfItsName(t *testing.T) {
	testnet.InBubble(t, 3, func(t *testing.T, net *testnet.Net) {
		c := net.Client()
		before := net.Must(c.Mutex("x#0").Lock(t.Context()))
		net.Held(c.Semaphore("x", 1).TryAcquire(t.Context(), 1))
		require.NoError(t, before.Unlock(t.Context()))
		permit := net.Must(c.Semaphore("x", 1).TryAcquire(t.Context(), 1))
		require.Greater(t, permit.Token(), before.Token())
		held := net.Held(c.Mutex("x#0").TryLock(t.Context()))
		require.Equal(t, permit.Owner(), held.Holder)
		require.NoError(t, permit.Unlock(t.Context()))
		after := net.Must(c.Mutex("x#0").Lock(t.Context()))
		require.Greater(t, after.Token(), permit.Token())
		mutex, err := c.Mutex("x").TryLock(t.Context())
		require.NoError(t, err, "a mutex of the semaphore's name has nothing to do with it")
		require.NoError(t, errors.Join(after.Unlock(t.Context()), mutex.Unlock(t.Context())))
	})
}

// A key of another type stands in the place of a slot: the other slots are acquired and released.
func TestForeignKeyCostsOneSlot(t *testing.T) {
	testnet.InBubble(t, 3, func(t *testing.T, net *testnet.Net) {
		for _, n := range net.Nodes {
			n.Redis.HSet(slotKey+"1", "a", "b")
		}
		s := net.Client().Semaphore("x", 3)
		for range 10 {
			two := net.Must(s.Acquire(t.Context(), 2))
			net.Held(s.TryAcquire(t.Context(), 1))
			_, err := s.TryAcquire(t.Context(), 3)
			require.ErrorContains(t, err, "WRONGTYPE", "waiting would not help")
			require.NoError(t, two.Unlock(t.Context()))
		}
		for _, n := range net.Nodes {
			synctest.Wait()
			require.False(t, n.Redis.Exists(slotKey+"0") || n.Redis.Exists(slotKey+"2"))
			require.Equal(t, "b", n.Redis.HGet(slotKey+"1", "a"))
		}
	})
}

// A waiter polls at the pace of its position, also while free permits are kept for the one ahead.
func TestWaitersBehindOneThatWantsManyPollAsTheirPositionSays(t *testing.T) {
	testnet.InBubble(t, 3, func(t *testing.T, net *testnet.Net) {
		one := net.Must(net.Client().Semaphore("x", 3).Acquire(t.Context(), 1))
		ctx, leave := context.WithCancel(t.Context())
		s := testnet.ListeningClient(t, net).Semaphore("x", 3)
		var gone sync.WaitGroup
		for i := range 30 {
			gone.Go(func() {
				_, err := s.Acquire(ctx, max(1, 3-i*3))
				assert.ErrorIs(t, err, context.Canceled)
			})
			time.Sleep(ms)
		}
		time.Sleep(20 * time.Second)
		net.Nodes[0].Set(func(n *testnet.Node) { n.Log = nil })
		time.Sleep(time.Minute)
		require.Less(t, net.Nodes[0].Executed("permit"), 60*6)
		leave()
		gone.Wait()
		require.NoError(t, one.Unlock(t.Context()))
	})
}

// Slots that are free at fewer nodes than a quorum each make the nodes choose different ones, for as
// long as the keys last. The waiters go on trying, but not at the pace of the network.
func TestWaitersRarelyAskWhereNoQuorumCanChooseTheSame(t *testing.T) {
	for _, waiters := range []int{1, 8}[:testnet.Tries(1, 2)] {
		testnet.InBubble(t, 3, func(t *testing.T, net *testnet.Net) {
			for slot, nodes := range []([]int){{0, 1}, {1, 2}} {
				for _, i := range nodes {
					key := slotKey + strconv.Itoa(slot)
					require.NoError(t, net.Nodes[i].Redis.Set(key, "of a dead client"))
					net.Nodes[i].Redis.SetTTL(key, time.Hour)
				}
			}
			net.Delay(ms)
			ctx, cancel := context.WithCancel(t.Context())
			var all sync.WaitGroup
			for range waiters {
				s := testnet.ListeningClient(t, net).Semaphore("x", 2)
				all.Go(func() {
					_, err := s.Acquire(ctx, 1)
					assert.ErrorIs(t, err, context.Canceled)
					if waiters > 1 {
						return // the others are behind the first
					}
					assert.ErrorContains(t, err, "2 of 3 nodes granted, 2 needed, but not the same permits; node 1 (test-1): refused: too few permits are free")
				})
			}
			time.Sleep(10 * time.Second) // until the waits between two attempts have grown
			before := net.Nodes[0].Executed("permit")
			time.Sleep(20 * time.Second)
			asked := net.Nodes[0].Executed("permit") - before
			t.Logf("%d waiters asked each node %d times in 20 s", waiters, asked)
			require.Less(t, asked, 20*(15+4*waiters))
			require.GreaterOrEqual(t, asked, 20)
			cancel()
			all.Wait()
		})
	}
}

// A command that is executed again, by a proxy that repeats it say, takes no second slot.
func TestPermitThatIsExecutedTwiceTakesOneSlot(t *testing.T) {
	testnet.InBubble(t, 1, func(t *testing.T, net *testnet.Net) {
		n, eval := testnet.Scripted(t, net)
		for _, owner := range []string{"me", "me", "you"} {
			answer := eval(protocol.Permit, 2, "queue", "record", owner, 10_000, "7", "1", "", "", slotKey, 10, 1, 1)
			slots := ordersOfTen[1]
			require.Equal(t, []any{map[string]int64{"me": int64(slots[0]), "you": int64(slots[1])}[owner]}, answer.([]any)[1:])
		}
		require.Len(t, n.Redis.Keys(), 3)
	})
}

// A node may have chosen other slots for the lease than the quorum, which its release names.
func TestReleaseOfPermitsDropsTheSlotsThatTheNodeChose(t *testing.T) {
	testnet.InBubble(t, 1, func(t *testing.T, net *testnet.Net) {
		n, eval := testnet.Scripted(t, net)
		for slots, owners := range map[string][]string{"0,1": {"me", "you", "me"}, "0,2": {"me", "you", "me"}, "1": {"me", "you", "you"}, "": {"me", "me", "you"}} {
			for slot, owner := range owners {
				require.NoError(t, n.Redis.Set(fmt.Sprint(slotKey, slot), owner))
			}
			reply := eval(protocol.GiveBack, 1, "queue", "me", slotKey, 3, slots)
			require.Equal(t, slots == "0,2" || slots == "", reply == int64(1), slots)
			for slot, owner := range owners {
				require.Equal(t, owner == "you", n.Redis.Exists(fmt.Sprint(slotKey, slot)), "%s: slot %d", slots, slot)
			}
		}
	})
}

// A node that lacks the script has executed nothing, but has the waiter's ticket of an attempt before. The ticket
// must not stay at the head of its queue when the other nodes grant the permit.
func TestTicketIsUndoneAtANodeThatLacksTheScript(t *testing.T) {
	testnet.InBubble(t, 3, func(t *testing.T, net *testnet.Net) {
		queue := protocol.Key("slots", "redlock:x")
		held := net.Must(net.Client().Semaphore("x", 1).Acquire(t.Context(), 1))
		granted := net.Begin(testnet.Acquire(net.Client().Semaphore("x", 1), 1))
		time.Sleep(time.Second)
		n := net.Nodes[2]
		require.True(t, n.Redis.Exists(queue))
		n.Set(func(n *testnet.Node) {
			n.Override = func(cmd string, args []string) string {
				if n.Label(cmd, args) == "permit" && cmd == "EVALSHA" {
					return "NOSCRIPT No matching script. Please use EVAL."
				}
				return ""
			}
		})
		require.NoError(t, held.Unlock(t.Context()))
		lease := <-granted
		time.Sleep(time.Second)
		require.False(t, n.Redis.Exists(queue), "the ticket of a caller that has its permit")
		require.NoError(t, lease.Unlock(t.Context()))
	})
}

// dyingWaiters makes so many clients, each with so many callers that wait for n permits of x, which has size. die
// cuts all of them off, and end connects them again and ends their callers.
func dyingWaiters(t *testing.T, net *testnet.Net, clients, callers, size, n int) (die, end func()) {
	ctx, leave := context.WithCancel(t.Context())
	var waiting sync.WaitGroup
	var pools []*testnet.Cuttable
	for range clients {
		c, p := net.CuttableClient()
		pools = append(pools, p...)
		for range callers {
			waiting.Go(func() { _, _ = c.Semaphore("x", size).Acquire(ctx, n) })
		}
		time.Sleep(10 * ms)
	}
	return func() { testnet.Hold(pools, true) }, func() {
		testnet.Hold(pools, false)
		leave()
		waiting.Wait()
	}
}

// acquireOne asks for a permit of x, which has size, by a client of its own.
func acquireOne(t *testing.T, net *testnet.Net, size int) <-chan *redlock.Lease {
	return net.Begin(testnet.Acquire(testnet.ListeningClient(t, net).Semaphore("x", size), 1))
}

// Clients that wait for three permits die while two are free. They must not keep these from a caller that
// wants one.
func TestDeadWaitersForManyPermitsKeepFreeOnesForSeconds(t *testing.T) {
	for name, acquire := range map[string]func(context.Context, *redlock.Semaphore) (*redlock.Lease, error){
		"Acquire": func(ctx context.Context, s *redlock.Semaphore) (*redlock.Lease, error) { return s.Acquire(ctx, 1) },
		"TryAcquire": func(ctx context.Context, s *redlock.Semaphore) (*redlock.Lease, error) {
			for {
				if lease, err := s.TryAcquire(ctx, 1); err == nil {
					return lease, nil
				}
				time.Sleep(50 * ms)
			}
		},
	} {
		for _, dead := range []struct{ clients, callers int }{{20, 1}, {1, 20}, {27, 2}, {9, 1}}[:testnet.Tries(2, 4)] {
			t.Run(fmt.Sprintf("%s behind %d clients with %d callers", name, dead.clients, dead.callers), func(t *testing.T) {
				testnet.InBubble(t, 3, func(t *testing.T, net *testnet.Net) {
					held, err := net.Client().Semaphore("x", 3).Acquire(t.Context(), 1)
					require.NoError(t, err)
					synctest.Wait() // it has all nodes
					die, end := dyingWaiters(t, net, dead.clients, dead.callers, 3, 3)
					time.Sleep(3 * time.Second)
					die()
					var lease *redlock.Lease
					took := testnet.Elapsed(func() { lease, err = acquire(t.Context(), testnet.ListeningClient(t, net).Semaphore("x", 3)) })
					require.NoError(t, err)
					t.Log(took)
					assert.Less(t, took, 4*time.Second)
					require.NoError(t, lease.Unlock(t.Context()))
					require.NoError(t, held.Unlock(t.Context()))
					end()
				})
			})
		}
	}
}

// The first waiter lives, so its client answers each challenge, and nobody passes it. However many callers ask in
// vain, a challenge comes at most once in two seconds.
func TestLiveWaiterForManyPermitsIsSeldomChallengedAndNotPassed(t *testing.T) {
	testnet.InBubble(t, 3, func(t *testing.T, net *testnet.Net) {
		const seconds = 20
		held := net.Must(net.Client().Semaphore("x", 3).Acquire(t.Context(), 1))
		got := make(chan *redlock.Lease, 1)
		first := testnet.ListeningClient(t, net)
		for range 5 { // the client counts as alive for long by its last
			go func() {
				lease, err := first.Semaphore("x", 3).Acquire(t.Context(), 3)
				if err == nil {
					got <- lease
				}
			}()
		}
		time.Sleep(100 * ms)
		before := net.Nodes[0].Executed("permit")
		s := net.Client().Semaphore("x", 3)
		tries := 0
		for start := time.Now(); time.Since(start) < seconds*time.Second; tries++ {
			net.Held(s.TryAcquire(t.Context(), 1))
			time.Sleep(20 * ms)
		}
		polls := net.Nodes[0].Executed("permit") - before - tries
		t.Logf("%d tries, %d polls of the waiters", tries, polls)
		require.Less(t, polls, 5*seconds, "the waiters poll when they are challenged")
		require.NoError(t, held.Unlock(t.Context()))
		for range 5 {
			require.NoError(t, (<-got).Unlock(t.Context()))
		}
	})
}

// The waiters for all permits answer the challenge of the next caller, and die afterwards. That caller looks again
// in time, however many clients are ahead of it.
func TestWaitersForManyPermitsThatDieAfterTheyAnsweredKeepFreeOnesForSeconds(t *testing.T) {
	testnet.InBubble(t, 3, func(t *testing.T, net *testnet.Net) {
		held := net.Must(net.Client().Semaphore("x", 4).Acquire(t.Context(), 1))
		die, end := dyingWaiters(t, net, 7, 1, 4, 4)
		time.Sleep(3 * time.Second)
		got := acquireOne(t, net, 4)
		time.Sleep(400 * ms)
		require.Empty(t, got, "the first waiter lives")
		die()
		var lease *redlock.Lease
		took := testnet.Elapsed(func() { lease = <-got })
		t.Log(took)
		assert.Less(t, took, 4*time.Second)
		require.NoError(t, lease.Unlock(t.Context()))
		require.NoError(t, held.Unlock(t.Context()))
		end()
	})
}

// All permits are held when a caller asks behind waiters for all of them, which die. Then one permit is released.
func TestPermitThatIsReleasedToDeadWaitersForManyIsKeptForSeconds(t *testing.T) {
	testnet.InBubble(t, 3, func(t *testing.T, net *testnet.Net) {
		s := net.Client().Semaphore("x", 2)
		held := net.Must(s.Acquire(t.Context(), 1))
		released := net.Must(s.Acquire(t.Context(), 1))
		die, end := dyingWaiters(t, net, 12, 1, 2, 2)
		time.Sleep(3 * time.Second)
		die()
		got := acquireOne(t, net, 2)
		time.Sleep(400 * ms)
		var lease *redlock.Lease
		took := testnet.Elapsed(func() {
			require.NoError(t, released.Unlock(t.Context()))
			lease = <-got
		})
		t.Log(took)
		assert.Less(t, took, 4*time.Second)
		require.NoError(t, lease.Unlock(t.Context()))
		require.NoError(t, held.Unlock(t.Context()))
		end()
	})
}
