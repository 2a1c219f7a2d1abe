package cluster

import (
	"testing"

	"github.com/stretchr/testify/require"
)

// Nodes are the masters of one test.
type Nodes []*Node

// Addrs returns the servers' own addresses.
func (ns Nodes) Addrs() []string { return collect(ns, (*Node).Addr) }

// URLs returns the servers' own redis:// URLs.
func (ns Nodes) URLs() []string {
	return collect(ns, func(n *Node) string { return "redis://" + n.Addr() })
}

// ProxyURLs returns the URLs of the proxies.
func (ns Nodes) ProxyURLs() []string {
	return collect(ns, func(n *Node) string { return "redis://" + n.ProxyAddr() })
}

func collect(ns Nodes, f func(*Node) string) []string {
	out := make([]string, len(ns))
	for i, n := range ns {
		out[i] = f(n)
	}
	return out
}

// Pick returns the nodes with these indexes.
func (ns Nodes) Pick(indexes ...int) Nodes {
	picked := make(Nodes, len(indexes))
	for i, p := range indexes {
		picked[i] = ns[p]
	}
	return picked
}

// Kill ends the servers with SIGKILL: connections break, new ones are refused.
// Their memory is lost, but for what Save wrote just before.
func (ns Nodes) Kill(t testing.TB) {
	t.Helper()
	require.NoError(t, each(len(ns), func(i int) error { return ns[i].kill() }))
}

// Start brings killed servers back under their old addresses.
func (ns Nodes) Start(t testing.TB) {
	t.Helper()
	require.NoError(t, each(len(ns), func(i int) error { return ns[i].start() }))
}

// Freeze stops the servers with SIGSTOP: the kernel goes on accepting connections
// and bytes for them, and nothing is answered. Thaw lets them go on.
func (ns Nodes) Freeze(t testing.TB) {
	t.Helper()
	require.NoError(t, each(len(ns), func(i int) error { return ns[i].setFrozen(true) }))
}

// Thaw ends a Freeze; without one it does nothing.
func (ns Nodes) Thaw(t testing.TB) {
	t.Helper()
	require.NoError(t, each(len(ns), func(i int) error { return ns[i].setFrozen(false) }))
}

// Cut holds all bytes in both directions, and new connections, as a network
// partition does: nothing is refused or reset, and everything arrives after Heal.
func (ns Nodes) Cut() {
	for _, n := range ns {
		n.Cut()
	}
}

// Heal ends what the proxies do; held bytes go on their way.
func (ns Nodes) Heal() {
	for _, n := range ns {
		n.Heal()
	}
}
