package life_test

import (
	"testing"
	"testing/synctest"

	"github.com/stretchr/testify/require"

	"github.com/redlock-go/redlock/internal/life"
)

// Close returns when the calls under way have ended, and when the waiters have left the nodes' queues, in either order.
func TestCloseAwaitsCallsAndWaiters(t *testing.T) {
	for _, callFirst := range []bool{true, false} {
		synctest.Test(t, func(t *testing.T) {
			l, closed := life.New(), false
			l.Settle()
			require.NoError(t, l.Enter(t.Context()))
			l.AddWaiter()
			go func() {
				l.Close()
				closed = true
			}()
			ends := []func(){l.Leave, l.RemoveWaiter}
			if !callFirst {
				ends[0], ends[1] = ends[1], ends[0]
			}
			for _, end := range ends {
				synctest.Wait()
				require.False(t, closed)
				require.ErrorIs(t, l.Enter(t.Context()), life.ErrClosed)
				end()
			}
			synctest.Wait()
			require.True(t, closed)
		})
	}
}
