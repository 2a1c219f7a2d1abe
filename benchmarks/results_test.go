package main

import (
	"bytes"
	"encoding/csv"
	"math"
	"os"
	"path/filepath"
	"slices"
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
	assert.InDelta(t, 5, c.number("nodes"), 0)
	assert.True(t, math.IsNaN(c.number("distance")))
	assert.True(t, math.IsNaN(c.number("fault")))
}

func TestFiguresAreShownWithTheDigitsThatCount(t *testing.T) {
	assert.Equal(t, "85.4", micros(85_432))
	assert.Equal(t, "35240", micros(35_240_123))
	assert.Equal(t, "0.0248", precise(0.024801))
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
	const line = "BenchmarkPairs/peer=redlock/nodes=5/goroutines=128\t600\t1500.5 lock-p50-ns\t600 pairs/s\n"
	assert.Contains(t, raw.String(), line)

	again, read, err := readRaw(&raw)
	require.NoError(t, err)
	assert.Equal(t, facts, again)
	assert.Equal(t, []string{"a note: of two lines"}, read.notes)
	assert.Equal(t, r.entries, read.entries)
	assert.Len(t, read.rounds[ours], 2)
	for _, bad := range []string{
		"BenchmarkPairs/peer=x 1 2", "BenchmarkPairs 1",
		"BenchmarkPairs/peer=x one 2 ns/op", "BenchmarkPairs/peer=x 1 two ns/op",
	} {
		_, _, err := readRaw(strings.NewReader(bad))
		assert.ErrorContains(t, err, "line 1", bad)
	}
}

// The columns are the same whatever was measured, so that two runs can be compared.
func TestACSVHasARowForEachPeerInEachSetting(t *testing.T) {
	r, ours, theirs := twoRounds()
	data := pairsWorkload.data(r)
	assert.Equal(t, "nodes,goroutines,peer,pairs/s,lock-p50-us,lock-p99-us,unlock-p50-us,unlock-p99-us,cpu-us/op,"+
		"server-cpu-us/op,allocs/op,B/op,failures,hung,pairs/s-ratio,lock-p50-us-ratio,cpu-us/op-ratio",
		strings.Join(data.head, ","))
	require.Len(t, data.rows, 2)
	assert.Equal(t, "5,128,"+ours.peer+",450,2.2503,,,,,,,,,,1,1,", strings.Join(data.rows[0], ","))
	assert.Equal(t, "5,128,"+theirs.peer+",87.5,,,,,,,,,,,0.2083,,", strings.Join(data.rows[1], ","))
}

func TestACSVOfContentionHasTheRoundsThatCountCommandsToo(t *testing.T) {
	r := newResults()
	r.add(cell{"contention", "a", contentionSetting(16)}, 1, figures{"sections/s": 300, "hung": 0})
	r.add(cell{"commands", "a", contentionSetting(16)}, 1, figures{"commands/handoff": 3, "hung": 7})
	r.add(cell{"alone", "a", contentionSetting(1)}, 1, figures{"lock-p50-ns": 5000})
	data := contentionWorkload.data(r)
	require.Len(t, data.rows, 2)
	figure := func(row int, column string) string { return data.rows[row][slices.Index(data.head, column)] }
	assert.Equal(t, []string{"300", "3"}, []string{figure(0, "sections/s"), figure(0, "commands/handoff")})
	assert.Equal(t, "0", figure(0, "hung"))
	assert.Equal(t, []string{"1", "5"}, []string{figure(1, "clients"), figure(1, "lock-p50-us")})
}

func TestAFaultIsComparedWithTheSamePeersHealthyRounds(t *testing.T) {
	r := newResults()
	r.add(cell{"faults", "a", faultSetting(healthy)}, 1, figures{"lock-p99-ns": 2000})
	r.add(cell{"faults", "a", faultSetting(frozen)}, 1, figures{"lock-p99-ns": 3000})
	rows := faultsWorkload.data(r).rows
	require.Len(t, rows, 2)
	assert.Equal(t, []string{"1", "1.5"}, []string{rows[0][len(rows[0])-1], rows[1][len(rows[1])-1]})
	assert.Equal(t, [][]string{{"a", "2.0", "-", "1.50x", "-", "-", "-", "-"}}, faultsPage(r)[0].rows)
}

func TestARunHasAllFiles(t *testing.T) {
	r, _, _ := twoRounds()
	r.note("something")
	rep := newReport([]fact{{"date", "today"}, {"peer-floor", "the floor"}}, r, workloads)
	dir := t.TempDir()
	require.NoError(t, rep.save(dir))
	require.NoError(t, rep.saveDocs(dir))
	for _, file := range []string{
		"raw.txt", "report.txt", "run.csv", "targets.csv", "pairs.csv",
		"benchmarks.md", "benchmarks/run.csv", "benchmarks/targets.csv", "benchmarks/pairs.csv",
	} {
		info, err := os.Stat(filepath.Join(dir, file))
		require.NoError(t, err)
		assert.Positive(t, info.Size(), file)
	}
	read := func(file string) string {
		text, err := os.ReadFile(filepath.Join(dir, file))
		require.NoError(t, err)
		return string(text)
	}
	page := read("benchmarks.md")
	for _, part := range []string{"| date |", "| redsync-redigo | 5.00x |", "NOT met, or not measured", "1 notes."} {
		assert.Contains(t, page, part)
	}

	assert.Contains(t, read("report.txt"), "something\n")
	lines, err := csv.NewReader(strings.NewReader(read("targets.csv"))).ReadAll()
	require.NoError(t, err)
	assert.Len(t, lines, 1+len(rep.checks))
	assert.Contains(t, read("run.csv"), "peer-floor,the floor\nnote,something\n")
}

func TestThePageSaysTheReasonOfSeveralTargetsOnce(t *testing.T) {
	missed := check{what: "x", measured: "2", obstacle: "a wall"}
	rep := &report{results: newResults(), checks: []check{missed, missed, {what: "y", measured: "1", met: true}}}
	var page strings.Builder
	rep.writeMissed(&page)
	assert.Equal(t, 1, strings.Count(page.String(), "a wall"))
	assert.NotContains(t, page.String(), "| y |")
}
