package node_test

import (
	"runtime/debug"
	"time"

	"github.com/redlock-go/redlock"
	"github.com/redlock-go/redlock/internal/admission"
	"github.com/redlock-go/redlock/internal/test/testhook"
)

const ms = time.Millisecond

// TestMain stands in helper_test.go.
func init() { debug.SetGCPercent(400) } // the embedded nodes make a Lua state for each script

// nodes returns the client's nodes.
func nodes(c *redlock.Client) []*admission.Member { return testhook.Engine(c).Cluster.Nodes() }

// deadAfter returns how long the client waits for an answer before it closes the connection.
func deadAfter(c *redlock.Client) time.Duration {
	return max(4*testhook.Engine(c).NodeTimeout, time.Second)
}
