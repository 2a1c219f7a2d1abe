package admission_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/redlock-go/redlock"
	"github.com/redlock-go/redlock/internal/test/testnet"
)

// The servers' clocks are set back by an hour while they are in quarantine.
func TestQuarantineIsNoLongerThanItsGuardThoughClocksAreSetBack(t *testing.T) {
	testnet.InBubble(t, 3, func(t *testing.T, net *testnet.Net) {
		c := net.NewClient(redlock.WithTTL(5*time.Second), redlock.WithRestartGuard(5*time.Second))
		time.Sleep(time.Second)
		for _, n := range net.Nodes {
			require.Equal(t, 4*time.Second, n.Redis.TTL(n.Key("guard")).Round(time.Second))
			n.Redis.SetTTL(n.Key("guard"), time.Hour)
		}
		_, took := lockWithin(t, c, 8*time.Second)
		require.Greater(t, took, 5*time.Second, "a guard from the look that found it")
	})
}

// A node prolongs only what the client has read that its record, or its quarantine, allows for.
func TestRenewalNeedsItsTTLOnRecord(t *testing.T) {
	testnet.InBubble(t, 3, func(t *testing.T, net *testnet.Net) {
		c := net.Guarded(redlock.WithTTL(2 * time.Second))
		m := members(c)[1]
		_, err := m.RightToRenew(2 * time.Second)
		require.NoError(t, err)
		_, err = m.RightToRenew(7 * time.Second)
		require.ErrorContains(t, err, "is being registered")
		time.Sleep(time.Second)
		_, err = m.RightToRenew(7 * time.Second)
		require.NoError(t, err)
		require.Equal(t, "7000", net.Nodes[1].Redis.HGet(net.Nodes[1].Record(), "ttl"))
		net.Nodes[1].Redis.FlushAll()
		m.Nudge()
		time.Sleep(time.Second)
		right, err := m.RightToRenew(7 * time.Second)
		require.NoError(t, err, "the quarantine lasts as long")
		require.False(t, right.Votes)
		_, err = m.RightToRenew(8 * time.Second)
		require.ErrorContains(t, err, "is being registered")
	})
}
