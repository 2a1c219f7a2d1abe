package waitqueue_test

import (
	"context"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/redlock-go/redlock"
	"github.com/redlock-go/redlock/internal/protocol"
	"github.com/redlock-go/redlock/internal/test/testhook"
	"github.com/redlock-go/redlock/internal/test/testnet"
)

// Hand-offs to attempts that were refused a moment before, and are parked at the nodes.

func TestHandOffToAParkedAttemptTakesOneRoundTrip(t *testing.T) {
	testnet.InBubble(t, 5, func(t *testing.T, net *testnet.Net) {
		a, b := net.Client(), testnet.ListeningClient(t, net)
		lease, took, attempts := testnet.HandOff(t, net, a.Mutex("x"), b.Mutex("x"), 60*ms, func() {})
		require.Equal(t, 20*ms, took)
		require.Equal(t, 1, attempts)
		require.Equal(t, 5, net.Holders(lease))

		// The attempt was begun 80 ms ago, and its keys last for 500 ms: drift is 1 % and 2 ms.
		require.Equal(t, testhook.Lock(b.Mutex("x")).Terms().Wait.ExecutedValidity-80*ms, lease.Remaining())
		time.Sleep(20 * ms)
		synctest.Wait()
		require.Equal(t, testhook.Lock(b.Mutex("x")).Terms().Lease.Validity-20*ms, lease.Remaining(), "it was renewed at once")
		for _, n := range net.Nodes {
			require.Greater(t, n.Redis.TTL("redlock:x"), 9*time.Second)
		}
		require.NoError(t, lease.Unlock(t.Context()))
		net.RequireNoKeys()
		net.RequireNoLines()
		net.RequireNothingParked()
	})
}

func TestHandOffToAParkedAttemptWithoutTokensTakesOneRoundTrip(t *testing.T) {
	testnet.InBubble(t, 3, func(t *testing.T, net *testnet.Net) {
		a, b := net.Client(redlock.WithoutFencing()), testnet.ListeningClient(t, net, redlock.WithoutFencing())
		held, err := a.Mutex("x").Lock(t.Context())
		require.NoError(t, err)
		synctest.Wait() // it has all nodes
		got := make(chan *redlock.Lease)
		go func() {
			next, err := b.Mutex("x").Lock(t.Context())
			require.NoError(t, err)
			got <- next
		}()
		time.Sleep(60 * ms)
		for _, n := range net.Nodes {
			n.Set(func(n *testnet.Node) { n.Delay, n.Log = 10*ms, nil })
		}
		require.Equal(t, 20*ms, testnet.Elapsed(func() {
			go func() { require.NoError(t, held.Unlock(t.Context())) }()
			held = <-got
		}))
		require.Zero(t, held.Token())
		require.Zero(t, net.Nodes[0].Executed("claim"))
		require.NoError(t, held.Unlock(t.Context()))
	})
}

func TestAttemptThatNeedsItsFullTTLIsNotParked(t *testing.T) {
	for name, opts := range map[string][]redlock.LockOption{
		"without renewal": {redlock.WithoutRenewal()},
		"with an end":     {redlock.WithMaxHold(time.Minute)},
		"a short ttl":     {redlock.WithTTL(protocol.ReservationTTL)},
	} {
		testnet.InBubble(t, 3, func(t *testing.T, net *testnet.Net) {
			a, b := net.Client(), testnet.ListeningClient(t, net)
			m := b.Mutex("x", opts...)
			lease, took, _ := testnet.HandOff(t, net, a.Mutex("x"), m, 60*ms, net.RequireNothingParked)
			require.Equal(t, 40*ms, took, name)
			require.Equal(t, testhook.Lock(m).Terms().Lease.Validity-20*ms, lease.Remaining(), name)
			require.NoError(t, lease.Unlock(t.Context()))
		})
	}
}

func TestNextAttemptTakesOverAParkedOneWhoseExecutionTooFewNodesReport(t *testing.T) {
	testnet.InBubble(t, 5, func(t *testing.T, net *testnet.Net) {
		a, b := net.Client(), testnet.ListeningClient(t, net)
		lease, took, attempts := testnet.HandOff(t, net, a.Mutex("x"), b.Mutex("x"), 60*ms, func() {
			for _, n := range net.Nodes[:3] {
				n.Set(func(n *testnet.Node) {
					n.Lose = func(data []byte) bool { return strings.Contains(string(data), "$7\r\nmessage") }
				})
			}
		})
		require.Equal(t, 20*ms+firstQuorumWait+20*ms, took)
		require.Equal(t, 2, attempts)
		require.Equal(t, testhook.Lock(b.Mutex("x")).Terms().Lease.Validity-20*ms, lease.Remaining(), "it is an attempt like any other")
		require.Equal(t, 5, net.Holders(lease))
		require.NoError(t, lease.Unlock(t.Context()))
		net.RequireNoKeys()
	})
}

func TestLeavingWaiterRemovesItsParkedAttempts(t *testing.T) {
	testnet.InBubble(t, 3, func(t *testing.T, net *testnet.Net) {
		a, b := net.Client(), testnet.ListeningClient(t, net)
		lease, err := a.Mutex("x").Lock(t.Context())
		require.NoError(t, err)
		ctx, cancel := context.WithTimeout(t.Context(), 50*ms)
		defer cancel()
		_, err = b.Mutex("x").Lock(ctx)
		require.ErrorIs(t, err, redlock.ErrHeld)
		net.RequireNothingParked()
		require.NoError(t, lease.Unlock(t.Context()))
		net.RequireNoKeys()
	})
}

func TestLeaseOfAParkedAttemptEndsInTimeIfItCannotBeRenewed(t *testing.T) {
	testnet.InBubble(t, 3, func(t *testing.T, net *testnet.Net) {
		a, b := net.Client(), testnet.ListeningClient(t, net)
		lease, _, _ := testnet.HandOff(t, net, a.Mutex("x"), b.Mutex("x"), 60*ms, func() {
			for _, n := range net.Nodes {
				n.Set(func(n *testnet.Node) {
					n.Override = func(cmd string, args []string) string {
						if n.Label(cmd, args) == "renew" {
							return "ERR not now"
						}
						return ""
					}
				})
			}
		})
		end := lease.Remaining()
		require.Less(t, end, protocol.ReservationTTL)
		require.Equal(t, end, testnet.Elapsed(func() { <-lease.Done() }))
		require.ErrorIs(t, lease.Err(), redlock.ErrLost)
		require.Greater(t, net.Nodes[0].Executed("renew"), 3, "it was tried again in time")
		require.Less(t, net.Nodes[0].Executed("renew"), 30)
		time.Sleep(100 * ms)
		net.RequireNoKeys()
	})
}
