package admission_test

import (
	"errors"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/redlock-go/redlock"
	"github.com/redlock-go/redlock/internal/test/testnet"
)

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
