package lock_test

import (
	"context"
	"fmt"
	"math/bits"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/gomodule/redigo/redis"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/redlock-go/redlock/internal/protocol"
	"github.com/redlock-go/redlock/internal/test/testnet"
)

// take makes slots taken at some nodes, for as long as the test lasts; nodes are by slot.
func take(t *testing.T, net *testnet.Net, nodes map[int][]int) {
	for slot, at := range nodes {
		for _, i := range at {
			key := fmt.Sprint(slotKey, slot)
			require.NoError(t, net.Nodes[i].Redis.Set(key, "of another lease"))
			net.Nodes[i].Redis.SetTTL(key, time.Hour)
		}
	}
}

func TestCallerGetsThePermitsThatAQuorumHasFree(t *testing.T) {
	for _, c := range []struct {
		name    string
		size, n int
		taken   map[int][]int // nodes, by slot
		down    int           // a node that is away; -1: none
		slots   []int         // that each caller gets
		most    int           // attempts of twenty callers
	}{
		{"two permits have a quorum each", 3, 1, map[int][]int{0: {0, 1}, 1: {1, 2}}, -1, []int{2}, 90},
		{"one pair of six is free at both nodes", 6, 2, map[int][]int{0: {0, 1, 2}, 3: {0, 1, 2}, 1: {1, 2}, 4: {1, 2}}, 1, []int{2, 5}, 500},
	} {
		t.Run(c.name, func(t *testing.T) {
			testnet.InBubble(t, 3, func(t *testing.T, net *testnet.Net) {
				net.Delay(ms)
				take(t, net, c.taken)
				client := net.Client()
				if c.down >= 0 {
					net.Nodes[c.down].Down()
				}
				for i := range 20 {
					ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
					lease, err := client.Semaphore("x", c.size).Acquire(ctx, c.n)
					cancel()
					require.NoError(t, err, "caller %d", i)
					slots := lease.Slots()
					slices.Sort(slots)
					require.Equal(t, c.slots, slots)
					require.NoError(t, lease.Unlock(t.Context()))
				}
				asked := net.Nodes[0].Executed("permit")
				t.Logf("twenty callers asked %d times", asked)
				require.LessOrEqual(t, asked, c.most)
				if c.down >= 0 {
					net.Nodes[c.down].Up()
				}
			})
		})
	}
}

// chooser returns how a node of its own chooses n of size slots by a seed; nil if it refuses.
func chooser(t *testing.T, net *testnet.Net) func(seed uint32, size, n int) []int {
	_, eval := testnet.Scripted(t, net)
	return func(seed uint32, size, n int) []int {
		reply := eval(protocol.Permit, 2, "queue", "record", "me", 10_000, "7", 1, "", "", slotKey, size, n, int64(seed))
		values, err := redis.Values(reply, nil)
		require.NoError(t, err)
		if _, refused := values[0].([]byte); refused {
			return nil
		}
		slots, err := redis.Ints(reply, nil)
		require.NoError(t, err)
		return slots[1:]
	}
}

// ordersOfTen are orders of ten slots, by their seeds. All servers must have them: integration compares
// real ones with the same numbers.
var ordersOfTen = map[uint32][]int{
	0:          {2, 3, 8, 7, 6, 0, 1, 5, 9, 4},
	1:          {2, 4, 6, 7, 1, 0, 9, 8, 3, 5},
	2147483648: {7, 8, 4, 2, 9, 5, 3, 0, 1, 6},
	4294967295: {2, 0, 3, 7, 8, 9, 5, 6, 1, 4},
}

func TestOrderOfSlotsIsThatOfItsSeed(t *testing.T) {
	testnet.InBubble(t, 1, func(t *testing.T, net *testnet.Net) {
		choose := chooser(t, net)
		for seed, order := range ordersOfTen {
			require.Equal(t, order, choose(seed, 10, 10), "seed %d", seed)
		}
		last := choose(4294967295, 256, 256)
		slices.Sort(last)
		for slot, n := range last {
			require.Equal(t, slot, n)
		}
	})
}

// A node chooses the first slots of the order that are free there.
func TestNodeChoosesTheFirstFreeSlotsOfTheOrder(t *testing.T) {
	const size = 4
	testnet.InBubble(t, 1, func(t *testing.T, net *testnet.Net) {
		node, choose := net.Nodes[0], chooser(t, net)
		for seed := range uint32(20) {
			seed *= 0x0edcba98
			node.Redis.FlushDB()
			order := choose(seed, size, size)
			for taken := range 1 << size {
				for n := 1; n <= size; n++ {
					node.Redis.FlushDB()
					for slot := range size {
						if taken>>slot&1 == 1 {
							require.NoError(t, node.Redis.Set(fmt.Sprint(slotKey, slot), "of another"))
						}
					}
					require.Equal(t, firstFree(order, ^taken, n), choose(seed, size, n), "order %v, taken %b, n %d", order, taken, n)
				}
			}
		}
	})
}

// firstFree returns the first n slots of an order that are in the set free; nil if there are fewer.
func firstFree(order []int, free, n int) (chosen []int) {
	for _, slot := range order {
		if free>>slot&1 == 1 && len(chosen) < n {
			chosen = append(chosen, slot)
		}
	}
	if len(chosen) < n {
		return nil
	}
	return chosen
}

// All states of up to three nodes and up to five slots: whatever is free where, some seed makes a quorum
// choose n slots that it shares, and each such set of slots has a seed of its own.
func TestEachFreeSetOfAQuorumHasASeed(t *testing.T) {
	for size := 1; size <= 5; size++ {
		orders := allOrders(t, size)
		// chosen[i][free][n] is the set that a node chooses along order i, as bits; 0 if it refuses.
		chosen := make([][][]int, len(orders))
		for i, order := range orders {
			chosen[i] = make([][]int, 1<<size)
			for free := range chosen[i] {
				chosen[i][free] = make([]int, size+1)
				for n := 1; n <= size; n++ {
					for _, slot := range firstFree(order, free, n) {
						chosen[i][free][n] |= 1 << slot
					}
				}
			}
		}
		for a := range 1 << size {
			for b := range 1 << size {
				for set := 1; set < 1<<size; set++ {
					if n := bits.OnesCount(uint(set)); set&a&b == set {
						require.True(t, slices.ContainsFunc(chosen, func(by [][]int) bool { return by[a][n] == set && by[b][n] == set }),
							"of %d slots, %b and %b are free: nobody gets %b", size, a, b, set)
					}
				}
			}
		}
		for nodes := 1; nodes <= 3; nodes++ {
			states, least := 0, 1.0
			for state := range 1 << (size * nodes) {
				for n := 1; n <= size; n++ {
					if !quorumShares(state, nodes, size, func(common int) bool { return bits.OnesCount(uint(common)) >= n }) {
						continue
					}
					states++
					agree := 0
					for _, by := range chosen {
						if quorumChooses(state, nodes, size, func(free int) int { return by[free][n] }) {
							agree++
						}
					}
					require.Positive(t, agree, "%d nodes, %d slots, free %b, n %d", nodes, size, state, n)
					least = min(least, float64(agree)/float64(len(orders)))
				}
			}
			t.Logf("%d nodes, %d slots: %d states; at worst %.3f of the orders make a quorum choose the same", nodes, size, states, least)
		}
	}
}

// quorumShares reports whether the slots that are free at all nodes of some quorum satisfy is. state has a
// set of free slots for each node.
func quorumShares(state, nodes, size int, is func(common int) bool) bool {
	for members := range 1 << nodes {
		if bits.OnesCount(uint(members)) != nodes/2+1 {
			continue
		}
		common := 1<<size - 1
		for i := range nodes {
			if members>>i&1 == 1 {
				common &= state >> (i * size)
			}
		}
		if is(common) {
			return true
		}
	}
	return false
}

// quorumChooses reports whether a quorum of the nodes chooses the same.
func quorumChooses(state, nodes, size int, choose func(free int) int) bool {
	var chosen [3]int
	for i := range nodes {
		chosen[i] = choose(state >> (i * size) & (1<<size - 1))
	}
	for i := range nodes {
		same := 0
		for j := range nodes {
			if chosen[i] != 0 && chosen[j] == chosen[i] {
				same++
			}
		}
		if same >= nodes/2+1 {
			return true
		}
	}
	return false
}

// allOrders returns the orders of so many slots, each once, as a node draws them from seeds.
func allOrders(t *testing.T, size int) (all [][]int) {
	testnet.InBubble(t, 1, func(t *testing.T, net *testnet.Net) {
		choose, draw := chooser(t, net), rand.New(rand.NewPCG(1, 2))
		factorial := 1
		for i := range size {
			factorial *= i + 1
		}
		known := make(map[string]bool)
		for seeds := 0; len(known) < factorial; seeds++ {
			require.Less(t, seeds, 20*factorial+20, "%d of %d orders were drawn", len(known), factorial)
			order := choose(draw.Uint32(), size, size)
			if key := fmt.Sprint(order); !known[key] {
				known[key] = true
				all = append(all, order)
			}
		}
	})
	return all
}

// Left-over keys make the nodes differ in what is free: two permits are free at all of them, and one more at each, another one. A waiter for
// two needs just the two. Callers behind it, for which each node has one to spare by number, must not take them again and again.
func TestWaiterForWhichNodesChooseDifferentlyIsNotPassed(t *testing.T) {
	testnet.InBubble(t, 3, func(t *testing.T, net *testnet.Net) {
		take(t, net, map[int][]int{0: {1, 2}, 1: {0, 2}, 2: {0, 1}})
		net.Delay(ms)
		stop, end := context.WithCancel(t.Context())
		var others sync.WaitGroup
		for range 3 {
			s := testnet.ListeningClient(t, net).Semaphore("x", 5)
			others.Go(func() {
				for {
					l, err := s.Acquire(stop, 1)
					if err != nil {
						return
					}
					time.Sleep(200 * ms)
					assert.NoError(t, l.Unlock(context.Background()))
					time.Sleep(ms)
				}
			})
		}
		s := testnet.ListeningClient(t, net).Semaphore("x", 5)
		time.Sleep(time.Second)
		var longest, sum time.Duration
		const turns = 12
		for range turns {
			ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
			took := testnet.Elapsed(func() {
				l, err := s.Acquire(ctx, 2)
				if assert.NoError(t, err) {
					assert.NoError(t, l.Unlock(t.Context()))
				}
			})
			cancel()
			longest, sum = max(longest, took), sum+took
			time.Sleep(300 * ms)
		}
		t.Logf("mean %v, longest %v", sum/turns, longest)
		assert.Less(t, longest, 6*time.Second) // without the rule up to 27 s
		end()
		others.Wait()
	})
}

// A waiter has given its permits back, since the nodes chose differently. For a second those behind it do not get permits
// that it may need, though enough are free by number: neither a waiter behind it that gave its own back later.
func TestWaiterThatGavePermitsBackIsNotPassedAtANode(t *testing.T) {
	testnet.InBubble(t, 1, func(t *testing.T, net *testnet.Net) {
		_, eval := testnet.Scripted(t, net)
		ticket := func(i, n int) string {
			return fmt.Sprintf("17000000000000%02d-AAAAAAAAAAAAAA%02d-0000000000/4*%d", i, i, n)
		}
		ask := func(i, n int) (slots int) { // the waiter gets all that it wants, or none
			reply, ok := eval(protocol.Permit, 2, "queue", "record", fmt.Sprint("of ", i), 10_000, "7", 1, ticket(i, n), "label", slotKey, 4, n, 1).([]any)
			require.True(t, ok)
			if _, granted := reply[0].(int64); !granted {
				return 0
			}
			return len(reply) - 1
		}
		giveBack := func(i, n int) {
			eval(protocol.GiveBack, 1, "queue", fmt.Sprint("of ", i), slotKey, 4, "", ticket(i, n), "label")
		}
		require.Equal(t, 1, ask(2, 1))
		require.Equal(t, 2, ask(1, 2))
		giveBack(1, 2)
		giveBack(2, 1)
		require.Zero(t, ask(2, 1), "all four are free, and one more than the first waiter wants")
		require.Zero(t, ask(3, 1))
		require.Equal(t, 1, ask(0, 1), "an earlier waiter")
		time.Sleep(time.Second)
		require.Equal(t, 1, ask(2, 1))
		require.Equal(t, 2, ask(1, 2))

		for i := range 3 {
			eval(protocol.GiveBack, 1, "queue", fmt.Sprint("of ", i), slotKey, 4, "")
		}
		require.Equal(t, 2, ask(1, 2))
		giveBack(1, 2)
		require.Zero(t, ask(2, 1))
		require.Zero(t, ask(3, 1))
		require.Equal(t, 2, ask(1, 2))
		require.Equal(t, 1, ask(3, 1), "the first one has got its own, and one is left for the second")
	})
}

// A caller that gives the semaphore more permits must not take the one that is free to an earlier waiter, which gives it fewer.
func TestCallersWithOtherNumbersOfPermitsDoNotPass(t *testing.T) {
	testnet.InBubble(t, 1, func(t *testing.T, net *testnet.Net) {
		node, eval := testnet.Scripted(t, net)
		ask := func(owner, ticket string, size int, seed int64) any {
			return eval(protocol.Permit, 2, "queue", "record", owner, 10_000, "7", 1, ticket, "label", slotKey, size, 1, seed)
		}
		for slot := range 3 {
			require.NoError(t, node.Redis.Set(fmt.Sprint(slotKey, slot), "of another lease"))
		}
		ask("early", "1700000000000000-AAAAAAAAAAAAAAAA-0000000000/3*1", 3, 1)
		node.Redis.Del(slotKey + "2") // slots 3 and 4 are free, too
		for seed := range int64(50) {
			node.Redis.Del("redlock::full:queue")
			ask("later", "1700000000000001-BBBBBBBBBBBBBBBB-0000000000/5*1", 5, seed*80_000_000)
			require.False(t, node.Redis.Exists(slotKey+"2"), "the later one took the slot")
		}
	})
}

// ready returns the tickets of the waiters that a node has told since the last call to come, sorted.
func ready(node *testnet.Node) func() []string {
	var told []string
	node.OnMessage(func(message string) {
		if rest, is := strings.CutPrefix(message, "ready "); is {
			ticket, _, _ := strings.Cut(rest, " ")
			told = append(told, ticket)
		}
	})
	return func() []string {
		now := slices.Sorted(slices.Values(told))
		told = nil
		return now
	}
}

// ticketOf returns the ticket of the client A, B, …, which wants one permit of so many.
func ticketOf(i, permits int) string {
	return fmt.Sprintf("17000000000000%02d-%s-0000000000/%d*1", i, strings.Repeat(string(rune('A'+i)), 16), permits)
}

// An operator takes one slot of three away: one of the waiters is woken.
func TestSlotThatIsTakenAwayWakesOneWaiter(t *testing.T) {
	testnet.InBubble(t, 1, func(t *testing.T, net *testnet.Net) {
		node, eval := testnet.Scripted(t, net)
		told := ready(node)
		for slot := range 3 {
			require.NoError(t, node.Redis.Set(fmt.Sprint(slotKey, slot), "of another lease"))
		}
		for i := range 8 {
			eval(protocol.Permit, 2, "queue", "record", "me", 10_000, "7", 1, ticketOf(i, 3), "label", slotKey, 3, 1, 1)
		}
		node.Redis.Del(slotKey + "1")
		conn := testnet.Dial(t, node)
		defer func() { require.NoError(t, conn.Close()) }()
		_, err := conn.Do("EVAL", protocol.Wake.Text(), 1, "queue", slotKey, protocol.MaxPermits)
		require.NoError(t, err)
		require.Equal(t, []string{ticketOf(0, 3)}, told())
	})
}

// The first waiter is woken by a release, and does not come, since it is dead. Each of the next releases wakes one more of
// those behind it, and the first once more: that gives it no more time.
func TestReleasesWakeThoseBehindAWaiterThatDoesNotCome(t *testing.T) {
	testnet.InBubble(t, 1, func(t *testing.T, net *testnet.Net) {
		node, eval := testnet.Scripted(t, net)
		told := ready(node)
		for slot := range 4 {
			require.NoError(t, node.Redis.Set(fmt.Sprint(slotKey, slot), fmt.Sprint("holder ", slot)))
		}
		for i := range 4 {
			eval(protocol.Permit, 2, "queue", "record", "me", 10_000, "7", 1, ticketOf(i, 4), "label", slotKey, 4, 1, 1)
		}
		for slot := range 4 {
			require.EqualValues(t, 3, eval(protocol.GiveBack, 1, "queue", fmt.Sprint("holder ", slot), slotKey, 4, slot))
			require.Equal(t, slices.Compact([]string{ticketOf(0, 4), ticketOf(slot, 4)}), told())
			require.Equal(t, protocol.ReservationTTL-time.Duration(slot)*100*ms, node.Redis.TTL("redlock::alive:AAAAAAAAAAAAAAAA"))
			time.Sleep(100 * ms)
		}
	})
}

// The first waiter is dead. Callers with two numbers of permits find it in turn: for one there are too few slots for
// it, for the other enough. So each challenges it anew, which must not keep it alive.
func TestCallersWithOtherNumbersOfPermitsDoNotKeepADeadWaiterAlive(t *testing.T) {
	testnet.InBubble(t, 1, func(t *testing.T, net *testnet.Net) {
		node, eval := testnet.Scripted(t, net)
		ask := func(client string, size, n int) any {
			ticket := fmt.Sprintf("1700000000000000-%s-0000000000/%d*%d", client, size, n)
			return eval(protocol.Permit, 2, "queue", "record", client, 10_000, "7", 1, ticket, "label", slotKey, size, n, 1)
		}
		require.NoError(t, node.Redis.Set(slotKey+"0", "of another lease"))
		ask("AAAAAAAAAAAAAAAA", 3, 3)
		node.Redis.Del(slotKey + "0")
		began, served := time.Now(), 0
		for client, size := "BBBBBBBBBBBBBBBB", 5; served == 0; time.Sleep(100 * ms) {
			require.Less(t, time.Since(began), 4*time.Second, "the dead waiter is the first still")
			if granted, ok := ask(client, size, 1).([]any); ok && len(granted) == 2 {
				served++
			}
			if size == 5 {
				client, size = "CCCCCCCCCCCCCCCC", 2
			} else {
				client, size = "BBBBBBBBBBBBBBBB", 5
			}
		}
	})
}
