package lock_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/redlock-go/redlock"
	"github.com/redlock-go/redlock/internal/lease"
	"github.com/redlock-go/redlock/internal/protocol"
	"github.com/redlock-go/redlock/internal/quorum"
	"github.com/redlock-go/redlock/internal/test/testhook"
	"github.com/redlock-go/redlock/internal/test/testnet"
)

func TestClientThatHandsALockOverLetsTheWaiterGoFirst(t *testing.T) {
	testnet.InBubble(t, 3, func(t *testing.T, net *testnet.Net) {
		a, b := net.Client(), net.Client()
		net.Delay(10 * ms)
		for _, waited := range []bool{false, true} {
			lease, err := a.Mutex("x").Lock(t.Context())
			require.NoError(t, err)
			got := make(chan *redlock.Lease, 1)
			if waited {
				go func() {
					lease, _ := b.Mutex("x").Lock(t.Context())
					got <- lease
				}()
				time.Sleep(time.Second)
			}
			require.NoError(t, lease.Unlock(t.Context()))
			require.Equal(t, waited, testhook.Engine(a).HandoffPause("redlock:x") == 30*ms)
			if waited {
				require.NoError(t, (<-got).Unlock(t.Context()))
			}
		}
	})
}

func TestReleaseIsAHandoffIfAQuorumReservesTheKey(t *testing.T) {
	testnet.InBubble(t, 5, func(t *testing.T, net *testnet.Net) {
		c := net.Client()
		held, err := c.Mutex("x").Lock(t.Context())
		require.NoError(t, err)
		l, g := testhook.Lock(c.Mutex("x")), &testhook.Lease(held).Grant
		b := l.BeginRelease(t.Context(), g, lease.Ending{At: testhook.Engine(c).Clock()})
		time.Sleep(ms) // a handoff pauses callers for as long as the release took
		for handed := range 6 {
			l.Released(g, b)
			require.Equal(t, handed >= 3, testhook.Engine(c).HandoffPause("redlock:x") > 0, "%d of 5", handed)
			if handed < 5 {
				b.Votes[handed].Count(quorum.Answer{Count: quorum.Yes, Outcome: quorum.Confirmed, Kind: protocol.HandedOff})
			}
		}
	})
}
