package sim

import (
	"crypto/sha256"
	"encoding/hex"
	"flag"
	"fmt"
	"os"
	"regexp"
	"runtime"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"
	"weak"

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
				t.Errorf("%s\nSeed %d gave another history on one processor than on all.", firstDifference(a[i], b[i]), first+uint64(i))
			}
		}
	}
	compare(1, uint64(testnet.Tries(4, 20)))                               // make sim-repeat compares more
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

// Of the seeds that nobody has seen, one in some two thousand fails, and nearly always in being slow:
// some bound that the checks set is too narrow for what happened there. Such a seed needs a look, and
// is no reason to refuse a change. With -sim.fresh the run goes on, and passes. All else fails it: two
// holders, tokens, losses, what is left behind, and every check that is not listed here.

// simSlow are the violations that say that something took too long.
var simSlow = []*regexp.Regexp{
	regexp.MustCompile(`^nobody had `),                                                                                                                 // progress, and how long dead waiters keep a lock
	regexp.MustCompile(`^client \S+, which asked for .*, was passed by \d+ later ones$`),                                                               // order
	regexp.MustCompile(`^client \S+ is not served when all trouble is over: `),                                                                         // service
	regexp.MustCompile(`^node \d+ was in quarantine from .*, though client \d+ could admit it from `),                                                  // admission
	regexp.MustCompile(`^the burst of \d+ calls of client \d+: (\d+ did not end in time: |none got its lock$|\d+ attempts were in vain, of at most )`), // burst
	regexp.MustCompile(`^client \S+'s lease, token \d+, was not told until `),                                                                          // told
	regexp.MustCompile(`^client \d+'s Close took `),                                                                                                    // close
}

// areSlow reports whether all violations of a run say that something took too long.
func areSlow(wrong []string) bool {
	isOther := func(text string) bool {
		return !slices.ContainsFunc(simSlow, func(slow *regexp.Regexp) bool { return slow.MatchString(text) })
	}
	return !slices.ContainsFunc(wrong, isOther)
}

func TestOnlySlowSeedsDoNotFailAFreshRun(t *testing.T) {
	slow := []string{
		"nobody had lock-0 (alone, or before a reader: false) for 9s, from 7s on, while client 1.2 waited for lock-0, for whom a majority was well",
		"client 1.2, which asked for lock-0 at 3s, was passed by 4 later ones",
		"client 1 is not served when all trouble is over: context deadline exceeded",
		"node 2 was in quarantine from 3s to 30s, though client 0 could admit it from 4s to 30s",
		"the burst of 178 calls of client 0: 3 did not end in time: Lock within 1s, TryLock within 2s",
		"the burst of 178 calls of client 0: none got its lock",
		"the burst of 178 calls of client 0: 22 attempts were in vain, of at most 8",
		"client 1.2's lease, token 7, was not told until 3s (told: 0s) that client 0 waits for lock-0 since 1s",
		"client 1's Close took 201.6ms",
	}
	wrong := []string{
		"two holders of lock-0: client 1 (token 7) until 3s, alone until 3s, client 2 (token 8) from 2s, alone until 5s",
		"token 7 of client 1, granted at 3s, after token 8 of client 2, granted at 2s",
		"node 1 still has redlock:lock-0 = \"A\", for 3s",
		"client 1 died 3s ago, and node 1 still has redlock:lock-0 = \"A\", for 3s",
		"client 1 is closed, and node 1 still has redlock:lock-0 = \"A\", for 3s",
		"client 1's keys were deleted at 3s; its lease went on until 9s",
		"client 1's lease, token 7, had ended and is valid again",
		"client 1's lease, token 7, excludes readers at 2 nodes after its downgrade",
		"client 1's lease of 2 permits, token 7, was lost at 3s without a cause: nobody had it",
		"the burst of 178 calls of client 0: client 0's lease of 0 permits, token 7, was lost at 3s without a cause: lost",
		"the transfer of lock-0 by client 1 at 3s, token 7: client 2 did not resume it at 4s, though all nodes were well: lost",
		"the minimum hold of lock-0 until 3s, of the lease of client 1 (token 7), granted at 1s, was not over when client 2 (token 8) got it at 2s",
		"the lock delay of lock-0 until 3s, after the lease of client 1 (token 7), was not over when client 2 (token 8) got it at 2s",
		"node 1 gave the key of \"A\" to \"B\" for a renewal",
		"client 1 reached a ballot that was given back",
		"the script acquire fails at node 1: ERR",
		"a check that is new",
	}
	for _, text := range slow {
		require.True(t, areSlow([]string{text}), text)
	}
	for _, text := range wrong {
		require.False(t, areSlow([]string{text}), text)
		require.False(t, areSlow([]string{slow[0], text}), "not even beside what is slow: %s", text)
	}
	require.True(t, areSlow(slow))
}
