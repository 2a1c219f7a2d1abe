package lock_test

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/redlock-go/redlock/internal/protocol"
	"github.com/redlock-go/redlock/internal/test/testhook"
	"github.com/redlock-go/redlock/internal/test/testnet"
)

// Nodes that do not get the release of a lease with a minimum hold at once.

// A release that comes late makes the lock rest for what is left then.
func TestLateReleaseRestsForWhatIsLeft(t *testing.T) {
	for away, left := range map[time.Duration]time.Duration{500 * ms: hold - 500*ms, hold - 100*ms: 100 * ms, hold + time.Second: 0} {
		testnet.InBubble(t, 3, func(t *testing.T, net *testnet.Net) {
			c := net.Client()
			late := net.Nodes[2]
			lease, err := resting(c).Lock(t.Context())
			require.NoError(t, err)
			began := time.Now()
			synctest.Wait()
			late.Down()
			synctest.Wait()
			require.NoError(t, lease.Unlock(t.Context()))
			require.Equal(t, 1, testhook.Engine(c).Cluster.Nodes[2].Undos())
			time.Sleep(away)
			require.Equal(t, lease.Owner(), holderAt(late))
			late.Up()
			var before time.Duration                              // the undo was executed after that
			for testhook.Engine(c).Cluster.Nodes[2].Undos() > 0 { // the pauses between dials are random
				before = time.Since(began)
				time.Sleep(ms)
			}
			rests := protocol.Resting + lease.Owner()
			left = max(hold-time.Since(began), 0)
			switch {
			case left == 0 && before < hold: // the rest ended in this millisecond, before the undo or after it
				require.Contains(t, []string{"", rests}, holderAt(late))
				return
			case left == 0:
				require.Empty(t, holderAt(late))
				return
			}
			require.Equal(t, rests, holderAt(late))
			require.InDelta(t, left, late.Redis.TTL("redlock:x"), float64(3*ms))
		})
	}
}

// A server that was frozen executes the release late, and its answer is lost: the undo shortens the rest to
// what is left, or ends it.
func TestUndoShortensTheRestOfAReleaseThatWasExecutedLate(t *testing.T) {
	for name, frozen := range map[string]time.Duration{"some is left": time.Second, "nothing is left": hold + time.Second} {
		t.Run(name, func(t *testing.T) {
			testnet.InBubble(t, 3, func(t *testing.T, net *testnet.Net) {
				c := net.Client()
				late := net.Nodes[2]
				lease, err := resting(c).Lock(t.Context())
				require.NoError(t, err)
				began := time.Now()
				synctest.Wait()
				late.Freeze()
				require.NoError(t, lease.Unlock(t.Context()))
				time.Sleep(frozen - 100*ms)
				late.Down() // what was sent is executed before the next connection
				late.Thaw()
				synctest.Wait()
				require.Equal(t, protocol.Resting+lease.Owner(), holderAt(late))
				require.InDelta(t, hold, late.Redis.TTL("redlock:x"), float64(100*ms))
				late.Up()
				for testhook.Engine(c).Cluster.Nodes[2].Undos() > 0 {
					time.Sleep(ms)
				}
				if left := hold - time.Since(began); left > 0 {
					require.InDelta(t, left, late.Redis.TTL("redlock:x"), float64(3*ms))
				} else {
					require.Empty(t, holderAt(late))
				}
			})
		})
	}
}

// A server that has forgotten the scripts gets the release with its text.
func TestLockRestsAtAServerThatForgotTheScripts(t *testing.T) {
	testnet.InBubble(t, 1, func(t *testing.T, net *testnet.Net) {
		lease, err := resting(net.Client()).Lock(t.Context())
		require.NoError(t, err)
		conn := testnet.Dial(t, net.Nodes[0])
		_, err = conn.Do("SCRIPT", "FLUSH")
		require.NoError(t, err)
		require.NoError(t, conn.Close())
		require.NoError(t, lease.Unlock(t.Context()))
		requireRest(t, net, lease.Owner(), hold)
	})
}
