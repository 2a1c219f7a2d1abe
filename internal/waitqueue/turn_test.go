package waitqueue_test

import (
	"context"
	"testing"
	"testing/synctest"

	"github.com/stretchr/testify/require"

	"github.com/redlock-go/redlock/internal/protocol"
	"github.com/redlock-go/redlock/internal/testnet"
)

// A waiter that is woken, or challenged, tries while the nodes still count on it.
func TestWokenWaiterTriesWithinTheReservationHoweverOftenItFailed(t *testing.T) {
	for name, ticket := range map[string]func(w *waiter) string{
		"woken":      func(w *waiter) string { return w.Ticket() },
		"challenged": func(*waiter) string { return anotherOfFirst }, // of no waiter of the client
	} {
		testnet.InBubble(t, 3, func(t *testing.T, net *testnet.Net) {
			w, leave := newWaiter(t, net)
			defer leave()
			for range 10 {
				w.wake(0, "ready", ticket(w))
				w.try(t)
			}
			took := testnet.Elapsed(func() {
				go w.wake(0, "ready", ticket(w))
				require.NoError(t, w.AwaitTurn(context.Background(), farBack))
			})
			require.Equal(t, protocol.ReservationTTL/4, took, name)
			synctest.Wait()
		})
	}
}
