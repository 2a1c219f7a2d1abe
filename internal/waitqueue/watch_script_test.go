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

// Twelve clients wait, each with two waiters. At a hand-off the node tells nine of them to look, one after the other
// from the end of the reservation on: those behind the first one, and the last. For each lock, it does that again half
// a second later, or when half of these have been served.
func TestHandOffHasNineClientsLookNowAndThen(t *testing.T) {
	testnet.InBubble(t, 1, func(t *testing.T, net *testnet.Net) {
		n := newSetNode(t, net, "a", "b")
		var tickets []string
		for i, client := range "ABCDEFGHIJKL" {
			for serial := range 2 {
				tickets = append(tickets, fmt.Sprintf("%016d-%s-%010d", i+1, strings.Repeat(string(client), 16), serial))
			}
		}
		for _, lock := range []string{"a", "b"} {
			for _, ticket := range tickets {
				require.Equal(t, "holder of "+lock, n.askOne(lock, ticket))
			}
		}
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
		// firstOf returns the first waiters of some clients.
		firstOf := func(from, to int) (all []string) {
			for i := from; i < to; i++ {
				all = append(all, tickets[2*i])
			}
			return all
		}
		last := tickets[len(tickets)-1]
		require.Equal(t, append(firstOf(1, 9), last), told("a", "holder of a"))
		for i := range 10 {
			require.Empty(t, n.askOne("a", tickets[i]))
			var want []string
			if i == 9 { // the fifth of the nine is the first waiter
				want = firstOf(6, 12)
			}
			require.Equal(t, want, told("a", "of "+tickets[i]), i)
		}

		require.Equal(t, append(firstOf(1, 9), last), told("b", "holder of b"))
		require.Empty(t, n.askOne("b", tickets[0]))
		time.Sleep(protocol.ReservationTTL - ms)
		require.Empty(t, told("b", "of "+tickets[0]))
		require.Empty(t, n.askOne("b", tickets[1]))
		time.Sleep(ms)
		require.Equal(t, append(firstOf(2, 10), last), told("b", "of "+tickets[1]))
	})
}
