package waitqueue_test

import (
	"fmt"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/redlock-go/redlock/internal/protocol"
	"github.com/redlock-go/redlock/internal/test/testnet"
)

// twelveClientsWait has twelve clients wait for each of these locks, with two waiters each, and returns their tickets.
func (s *setNode) twelveClientsWait(locks ...string) (tickets []string) {
	for i, client := range "ABCDEFGHIJKL" {
		for serial := range 2 {
			tickets = append(tickets, fmt.Sprintf("%016d-%s-%010d", i+1, strings.Repeat(string(client), 16), serial))
		}
	}
	for _, lock := range locks {
		for _, ticket := range tickets {
			require.Equal(s.t, "holder of "+lock, s.askOne(lock, ticket))
		}
	}
	return tickets
}

// Twelve clients wait, each with two waiters. At a hand-off the node tells nine of them to look, one after the other from
// the end of the reservation on: the last, and others from all parts of the queue. It tells others when half of the nine are
// served, and nine again half a second later. A client that joins meanwhile learns it from its refusal. Each lock has its own.
func TestHandOffHasNineClientsLookNowAndThen(t *testing.T) {
	testnet.InBubble(t, 1, func(t *testing.T, net *testnet.Net) {
		n := newSetNode(t, net, "a", "b")
		tickets := n.twelveClientsWait("a", "b")
		// told releases a lock, and returns whom the node told to look, in the order in which they do.
		told := func(lock, owner string) (told []string) {
			n.sent = nil
			require.EqualValues(t, handedOff, n.release(lock, owner))
			at := int(protocol.ReservationTTL.Milliseconds()) - 1
			for _, message := range n.sent {
				if rest, is := strings.CutPrefix(message, "watch "); is {
					ticket, after, _ := strings.Cut(rest, " ")
					ms, err := strconv.Atoi(after)
					require.NoError(t, err)
					require.Greater(t, ms, at)
					told, at = append(told, ticket), ms
				}
			}
			return told
		}
		// joins has a client ask, and returns after how many milliseconds its refusal has it look.
		joins := func(lock, client string) int {
			ticket := fmt.Sprintf("%016d-%s-%010d", 99, strings.Repeat(client, 16), 0)
			reply, ok := protocol.ReadGrant(n.eval(protocol.Acquire, 1, lock, "of "+ticket, 10_000, "", 1, ticket, "label", "", 0))
			require.True(t, ok)
			return int(reply.Place.LookIn)
		}
		var chosen []string
		for _, i := range []int{23, 20, 18, 15, 13, 10, 8, 5, 3} {
			chosen = append(chosen, tickets[i])
		}
		require.Zero(t, joins("b", "M"))
		require.Equal(t, chosen, told("a", "holder of a"))
		require.Equal(t, 2000, joins("a", "M"))
		require.Zero(t, joins("a", "M"), "it knows")
		require.Zero(t, joins("b", "N"), "another lock's")
		for i := range tickets {
			require.Empty(t, n.askOne("a", tickets[i]))
			var want []string
			if i == 12 { // the fifth of the nine is the first waiter
				want = []string{tickets[23], tickets[21], tickets[19], tickets[17], tickets[15]}
			}
			require.Equal(t, want, told("a", "of "+tickets[i]), i)
		}

		require.Len(t, told("b", "holder of b"), 9)
		require.Empty(t, n.askOne("b", tickets[0]))
		time.Sleep(protocol.ReservationTTL - ms)
		require.Empty(t, told("b", "of "+tickets[0]))
		require.Equal(t, 2000, joins("b", "O"))
		require.Empty(t, n.askOne("b", tickets[1]))
		time.Sleep(ms)
		require.Zero(t, joins("b", "P"))
		require.Len(t, told("b", "of "+tickets[1]), 9)
	})
}
