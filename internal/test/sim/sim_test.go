package sim

import (
	"encoding/binary"
	"flag"
	"fmt"
	"math"
	"math/rand/v2"
	"runtime"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/redlock-go/redlock/internal/test/long"
	"github.com/redlock-go/redlock/internal/test/testnet"
)

// The simulation of the whole library: real clients, real scripts, simulated
// servers and networks, in virtual time. docs/testing.md says what it assumes and
// what it checks.

var (
	simSeed  = flag.Uint64("sim.seed", 1, "the first seed of the simulation")
	simRuns  = flag.Int("sim.runs", 0, "how many seeds it runs; 0: as many as fit into a test")
	simTime  = flag.Duration("sim.time", 0, "how long it goes on with further seeds, instead of -sim.runs")
	simFresh = flag.Bool("sim.fresh", false, "a seed that fails only in being slow does not fail the run: it is printed and counted; for seeds that nobody has seen")
	simShow  = flag.Bool("sim.show", false, "print the history of -sim.seed, with all that the nodes execute")
	simWord  = flag.String("sim.lock", "", "with -sim.show: only lines that contain this, such as the name of a lock")
	simFrom  = flag.Duration("sim.from", 0, "with -sim.show: only lines from this instant on")
	simTo    = flag.Duration("sim.to", math.MaxInt64, "with -sim.show: only lines up to this instant")
)

// runSeed simulates a seed and returns its history.
func runSeed(t *testing.T, seed uint64, verbose bool) *simHistory {
	return runPlan(t, newSimPlan(seed), verbose)
}

func runPlan(t *testing.T, p *simPlan, verbose bool) *simHistory {
	var h *simHistory
	synctest.Test(t, func(*testing.T) { h = simulate(p, verbose) })
	return h
}

func TestSimulation(t *testing.T) {
	if *simShow {
		h := runSeed(t, *simSeed, true)
		fmt.Printf("seed %d: %s, outside: %q\n%s", *simSeed, h.plan.kind, h.outside, h.excerpt(*simWord, *simFrom, *simTo))
		if wrong := h.check(); len(wrong) > 0 {
			t.Errorf("%q", wrong)
		}
		return
	}
	deadline, last := time.Now().Add(*simTime), *simSeed+simRunCount()
	var next atomic.Uint64
	next.Store(*simSeed)
	counts := simCounts{began: time.Now()}
	t.Run("workers", func(t *testing.T) {
		for range runtime.GOMAXPROCS(0) {
			t.Run("", func(t *testing.T) {
				t.Parallel()
				for !t.Failed() {
					seed := next.Add(1) - 1
					if *simTime > 0 && time.Now().After(deadline) || *simTime == 0 && seed >= last {
						return
					}
					counts.judge(t, seed, runSeed(t, seed, false))
				}
			})
		}
	})
	counts.print(t)
}

// simRunCount returns how many seeds run unless -sim.time bounds them.
func simRunCount() uint64 {
	switch {
	case *simRuns > 0:
		return uint64(*simRuns)
	case testnet.RaceDetector:
		return 20
	case long.Tests():
		return 200
	}
	return 60
}

// simCounts counts what the runs of a test had.
type simCounts struct {
	began                       time.Time
	done, leases, outside, slow atomic.Uint64
}

// judge checks a run. A fresh seed that is only slow does not fail the test.
func (c *simCounts) judge(t *testing.T, seed uint64, h *simHistory) {
	if wrong := h.check(); len(wrong) > 0 {
		text := fmt.Sprintf("seed %d (%s): %q\nreplay it with: %s", seed, h.plan.kind, wrong, h.plan.replay())
		if *simFresh && areSlow(wrong) {
			c.slow.Add(1)
			t.Log("slow: " + text)
		} else {
			t.Error(text)
		}
	}
	c.done.Add(1)
	for _, v := range h.visits {
		if v.lease != nil {
			c.leases.Add(1)
		}
	}
	if h.outside != "" {
		c.outside.Add(1)
	}
}

func (c *simCounts) print(t *testing.T) {
	t.Logf("%d seeds in %v, %d of them outside of the assumptions; %d leases",
		c.done.Load(), time.Since(c.began).Round(time.Second), c.outside.Load(), c.leases.Load())
	if *simFresh {
		t.Logf("%d fresh seeds were slow, and do not fail the run", c.slow.Load())
	}
}

// FuzzFaultPlan lets the fuzzer choose what goes wrong: it draws the plan from the
// input, as long as that lasts.
func FuzzFaultPlan(f *testing.F) {
	f.Add(uint64(1), []byte{})
	f.Add(uint64(2), []byte("kill one master, wipe another, and cut off the holder"))
	f.Fuzz(func(t *testing.T, seed uint64, choices []byte) {
		p := drawSimPlan(seed, &choiceSource{choices, rand.NewPCG(seed, 0)})
		h := runPlan(t, p, false)
		require.Empty(t, h.check(), "%s", h.text())
	})
}

// replay returns the command that shows the history of the run.
func (p *simPlan) replay() string {
	command := fmt.Sprintf("go test ./internal/test/sim -run '^TestSimulation$' -sim.seed=%d -sim.show", p.seed)
	if p.generation != simLatest {
		command += fmt.Sprintf(" -sim.generation=%d", p.generation)
	}
	return command
}

// choiceSource draws from bytes, two for a number; then from another source.
type choiceSource struct {
	choices []byte
	rest    rand.Source
}

func (s *choiceSource) Uint64() uint64 {
	if len(s.choices) < 2 {
		return s.rest.Uint64()
	}
	n := binary.BigEndian.Uint16(s.choices)
	s.choices = s.choices[2:]
	return mix(uint64(n)) // small changes of the input change one decision entirely
}
