package sim

import (
	"crypto/sha256"
	"encoding/hex"
	"flag"
	"fmt"
	"os"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/redlock-go/redlock/internal/test/testnet"
)

var (
	simHash   = flag.Bool("sim.hash", false, "print the hash of the histories of -sim.runs seeds, 2000 if not given, from -sim.seed on")
	simHashes = flag.String("sim.hashes", "", "with -sim.hash: a file for the hash of each seed")
	simRepeat = flag.Int("sim.repeat", 0, "simulate each of -sim.runs seeds so often on all processors, and so often on one, and compare the histories")
)

// simDigest is the hash of a history.
type simDigest [sha256.Size]byte

func (d simDigest) String() string { return hex.EncodeToString(d[:8]) }

// simDigests returns the hashes of the histories of n seeds.
func simDigests(t *testing.T, first, n uint64) []simDigest {
	return ofHistories(t, first, n, func(history string) simDigest { return sha256.Sum256([]byte(history)) })
}

// ofHistories returns what f makes of the histories of n seeds, with everything that the
// servers execute. Each processor runs one simulation at a time.
func ofHistories[T any](t *testing.T, first, n uint64, f func(history string) T) []T {
	all := make([]T, n)
	var next atomic.Uint64
	var workers sync.WaitGroup
	for range runtime.GOMAXPROCS(0) {
		workers.Go(func() {
			for i := next.Add(1) - 1; i < n; i = next.Add(1) - 1 {
				h := runSeed(t, first+i, true)
				all[i] = f(h.text() + fmt.Sprint(h.outside, h.check()))
			}
		})
	}
	workers.Wait()
	return all
}

// onOneProcessor returns what f returns when it runs on one processor.
func onOneProcessor[T any](f func() T) T {
	before := runtime.GOMAXPROCS(1)
	defer runtime.GOMAXPROCS(before)
	return f()
}

// requireSameHistories compares the hashes of two runs over the same seeds.
func requireSameHistories(t *testing.T, first uint64, a, b []simDigest, run string) {
	t.Helper()
	var differ []uint64
	for i := range a {
		if a[i] != b[i] {
			differ = append(differ, first+uint64(i))
		}
	}
	require.Empty(t, differ, "these seeds gave another history %s; "+
		"see one with: go test ./internal/test/sim -run '^TestSimulation$' -sim.seed=N -sim.show", run)
}

// A failure that was seen once can be seen again: the same seed gives the same
// history, byte for byte, with everything that the servers execute, on however many
// processors it runs.
func TestTheSameSeedGivesTheSameHistory(t *testing.T) {
	compare := func(first, seeds uint64) {
		whole := func(history string) string { return history }
		a := ofHistories(t, first, seeds, whole)
		b := onOneProcessor(func() []string { return ofHistories(t, first, seeds, whole) })
		for i := range a {
			if a[i] != b[i] {
				t.Errorf("seed %d gave another history on one processor than on all. %s", first+uint64(i), firstDifference(a[i], b[i]))
			}
		}
	}
	compare(1, uint64(testnet.Tries(4, 100)))                              // make sim-repeat compares more
	for _, seed := range []uint64{335, 379, 813, 1195, 1723, 1768, 1979} { // they had several histories once
		compare(seed, 1)
	}
}

// firstDifference shows the first lines in which two histories differ, and what was the same before.
func firstDifference(a, b string) string {
	const before, after = 15, 5
	one, other := strings.Split(a, "\n"), strings.Split(b, "\n")
	same := 0
	for same < min(len(one), len(other)) && one[same] == other[same] {
		same++
	}
	some := func(lines []string, from, to int) string {
		return strings.Join(lines[max(from, 0):min(to, len(lines))], "\n")
	}
	return fmt.Sprintf("Both:\n%s\none:\n%s\nthe other:\n%s", some(one, same-before, same), some(one, same, same+after), some(other, same, same+after))
}

// TestSimulationRepeats compares many runs of many seeds.
func TestSimulationRepeats(t *testing.T) {
	if *simRepeat == 0 {
		t.Skip("it runs with -sim.repeat")
	}
	runs := uint64(max(*simRuns, 1))
	first := simDigests(t, *simSeed, runs)
	for k := range *simRepeat {
		if k > 0 {
			requireSameHistories(t, *simSeed, first, simDigests(t, *simSeed, runs), fmt.Sprintf("at run %d on all processors", k+1))
		}
		alone := onOneProcessor(func() []simDigest { return simDigests(t, *simSeed, runs) })
		requireSameHistories(t, *simSeed, first, alone, fmt.Sprintf("at run %d on one processor", k+1))
	}
	t.Logf("%d seeds from %d on: one history each in %d runs on %d processors and %d on one",
		runs, *simSeed, *simRepeat, runtime.GOMAXPROCS(0), *simRepeat)
}

// TestSimulationHash prints one hash for the histories of many seeds. It stays the
// same for as long as a change of the library changes nothing that it does.
func TestSimulationHash(t *testing.T) {
	if !*simHash {
		t.Skip("it runs with -sim.hash")
	}
	runs := uint64(*simRuns)
	if runs == 0 {
		runs = 2000
	}
	sum := sha256.New()
	var list []byte
	for i, d := range simDigests(t, *simSeed, runs) {
		sum.Write(d[:])
		list = fmt.Appendf(list, "%d %v\n", *simSeed+uint64(i), d)
	}
	if *simHashes != "" {
		require.NoError(t, os.WriteFile(*simHashes, list, 0o644))
	}
	fmt.Printf("%d seeds from %d on: %x\n", runs, *simSeed, sum.Sum(nil))
}
