package lease_test

import (
	"log/slog"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/redlock-go/redlock"
	"github.com/redlock-go/redlock/internal/test/testhook"
	"github.com/redlock-go/redlock/internal/test/testnet"
)

// The client reports leases that it cannot renew while they are still valid.

func TestDangerIsReportedAtOnceWithItsCause(t *testing.T) {
	for name, c := range map[string]struct {
		fail  func(n *testnet.Node)
		after time.Duration // after the renewal began
		cause string
	}{
		"no node can be asked": {(*testnet.Node).Down, 0, "not sent"},
		"no node answers":      {(*testnet.Node).Freeze, 500 * ms, "no answer within the node timeout"},
	} {
		t.Run(name, func(t *testing.T) {
			testnet.OfEachKind(t, 3, func(t *testing.T, net *testnet.Net) {
				dangers := make(chan redlock.LeaseEvent, 10)
				client := net.Client(redlock.WithTrace(testnet.OnLease("danger", func(e redlock.LeaseEvent) { dangers <- e })))
				lease, err := net.Mutex(client, "x").Lock(t.Context())
				require.NoError(t, err)
				begins, _ := testhook.Lease(lease).Schedule()
				for _, n := range net.Nodes {
					c.fail(n)
				}
				danger := <-dangers
				require.Equal(t, begins+c.after, net.Clock.Now())
				require.ErrorContains(t, danger.Err, c.cause)
			})
		})
	}
}

func TestDangerIsReportedWhileTheLeaseIsStillValid(t *testing.T) {
	testnet.OfEachKind(t, 3, func(t *testing.T, net *testnet.Net) {
		var dangers []redlock.LeaseEvent
		c := net.Client(redlock.WithTTL(3*time.Second), redlock.WithTrace(testnet.OnLease("danger", func(e redlock.LeaseEvent) {
			dangers = append(dangers, e)
		})))
		lease, err := net.Mutex(c, "x").Lock(t.Context())
		require.NoError(t, err)
		net.Nodes[0].Freeze()
		net.Nodes[1].Freeze()
		<-lease.Done()
		synctest.Wait()
		require.GreaterOrEqual(t, len(dangers), 3, "the client tried again and again")
		first := dangers[0]
		require.Equal(t, lease.Name(), first.Name)
		require.Equal(t, lease.Owner(), first.Owner)
		require.Greater(t, first.Remaining, time.Second)
		require.ErrorIs(t, first.Err, redlock.ErrNoQuorum)
		for i := 1; i < len(dangers); i++ {
			require.Less(t, dangers[i].Remaining, dangers[i-1].Remaining)
			require.Positive(t, dangers[i].Remaining)
		}
	})
}

func TestLeaseInDangerIsLoggedOnceUntilARenewalSucceeds(t *testing.T) {
	testnet.OfEachKind(t, 3, func(t *testing.T, net *testnet.Net) {
		var lines testnet.Journal
		c := net.Client(redlock.WithTTL(3*time.Second), redlock.WithLogger(slog.New(slog.NewTextHandler(&lines, nil))))
		lease, err := net.Mutex(c, "x").Lock(t.Context())
		require.NoError(t, err)
		synctest.Wait()
		logged := func() int {
			synctest.Wait()
			return strings.Count(lines.String(), "a lease could not be renewed")
		}
		for times := 1; times <= 2; times++ {
			for _, n := range net.Nodes {
				n.Freeze()
			}
			time.Sleep(1700 * ms) // two renewals fail
			require.Equal(t, times, logged())
			for _, n := range net.Nodes {
				n.Thaw()
			}
			time.Sleep(time.Second)
			require.True(t, lease.Valid())
			require.Equal(t, times, logged())
		}
	})
}
