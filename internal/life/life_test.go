package life_test

import (
	"testing"
	"testing/synctest"

	"github.com/stretchr/testify/require"

	"github.com/redlock-go/redlock/internal/life"
)

// Close returns when the calls under way have ended, and when the waiters have left the nodes' queues.
func TestCloseAwaitsCallsAndWaiters(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l, closed := life.New(), make(chan struct{})
		l.Settle()
		require.NoError(t, l.Enter(t.Context()))
		require.NoError(t, l.Enter(t.Context()))
		l.AddWaiter()
		l.Leave()
		go func() {
			l.Close()
			close(closed)
		}()
		requireOpen := func(why string) {
			t.Helper()
			synctest.Wait()
			select {
			case <-closed:
				t.Fatal(why)
			default:
			}
		}
		requireOpen("a call is under way")
		require.ErrorIs(t, l.Enter(t.Context()), life.ErrClosed)
		l.Leave()
		requireOpen("a waiter has not left")
		l.RemoveWaiter()
		<-closed
	})
}
