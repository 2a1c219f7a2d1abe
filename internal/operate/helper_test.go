package operate_test

import (
	"context"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/redlock-go/redlock"
	"github.com/redlock-go/redlock/internal/test/testnet"
)

const ms = time.Millisecond

// put sets a key at nodes, as a holder without a client does.
func put(t *testing.T, net *testnet.Net, key, holder string, nodes ...int) {
	t.Helper()
	for _, i := range nodes {
		require.NoError(t, net.Nodes[i].Redis.Set(key, holder))
		net.Nodes[i].Redis.SetTTL(key, time.Hour)
	}
}

// putMany sets the keys of so many locks at all nodes, and returns the names in their order.
func putMany(t *testing.T, net *testnet.Net, n int) (names []string) {
	t.Helper()
	for k := range n {
		names = append(names, fmt.Sprintf("many-%05d", k))
		for i := range net.Nodes {
			put(t, net, "redlock:"+names[k], "owner", i)
		}
	}
	return names
}

// list returns the names that Locks lists, in the order of their bytes, and its error.
func list(ctx context.Context, c *redlock.Client, pattern string) (names []string, err error) {
	for s, e := range c.Locks(ctx, pattern) {
		if err = e; e == nil {
			names = append(names, s.Name)
		}
	}
	slices.Sort(names)
	return names, err
}

// requireListed requires the names that Locks lists.
func requireListed(t *testing.T, c *redlock.Client, pattern string, want ...string) {
	t.Helper()
	names, err := list(t.Context(), c, pattern)
	require.NoError(t, err)
	require.Equal(t, want, names)
}

// executed counts a command at all nodes.
func executed(net *testnet.Net, label string) (all int) {
	for _, n := range net.Nodes {
		all += n.Executed(label)
	}
	return all
}
