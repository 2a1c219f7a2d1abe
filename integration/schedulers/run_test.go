package schedulers

import (
	"context"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/redlock-go/redlock/integration/cluster"
	"github.com/redlock-go/redlock/internal/test/long"
)

const (
	slots    = 5                      // processes of gocron, and servers
	maxApart = 300 * time.Millisecond // by how much gocron's clocks differ
)

// run is one run of a kind of scheduler: several processes over five servers.
type run struct {
	kind      string
	period    time.Duration
	nodes     cluster.Nodes
	queue     *cluster.Node // asynq's server
	path      string        // the history
	processes []*process

	mu      sync.Mutex // protects what follows
	strikes []strike
	blows   int // faults of servers
	servers []outage
}

func newRun(t *testing.T, kind string) *run {
	t.Helper()
	r := &run{kind: kind, period: specPeriod, path: filepath.Join(t.TempDir(), "history"), processes: make([]*process, slots)}
	servers := cluster.Use(t, slots+1)
	r.nodes, r.queue = servers[:slots], servers[slots]
	if kind == asynqKind {
		r.period, r.processes = asynqPeriod, make([]*process, asynqSlots)
	}
	var started sync.WaitGroup
	for slot := range r.processes {
		started.Go(func() { r.processes[slot] = startProcess(t, r.settings(slot)) })
	}
	started.Wait()
	return r
}

// leads reports whether one process runs all ticks.
func (r *run) leads() bool { return r.kind == electorKind }

func (r *run) settings(slot int) settings {
	return settings{Kind: r.kind, Nodes: r.nodes.URLs(), Queue: r.queue.Addr(), Period: r.period, Behind: r.clock(slot).behind, History: r.path, Slot: slot}
}

// clock returns that of a slot's processes.
func (r *run) clock(slot int) clock {
	if r.kind == asynqKind {
		return clock{period: r.period} // it has no clock of its own that a test could set
	}
	return clock{r.period, time.Duration(slot) * maxApart / (slots - 1)}
}

// play runs the schedule, with faults for a while, and then without until the last of them is over.
func (r *run) play(t *testing.T) *trial {
	t.Helper()
	faults, calm := time.Minute, succession
	if !long.Tests() {
		faults, calm = 3*time.Second, specPeriod
	}
	events, err := readHistory(r.path)
	require.NoError(t, err)
	j := &trial{clock: r.clock, leads: r.leads()}
	if r.kind == electorKind {
		j.rest = minHold
	}
	for deadline := time.Now().Add(startTimeout); !hasRun(events) && time.Now().Before(deadline); time.Sleep(10 * time.Millisecond) {
		events, err = readHistory(r.path)
		require.NoError(t, err)
	}
	j.first = r.clock(0).tick(time.Now()) + 1
	ctx, cancel := context.WithTimeout(t.Context(), faults)
	defer cancel()
	r.strikeUntil(ctx, t)
	time.Sleep(calm)
	// The last tick is due for all of them, and its run has begun.
	j.last = r.clock(slots - 1).tick(time.Now().Add(-slack - maxApart))
	for _, p := range r.processes {
		p.end(t)
	}
	j.events, err = readHistory(r.path)
	require.NoError(t, err)
	j.strikes, j.servers = r.strikes, r.servers
	return j
}

// hasRun reports whether a tick was run.
func hasRun(events []event) bool {
	for _, e := range events {
		if e.what == ran {
			return true
		}
	}
	return false
}

// report prints the figures.
func (r *run) report(t *testing.T, j *trial, v verdict) {
	t.Helper()
	killed, lates := 0, 0
	for _, e := range j.events {
		if e.what == late {
			lates++
		}
	}
	for _, s := range r.strikes {
		if s.killed {
			killed++
		}
	}
	t.Logf("%s: %d ticks, run twice: %d, never: %d, of which a strike explains %d; processes killed %d times, stopped %d times, late %d times; servers struck %d times",
		r.kind, v.ticks, len(v.twice), len(v.missed), v.explained, killed, len(r.strikes)-killed, lates, r.blows)
	if j.leads {
		struck, longest := j.successions()
		t.Logf("%s: leaders were struck %d times; another process led after %v at most", r.kind, struck, longest.Round(time.Millisecond))
	}
}

// Each tick is run at most once, and none is missed that no fault explains.
func TestEachTickIsRunOnceWhateverFails(t *testing.T) {
	t.Parallel()
	for _, kind := range []string{lockerKind, electorKind} {
		t.Run(strings.ReplaceAll(kind, ", ", "/"), func(t *testing.T) {
			t.Parallel()
			r := newRun(t, kind)
			j := r.play(t)
			v := j.judge()
			r.report(t, j, v)
			for _, tick := range v.twice {
				assert.Fail(t, "a tick was run twice", "tick %d\n%s", tick, j.story(tick))
			}
			for _, tick := range v.unclear {
				assert.Fail(t, "a tick was missed, and no fault explains it", "tick %d\n%s", tick, j.story(tick))
			}
			r.explain(t)
			assert.True(t, hasRun(j.events), "no tick was run")
			if long.Tests() { // else there are few ticks, and faults may explain that all of them were missed
				assert.Less(t, len(v.missed), v.ticks)
			}
		})
	}
}

// explain prints what helps to understand a failure.
func (r *run) explain(t *testing.T) {
	t.Helper()
	if !t.Failed() {
		return
	}
	log, err := os.ReadFile(logPath(r.path))
	for _, o := range r.servers {
		t.Logf("server %s %s, from %s to %s", o.server, o.how, o.from.Format(time.StampMilli), o.to.Format(time.StampMilli))
	}
	t.Logf("what the clients logged (%v):\n%s", err, log)
}

// The same without what the others have: reported, and not judged.
func TestOtherLockersAreReported(t *testing.T) {
	if !long.Tests() {
		t.Skip("its figures need a minute: make soak runs it")
	}
	t.Parallel()
	for _, kind := range []string{redsyncKind, anyTimeKind} {
		t.Run(strings.ReplaceAll(kind, ", ", "/"), func(t *testing.T) {
			t.Parallel()
			r := newRun(t, kind)
			j := r.play(t)
			r.report(t, j, j.judge())
		})
	}
}
