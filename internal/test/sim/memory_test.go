package sim

import (
	"runtime"
	"testing"
	"time"
	"weak"

	"github.com/stretchr/testify/require"

	"github.com/redlock-go/redlock/internal/test/testnet"
)

// A run that is over leaves nothing in memory, or a long simulation ends for want of it. The cleanup
// of each lease leads to its client, and from there to all that the simulation gave the client: a
// way from there to the lease would keep the run for ever.
func TestSimulationKeepsNoRunInMemory(t *testing.T) {
	const most = 2 << 20 // scripts that are compiled stay; of a run that stays, a quarter of a megabyte at least
	seeds := uint64(20)
	if testnet.RaceDetector {
		seeds = 5
	}
	var histories []weak.Pointer[simHistory]
	run := func(seed uint64) {
		h := runSeed(t, seed, false)
		h.check()
		histories = append(histories, weak.Make(h))
	}
	run(1) // compiles the scripts, which stay
	before := heapInUse()
	for seed := range seeds {
		run(seed + 2)
	}
	var after, stay uint64
	for range 50 { // cleanups that run meanwhile still refer to a run
		after, stay = heapInUse(), 0
		for _, h := range histories {
			if h.Value() != nil {
				stay++
			}
		}
		if stay == 0 && after < before+most {
			break
		}
		time.Sleep(20 * time.Millisecond)
	}
	require.Zero(t, stay, "histories that stay in memory, of %d", len(histories))
	require.Less(t, after, before+most, "the heap after %d runs, in bytes", len(histories))
}

// heapInUse returns the bytes of the heap that are in use after a collection of garbage.
func heapInUse() uint64 {
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return m.HeapAlloc
}
