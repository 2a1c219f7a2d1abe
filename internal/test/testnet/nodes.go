package testnet

import (
	"testing/synctest"
	"time"
)

// What tests do to all nodes at once.

// Delay makes the way to each node, and the way back, take so long from now on. What was sent before
// arrives first: a Lock that a quorum has answered may still be on its way to the other nodes, and
// another client's command would come before it there.
func (w *Net) Delay(way time.Duration) {
	if w.bubble {
		synctest.Wait()
	}
	for _, n := range w.Nodes {
		n.Set(func(n *Node) { n.Delay = way })
	}
}

// ClearLogs removes the commands from the nodes' logs, so that a test counts only those that follow.
func (w *Net) ClearLogs() {
	for _, n := range w.Nodes {
		n.Set(func(n *Node) { n.Log = nil })
	}
}
