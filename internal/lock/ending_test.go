package lock_test

import (
	"context"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/redlock-go/redlock"
	"github.com/redlock-go/redlock/internal/test/testnet"
)

// endingContext ends when it has been asked a number of times whether it has, and wakes nobody.
type endingContext struct {
	context.Context
	lasts int
}

func (c *endingContext) Err() error {
	if c.lasts--; c.lasts < 0 {
		return context.Canceled
	}
	return nil
}

// A caller that gives up at the instant of the quorum gets no lease.
func TestGrantsAsTheCallEndsAreReportedAsSuch(t *testing.T) {
	testnet.InBubble(t, 3, func(t *testing.T, net *testnet.Net) {
		m := net.Client().Mutex("x")
		var last error
		for lasts := 0; ; lasts++ {
			lease, err := m.TryLock(&endingContext{context.Background(), lasts})
			if err == nil {
				require.NoError(t, lease.Unlock(t.Context()))
				break
			}
			last = err
		}
		require.ErrorIs(t, last, context.Canceled)
		require.ErrorIs(t, last, redlock.ErrNoQuorum)
		require.ErrorContains(t, last, "3 nodes granted, 2 needed, but only as the call ended")
	})
}
