package main

import (
	"bytes"
	"context"
	"errors"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

func TestEachWorkloadRunsInATinyForm(t *testing.T) {
	notInShort(t)
	for _, w := range workloads {
		t.Run(w.name, func(t *testing.T) {
			b := tinyBench(t)
			b.peers = []contender{redlockDefault, redsyncOnRedigoFast, rueidislockOne, floor}
			b.workloads = []workload{w}
			require.NoError(t, b.run(t.Context()))
			for _, note := range b.results.notes {
				t.Log(note)
			}
			require.NotEmpty(t, b.results.peers(w.name))
			assert.Contains(t, b.results.peers(w.name), redlockDefault.name)
			for _, e := range b.results.entries {
				if e.peer == redlockDefault.name {
					assert.Zero(t, e.figures["failures"], e.setting)
					assert.Zero(t, e.figures["hung"], e.setting)
					assert.Positive(t, e.ops, e.setting)
				}
			}
			assert.NotEmpty(t, w.data(b.results).rows)
			assert.NotEmpty(t, w.targets(b.results))
			require.NoError(t, newReport(nil, b.results, b.workloads).save(t.TempDir()))
			var raw bytes.Buffer
			require.NoError(t, writeRaw(&raw, nil, b.results))
			_, read, err := readRaw(&raw)
			require.NoError(t, err, "a report can be written again from the raw data")
			assert.Equal(t, b.results.entries, read.entries)
		})
	}
}

func TestTenThousandRenewingLeasesStayWithinTheirBounds(t *testing.T) {
	notInShort(t)
	b := tinyBench(t)
	p, err := openRedlock(b.site(nodes))
	require.NoError(t, err)
	defer func() { assert.NoError(t, p.close()) }()
	_, f, err := b.holdLeases(t.Context(), p, leasePlan{count: manyLeases, watch: 5 * time.Second})
	require.NoError(t, err)
	b.results.add(cell{"leases", redlockDefault.name, "leases=10000"}, 1, f)
	for _, c := range leasesTargets(b.results) {
		t.Logf("%s: %s, %s", c.what, c.measured, c.verdict())
		if c.measured != "" {
			assert.True(t, c.met, c.what)
		}
	}
}

// Looser than the benchmark's targets, as the counts of a short time are.
func TestALockGoesRoundAmongEqualClientsAndNeverHasTwoHolders(t *testing.T) {
	notInShort(t)
	b := tinyBench(t)
	clients, err := b.openClients(t.Context(), redlockDefault, b.site(nodes), fewWaiters)
	require.NoError(t, err)
	defer b.closeAll(clients)
	l, err := runRelay(t.Context(), clients, fewWaiters, 100*time.Millisecond, 2*time.Second)
	require.NoError(t, err)
	t.Logf("shares %.2f to %.2f", l.leastShare(), l.mostShare())
	assert.GreaterOrEqual(t, l.leastShare(), 0.5)
	assert.LessOrEqual(t, l.mostShare(), 1.5)
	assert.Zero(t, l.overlaps)
	assert.NoError(t, l.failure)
}

func TestAHandOffTakesNoMoreCommandsWithMoreWaiters(t *testing.T) {
	notInShort(t)
	b := tinyBench(t)
	for _, n := range []int{fewWaiters, 256} {
		b.countCommands(t.Context(), redlockDefault, n, time.Second, time.Second)
	}
	few := b.results.median(cell{"commands", redlockDefault.name, contentionSetting(fewWaiters)}, "commands/handoff")
	many := b.results.median(cell{"commands", redlockDefault.name, contentionSetting(256)}, "commands/handoff")
	t.Logf("%.1f with %d waiters, %.1f with 256", few, fewWaiters, many)
	assert.LessOrEqual(t, many, 2*few)
	assert.True(t, b.results.soundCheck().met, b.results.soundCheck().measured)
}

func TestWaitersForALockThatStaysHeldAreQuiet(t *testing.T) {
	notInShort(t)
	b := tinyBench(t)
	b.countIdle(t.Context(), 256, 3*time.Second)
	sent := b.results.median(cell{"idle", redlockDefault.name, contentionSetting(256)}, "commands/s")
	t.Logf("%.1f commands per second at a server while 256 wait", sent)
	assert.LessOrEqual(t, sent, 20.0)
}

// freeForAll grants every lock: no peer should.
type freeForAll struct{}

func (freeForAll) lock(context.Context, string) (held, error) { return freeForAll{}, nil }
func (freeForAll) Unlock(context.Context) error               { return nil }
func (freeForAll) close() error                               { return nil }

func TestARelayNoticesTwoHolders(t *testing.T) {
	l, err := runRelay(t.Context(), []*opened{{peer: freeForAll{}}}, 2, 0, 500*time.Millisecond)
	require.NoError(t, err)
	assert.Positive(t, l.overlaps)
}

// stuck locks a few times, then does not return until it is let go.
type stuck struct {
	freeForAll
	left chan struct{} // a lock for each value
	free chan struct{}
}

func (s stuck) lock(context.Context, string) (held, error) {
	select {
	case <-s.left:
		return freeForAll{}, nil
	case <-s.free:
		return nil, errors.New("let go")
	}
}

func TestCallsThatHangAreCountedAndDoNotStopTheRun(t *testing.T) {
	s := stuck{left: make(chan struct{}, 3), free: make(chan struct{})}
	defer close(s.free)
	for range cap(s.left) {
		s.left <- struct{}{}
	}
	c := newCrew(2)
	elapsed := c.run(t.Context(), s, load{goroutines: 2, length: 500 * time.Millisecond})
	f := c.sum(time.Now().Add(-elapsed)).figures(elapsed)
	assert.InDelta(t, 2, f["hung"], 0)
	assert.GreaterOrEqual(t, f["lock-max-ns"], float64(stragglers), "its latency is what it has taken until now")

	_, err := attempt(t.Context(), 50*time.Millisecond, func() (int, error) { <-s.free; return 0, nil })
	assert.ErrorIs(t, err, errHung)
}

func TestAPeerThatHangsIsNotedAndLeftOut(t *testing.T) {
	b := &bench{size: tiny, results: newResults(), progress: t.Output()}
	free := make(chan struct{})
	defer close(free)
	p := &opened{contender: redlockDefault}
	calls := 0
	for range 2 {
		at := cell{"pairs", p.name, "x=1"}
		b.measure(t.Context(), p, at, 20*time.Millisecond, func(context.Context) (int, figures, error) {
			calls++
			<-free
			return 0, nil, nil
		})
	}
	assert.True(t, p.lost)
	assert.Equal(t, 1, calls)
	require.Len(t, b.results.notes, 1)
	assert.Contains(t, b.results.notes[0], "left out")
}

func TestAWorkloadEndsWithItsTimeBudgetAndTheNextOneRuns(t *testing.T) {
	ran := false
	hang := func(ctx context.Context, _ *bench) error { <-ctx.Done(); return ctx.Err() }
	next := func(context.Context, *bench) error { ran = true; return nil }
	b := &bench{results: newResults(), progress: t.Output(), workloads: []workload{
		{name: "long", budget: map[size]time.Duration{tiny: 10 * time.Millisecond}, run: hang},
		{name: "next", budget: map[size]time.Duration{tiny: time.Minute}, run: next},
	}}
	require.NoError(t, b.run(t.Context()))
	assert.True(t, ran)
	require.Len(t, b.results.notes, 1)
	assert.Contains(t, b.results.notes[0], "time budget")
}
