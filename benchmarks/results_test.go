package main

import (
	"bytes"
	"encoding/csv"
	"math"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

func TestAHistogramKeepsQuantilesWithinOnePercent(t *testing.T) {
	var a, b histogram
	for i := range 1000 {
		a.add(time.Duration(2*i+1) * time.Microsecond)
		b.add(time.Duration(2*i+2) * time.Microsecond)
	}
	a.merge(&b) // 1 … 2000 µs
	for q, want := range map[float64]float64{0.001: 2, 0.5: 1000, 0.99: 1980, 1: 2000} {
		assert.InEpsilon(t, want*1e3, float64(a.quantile(q)), 0.01)
	}
	assert.Zero(t, new(histogram).quantile(0.5))
	a.add(time.Hour) // longer than it knows: the last bucket
	assert.Greater(t, a.quantile(1), 4*time.Minute)
}

func TestASpreadHasTheMedianOfOddAndEvenNumbers(t *testing.T) {
	assert.Equal(t, spread{1, 2, 9}, spreadOf([]float64{9, 1, 2}))
	assert.Equal(t, spread{1, 2.5, 9}, spreadOf([]float64{9, 1, 2, 3}))
}

// twoRounds is a run of this library and redsync, in which the machine was slower
// in the second round.
func twoRounds() (r *results, ours, theirs cell) {
	r = newResults()
	ours = cell{"pairs", redlockDefault.name, pairsSetting(nodes, manyGoroutines)}
	theirs = cell{"pairs", redsyncOnRedigo.name, pairsSetting(nodes, manyGoroutines)}
	r.add(ours, 600, figures{"pairs/s": 600, "lock-p50-ns": 1500.5})
	r.add(theirs, 100, figures{"pairs/s": 100})
	r.add(ours, 300, figures{"pairs/s": 300, "lock-p50-ns": 3000})
	r.add(theirs, 75, figures{"pairs/s": 75})
	return r, ours, theirs
}

func TestTheHeadroomIsTheFloorsThatWereMeasured(t *testing.T) {
	r, ours, _ := twoRounds()
	assert.Empty(t, headroom(r).rows)
	bare := cell{"pairs", floorUnfenced.name, ours.setting}
	r.add(bare, 800, figures{"pairs/s": 800})
	r.add(bare, 750, figures{"pairs/s": 750})
	assert.Equal(t, [][]string{{floorUnfenced.name, "9.00x (8.00 to 10.00)", "-", "-"}}, headroom(r).rows)
}

func TestRatiosAreTakenRoundByRound(t *testing.T) {
	r, ours, theirs := twoRounds()
	v, ok := r.ratio(ours, theirs, "pairs/s")
	require.True(t, ok)
	assert.Equal(t, spread{4, 5, 6}, v)
	assert.InDelta(t, 450, r.median(ours, "pairs/s"), 1e-9)
	_, ok = r.ratio(ours, theirs, "lock-p50-ns")
	assert.False(t, ok, "redsync has no such figure")
	assert.True(t, math.IsNaN(r.median(theirs, "lock-p50-ns")))
}

func TestASettingIsReadByItsKeys(t *testing.T) {
	c := cell{setting: "distance=world/nodes=5"}
	assert.Equal(t, "world", c.param("distance"))
	assert.InDelta(t, 5, c.number("nodes"), 0)
	assert.Empty(t, c.param("fault"))
	assert.True(t, math.IsNaN(c.number("distance")))
}

func TestFiguresAreShownInAUnitThatFits(t *testing.T) {
	assert.Equal(t, "85.4 µs", micros(85_432))
	assert.Equal(t, "35.2 ms", micros(35_240_000))
	assert.Equal(t, "-", whole(math.NaN()), "what was not measured")
}

func TestAnUnmetTargetIsSaidPlainly(t *testing.T) {
	r, _, _ := twoRounds()
	verdicts := map[string]string{}
	for _, c := range pairsTargets(r) {
		verdicts[c.what] = c.verdict()
	}
	assert.Equal(t, "met", verdicts["pairs/s, best adapter, goroutines: 128, redlock / redsync-redigo"])
	assert.Equal(t, "not measured", verdicts["pairs/s, goroutines: 128, redlock / floor"])
	c := atMost(1.25, "x").ofValue("x", 1.26)
	assert.Equal(t, "NOT met", c.verdict())
	assert.Equal(t, "a wall", c.because("a wall").why())
	assert.Empty(t, atMost(1.25, "x").ofValue("x", 1).because("a wall").why())
	assert.Empty(t, atMost(1.25, "x").ofValue("x", math.NaN()).because("a wall").why())
	assert.Equal(t, "not measured", atMost(1, "").ofValue("x", math.NaN()).verdict())
	assert.Equal(t, 2, unmet([]check{c, {}, {measured: "1", met: true}}))
}

func TestRawDataIsReadAsItWasWritten(t *testing.T) {
	r, ours, _ := twoRounds()
	r.note("a note: of\ntwo lines")
	facts := []fact{{"goos", "linux"}, {"servers", "redis-server 7, a: b"}}
	var raw bytes.Buffer
	require.NoError(t, writeRaw(&raw, facts, r))
	assert.Contains(t, raw.String(), "BenchmarkPairs/peer=redlock/nodes=5/goroutines=128\t600\t1500.5 lock-p50-ns\t600 pairs/s\n")

	again, read, err := readRaw(&raw)
	require.NoError(t, err)
	assert.Equal(t, facts, again)
	assert.Equal(t, []string{"a note: of two lines"}, read.notes)
	assert.Equal(t, r.entries, read.entries)
	assert.Len(t, read.rounds[ours], 2)
	for _, bad := range []string{"BenchmarkPairs/peer=x 1 2", "BenchmarkPairs 1", "BenchmarkPairs/peer=x one 2 ns/op", "BenchmarkPairs/peer=x 1 two ns/op"} {
		_, _, err := readRaw(strings.NewReader(bad))
		assert.ErrorContains(t, err, "line 1", bad)
	}
}

func TestACSVHasALineForEachFigureOfEachRound(t *testing.T) {
	r, _, _ := twoRounds()
	var out bytes.Buffer
	require.NoError(t, writeCSV(&out, r))
	lines, err := csv.NewReader(&out).ReadAll()
	require.NoError(t, err)
	require.Len(t, lines, 1+6)
	assert.Equal(t, []string{"pairs", "redlock", "nodes=5/goroutines=128", "2", "300", "lock-p50-ns", "3000"}, lines[4])
}

func TestAReportBeginsWithRatiosAndHasAllFiles(t *testing.T) {
	r, _, _ := twoRounds()
	ours, theirs := r.entries[0].figures, r.entries[1].figures
	for _, n := range []int{1, 16} { // a line wants two points
		at := pairsSetting(nodes, n)
		r.add(cell{"pairs", redlockDefault.name, at}, 1, ours)
		r.add(cell{"pairs", redsyncOnRedigo.name, at}, 1, theirs)
	}
	r.note("something")
	rep := newReport([]fact{{"run", "full"}, {"peer-floor", "the floor"}}, r, workloads)
	dir := t.TempDir()
	require.NoError(t, rep.save(dir))
	require.NoError(t, rep.saveDocs(dir))
	for _, file := range []string{"raw.txt", "results.csv", "report.txt", "report.md", "targets.txt", "benchmarks.md",
		"charts/pairs-throughput.svg", "charts/pairs-throughput.png", "benchmarks/pairs-throughput.svg"} {
		info, err := os.Stat(filepath.Join(dir, file))
		require.NoError(t, err)
		assert.Positive(t, info.Size(), file)
	}
	assert.NoFileExists(t, filepath.Join(dir, "benchmarks/pairs-throughput.png"))

	text, err := os.ReadFile(filepath.Join(dir, "benchmarks.md"))
	require.NoError(t, err)
	page := string(text)
	assert.Less(t, strings.Index(page, "## Ratios"), strings.Index(page, "## Targets"))
	assert.Less(t, strings.Index(page, "## Targets"), strings.Index(page, "## Workload: pairs"))
	for _, part := range []string{"| redsync-redigo | 5.00x |", "NOT met, or not measured", "- something", "make bench-full",
		"](benchmarks/pairs-throughput.svg)", "| floor | the floor |"} {
		assert.Contains(t, page, part)
	}
	text, err = os.ReadFile(filepath.Join(dir, "report.txt"))
	require.NoError(t, err)
	assert.True(t, strings.HasPrefix(string(text), "\nRatios"))
}
