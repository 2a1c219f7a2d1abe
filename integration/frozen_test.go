package integration

import (
	"fmt"
	"runtime"
	"slices"
	"strings"
	"sync"
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

// samples are the durations of one kind of call.
type samples []time.Duration

func (s samples) percentile(p int) time.Duration {
	sorted := slices.Sorted(slices.Values(s))
	return sorted[len(sorted)*p/100]
}

func (s samples) mean() time.Duration {
	var sum time.Duration
	for _, d := range s {
		sum += d
	}
	return sum / time.Duration(len(s))
}

// load is what some goroutines measured in one phase of locking and unlocking.
type load struct {
	lock, unlock samples
	failed       int // calls without a quorum
}

// runLoad locks and unlocks for a while in every goroutine, each on a name of its
// own, and takes the time of every call.
func runLoad(t *testing.T, client *redlock.Client, goroutines int, d time.Duration) load {
	t.Helper()
	parts := make([]load, goroutines)
	var workers sync.WaitGroup
	end := time.Now().Add(d)
	for g := range parts {
		mutex := client.Mutex(fmt.Sprint("load-", g))
		workers.Go(func() {
			for time.Now().Before(end) && parts[g].pair(t, mutex) {
			}
		})
	}
	workers.Wait()
	if t.Failed() {
		t.FailNow() // there may be nothing to compare
	}
	var all load
	for _, part := range parts {
		all.lock = append(all.lock, part.lock...)
		all.unlock = append(all.unlock, part.unlock...)
		all.failed += part.failed
	}
	return all
}

// pair is one Lock and Unlock. It returns false if the load should end.
func (l *load) pair(t *testing.T, mutex *redlock.Mutex) bool {
	var lease *redlock.Lease
	var err error
	l.lock = append(l.lock, timed(func() { lease, err = mutex.TryLock(t.Context()) }))
	if err != nil {
		return l.fail(t, err)
	}
	l.unlock = append(l.unlock, timed(func() { err = lease.Unlock(t.Context()) }))
	return err == nil || l.fail(t, err)
}

func (l *load) fail(t *testing.T, err error) (goOn bool) {
	l.failed++
	return assert.ErrorIs(t, err, redlock.ErrNoQuorum)
}

// assertExplained expects that all calls succeeded, unless the machine stopped a healthy
// server, or this process, for about a node timeout.
func (l *load) assertExplained(t *testing.T, late *hiccups) {
	t.Helper()
	if l.failed == 0 {
		return
	}
	t.Logf("%d calls found no quorum; the machine's worst hiccup was %v", l.failed, late.longest())
	assert.Greater(t, late.longest(), loadTimeout/2, "calls failed, and the machine did not stop")
}

// assertNeverLonger expects that no call took longer than the node timeout.
func (l *load) assertNeverLonger(t *testing.T, late *hiccups) {
	t.Helper()
	longest := max(slices.Max(l.lock), slices.Max(l.unlock))
	t.Logf("longest call %v; node timeout %v, measured with a tolerance of %v", longest, loadTimeout, late.allowance())
	assert.LessOrEqual(t, longest, loadTimeout+late.allowance())
}

// comparison sets phases with a frozen minority against healthy ones.
type comparison struct {
	healthy, frozen []load
}

// each calls f for p50, p99 and mean of Lock and of Unlock, with the medians over
// the phases. The mean is there because few long waits, which no percentile
// shows, can take up most of the time.
func (c *comparison) each(f func(what string, healthy, frozen time.Duration)) {
	for _, call := range []struct {
		name string
		of   func(load) samples
	}{
		{"Lock", func(l load) samples { return l.lock }},
		{"Unlock", func(l load) samples { return l.unlock }},
	} {
		for _, figure := range []struct {
			name string
			of   func(samples) time.Duration
		}{
			{"p50", func(s samples) time.Duration { return s.percentile(50) }},
			{"p99", func(s samples) time.Duration { return s.percentile(99) }},
			{"mean", samples.mean},
		} {
			median := func(phases []load) time.Duration {
				var all samples
				for _, l := range phases {
					all = append(all, figure.of(call.of(l)))
				}
				return all.percentile(50)
			}
			f(call.name+" "+figure.name, median(c.healthy), median(c.frozen))
		}
	}
}

// worst is the greatest of the ratios frozen to healthy.
func (c *comparison) worst() (ratio float64) {
	c.each(func(_ string, healthy, frozen time.Duration) {
		ratio = max(ratio, float64(frozen)/float64(healthy))
	})
	return ratio
}

// total is the load of all phases together.
func (c *comparison) total() *load {
	var all load
	for _, l := range slices.Concat(c.healthy, c.frozen) {
		all.lock = append(all.lock, l.lock...)
		all.unlock = append(all.unlock, l.unlock...)
		all.failed += l.failed
	}
	return &all
}

func (c *comparison) String() string {
	var parts []string
	c.each(func(what string, healthy, frozen time.Duration) {
		parts = append(parts, fmt.Sprintf("%s healthy %v, frozen %v (%.2f times)",
			what, healthy.Round(time.Microsecond), frozen.Round(time.Microsecond), float64(frozen)/float64(healthy)))
	})
	return strings.Join(parts, "; ")
}
