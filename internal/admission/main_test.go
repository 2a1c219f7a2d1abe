package admission_test

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

// members returns the client's nodes.
func members(c *redlock.Client) []*admission.Member { return testhook.Engine(c).Cluster.Nodes() }
