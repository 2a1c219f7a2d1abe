package lock_test

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/redlock-go/redlock/internal/protocol"
	"github.com/redlock-go/redlock/internal/test/testnet"
)

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
			reply, ok := eval(protocol.Permit, 1, "queue", fmt.Sprint("of ", i), 10_000, "", 1, ticket(i, n), "label", slotKey, 4, n, 1).([]any)
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
			return eval(protocol.Permit, 1, "queue", owner, 10_000, "", 1, ticket, "label", slotKey, size, 1, seed)
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
			eval(protocol.Permit, 1, "queue", "me", 10_000, "", 1, ticketOf(i, 3), "label", slotKey, 3, 1, 1)
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
			eval(protocol.Permit, 1, "queue", "me", 10_000, "", 1, ticketOf(i, 4), "label", slotKey, 4, 1, 1)
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
			return eval(protocol.Permit, 1, "queue", client, 10_000, "", 1, ticket, "label", slotKey, size, n, 1)
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
