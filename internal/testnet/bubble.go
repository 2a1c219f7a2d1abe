package testnet

import (
	"testing"
	"testing/synctest"
	"time"
)

// InBubble runs a test over n embedded nodes in virtual time.
func InBubble(t *testing.T, n int, test func(t *testing.T, net *Net)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		net := newNet(t, n)
		net.bubble = true
		defer net.Stop()
		test(t, net)
	})
}

// InRealTime makes n embedded nodes in real time, for tests that need the garbage collector,
// which does not run on virtual time. They stop when the test ends.
func InRealTime(t *testing.T, n int) *Net {
	net := newNet(t, n)
	t.Cleanup(net.Stop)
	return net
}

func newNet(t *testing.T, n int) *Net {
	net := &Net{T: t, Clock: &Clock{Origin: time.Now()}}
	for i := range n {
		net.Nodes = append(net.Nodes, NewNode(t, i))
	}
	return net
}
