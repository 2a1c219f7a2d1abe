package integration

import (
	"fmt"
	"runtime"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"

	"github.com/redlock-go/redlock"
	"github.com/redlock-go/redlock/integration/cluster"
)

const (
	// bound is how much slower Lock and Unlock may be while a minority is frozen.
	bound = 1.5

	// loadTimeout is the node timeout of the tests under load: longer, so that
	// servers that must wait for a processor are not taken for frozen ones.
	loadTimeout = 400 * time.Millisecond
)

// Healthy and frozen phases alternate on the same connections, and medians over the phases
// are compared. Frozen phases are long enough for all that a client does about a frozen
// node: it waits for the node, leaves it out, drops its connection, and dials again.
//
// Other programs that run for some seconds can slow the phases of one kind. So if the first
// three pairs of phases are not within the bound, there are more, up to nine: then a short
// disturbance does not change the median, but a slow library does.
func TestSoakFrozenMinorityLeavesLockAndUnlockAsFastAsTheyWere(t *testing.T) {
	soakOnly(t)
	for _, goroutines := range []int{1, 16} {
		t.Run(fmt.Sprint(goroutines, " goroutines"), func(t *testing.T) {
			const phase = 2200 * time.Millisecond
			nodes := cluster.Use(t, 5)
			assertLeakFree(t)
			client := openClient(t, nodes.URLs(), redlock.WithNodeTimeout(loadTimeout))
			awaitAllVotes(t, client, nodes)
			runLoad(t, client, goroutines, phase/4) // warm up

			late := watchHiccups(t, nodes[2:]...)
			var c comparison
			for pairs := 0; pairs < 3 || pairs < 9 && c.worst() > bound; pairs++ {
				c.healthy = append(c.healthy, runLoad(t, client, goroutines, phase))
				nodes[:2].Freeze(t)
				c.frozen = append(c.frozen, runLoad(t, client, goroutines, phase))
				nodes.Thaw(t)
				awaitAllVotes(t, client, nodes)
			}
			t.Logf("over %d pairs of phases: %v", len(c.frozen), &c)
			assert.LessOrEqual(t, c.worst(), bound)
			c.total().assertNeverLonger(t, late)
			c.total().assertExplained(t, late)
			assertNoKeys(t, nodes)
		})
	}
}

func TestMemoryStaysFlatAndNothingIsLeftBehindUnderLoadWithAFrozenMinority(t *testing.T) {
	notInShort(t)
	assertMemoryStaysFlat(t, 15*time.Second)
}

func TestSoakMemoryStaysFlatUnderLoadWithAFrozenMinority(t *testing.T) {
	soakOnly(t)
	assertMemoryStaysFlat(t, time.Minute)
}

// assertMemoryStaysFlat keeps a load up for a while. The pools are a user's: without
// any timeouts, and with room for two connections.
func assertMemoryStaysFlat(t *testing.T, duration time.Duration) {
	t.Helper()
	const goroutines = 128
	nodes := cluster.Use(t, 5)
	assertLeakFree(t)
	client := newClient(t, barePools(2, nodes.Addrs()...), redlock.WithNodeTimeout(loadTimeout))
	awaitAllVotes(t, client, nodes)
	nodes[:2].Freeze(t)

	const phases = 12
	var memory []uint64
	pairs, failed := 0, 0
	for range phases {
		l := runLoad(t, client, goroutines, duration/phases)
		pairs += len(l.unlock)
		failed += l.failed
		l = load{} // not the library's memory
		memory = append(memory, liveMemory())
	}
	t.Logf("%d pairs of Lock and Unlock, %d calls without a quorum; live memory after each %v, in KiB: %v",
		pairs, failed, duration/phases, memory)
	// The first phase fills buffers. Memory that grows with the load would be higher at the
	// end than it ever was early on.
	early, end := slices.Max(memory[1:4]), slices.Min(memory[phases-3:])
	assert.LessOrEqual(t, end, early+early/10, "memory grows")

	nodes.Thaw(t)
	awaitAllVotes(t, client, nodes)
	assertNoKeys(t, nodes)
}

// liveMemory returns the reachable heap and the stacks, in KiB.
func liveMemory() uint64 {
	runtime.GC()
	runtime.GC() // what the first one only moved out of sync.Pools
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return (m.HeapAlloc + m.StackInuse) >> 10
}
