package admission_test

import (
	"runtime"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/redlock-go/redlock"
	"github.com/redlock-go/redlock/internal/test/testnet"
)

// Two nodes are ready before the client has looked at the third. At that look a busy machine stops the third's goroutine
// where it tells the others to check again. The client's first call comes next: the nodes are about to be admitted, so it
// asks again.
func TestShortClientOnABusyMachineGetsItsLockAfterTheLastLook(t *testing.T) {
	testnet.InBubble(t, 3, func(t *testing.T, net *testnet.Net) {
		require.ErrorIs(t, runShortClient(t, net), redlock.ErrNoQuorum)
		time.Sleep(2*time.Second + 20*ms)
		net.Nodes[2].Set(func(n *testnet.Node) { n.Delay = 10 * ms })
		var stops atomic.Int32
		clock := func() time.Duration {
			if isCalledBy("(*Group).recheckOthers") {
				stops.Add(1)
				time.Sleep(5 * ms)
			}
			return net.Clock.Now()
		}
		c := net.NewClient(redlock.WithTTL(2*time.Second), redlock.WithRestartGuard(time.Millisecond), testnet.WithClock(clock))
		net.Must(c.Mutex("job").TryLock(t.Context()))
		require.NotZero(t, stops.Load())
	})
}

// isCalledBy reports whether a function of this name called the caller, directly or not.
func isCalledBy(name string) bool {
	var callers [16]uintptr
	frames := runtime.CallersFrames(callers[:runtime.Callers(3, callers[:])])
	for {
		f, more := frames.Next()
		if strings.HasSuffix(f.Function, name) {
			return true
		}
		if !more {
			return false
		}
	}
}
