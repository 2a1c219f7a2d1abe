package lock_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/redlock-go/redlock"
	"github.com/redlock-go/redlock/internal/quorum"
	"github.com/redlock-go/redlock/internal/testhook"
	"github.com/redlock-go/redlock/internal/testnet"
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
			require.Equal(t, waited, testhook.Engine(a).HandoverPause("redlock:x") == 30*ms)
			if waited {
				require.NoError(t, (<-got).Unlock(t.Context()))
			}
		}
	})
}

func TestReleaseIsAHandoverIfAQuorumReservesTheKey(t *testing.T) {
	testnet.InBubble(t, 5, func(t *testing.T, net *testnet.Net) {
		c := net.Client()
		lease, err := c.Mutex("x").Lock(t.Context())
		require.NoError(t, err)
		l, held := testhook.Lock(c.Mutex("x")), testhook.Lease(lease)
		b := l.BeginRelease(t.Context(), held)
		time.Sleep(ms) // a handover pauses callers for as long as the release took
		for handed := range 6 {
			l.Released(held, b)
			require.Equal(t, handed >= 3, testhook.Engine(c).HandoverPause("redlock:x") > 0, "%d of 5", handed)
			if handed < 5 {
				b.Votes[handed].Count(quorum.Answer{Count: quorum.Yes, Outcome: quorum.Confirmed, Handed: true})
			}
		}
	})
}
