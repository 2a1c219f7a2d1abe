package lock_test

import (
	"strings"
	"testing"
	"testing/synctest"

	"github.com/stretchr/testify/require"

	"github.com/redlock-go/redlock"
	"github.com/redlock-go/redlock/internal/test/testnet"
)

// Names, prefixes and labels are bytes, and need not be UTF-8.
func TestTransferOfANameThatIsNoText(t *testing.T) {
	for _, n := range []struct{ name, prefix, label string }{
		{"x\xff", "redlock:", "label"},
		{"x", "p\xfe\x00:", "label"},
		{"x", "redlock:", "\xfd\"\n"},
		{"\x80\x81", "\xc0", "\xc1"},
	} {
		testnet.InBubble(t, 3, func(t *testing.T, net *testnet.Net) {
			a, b := net.Client(redlock.WithPrefix(n.prefix), redlock.WithOwnerLabel(n.label)), net.Client(redlock.WithPrefix(n.prefix))
			lease, err := a.Mutex(n.name).Lock(t.Context())
			require.NoError(t, err)
			synctest.Wait()
			text, err := lease.Transfer(t.Context())
			require.NoError(t, err)
			require.Equal(t, n.label, holderSeen(t, b, n.name).Label)
			resumed, err := b.Resume(t.Context(), text)
			require.NoError(t, err, "%q", n)
			require.Equal(t, n.name, resumed.Name())
			require.NoError(t, resumed.Unlock(t.Context()))
			synctest.Wait()
			net.RequireNoKeys()
		})
	}
}

// A server may name its run as it likes. A text that nobody could read is not begun: the lease goes
// on.
func TestTransferWhoseTextWouldBeTooLong(t *testing.T) {
	testnet.InBubble(t, 15, func(t *testing.T, net *testnet.Net) {
		for _, n := range net.Nodes {
			n.Set(func(n *testnet.Node) { n.RunID += strings.Repeat("r", 2800) })
		}
		lease, err := net.Client().Mutex("x").Lock(t.Context())
		require.NoError(t, err)
		_, err = lease.Transfer(t.Context())
		require.ErrorIs(t, err, redlock.ErrConfig)
		require.Zero(t, net.Nodes[0].Executed("transfer"))
		require.Equal(t, 15, net.Holders(lease))
		require.NoError(t, lease.Extend(t.Context()))
	})
}
