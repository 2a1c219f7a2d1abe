package sim

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
)

// simWatchdog ends a run that does not end: it says which calls of the library are under way.
type simWatchdog struct {
	mu       sync.Mutex     // protects what follows
	underWay map[string]int // calls of the library, by their descriptions
}

// simLongestRun is how long a run may take, in virtual time. The longest take three minutes.
const simLongestRun = time.Hour

// does records a call of the library, until over is called.
func (w *simWatchdog) does(format string, args ...any) (over func()) {
	what := fmt.Sprintf(format, args...)
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.underWay == nil {
		w.underWay = make(map[string]int)
	}
	w.underWay[what]++
	return func() {
		w.mu.Lock()
		defer w.mu.Unlock()
		if w.underWay[what]--; w.underWay[what] == 0 {
			delete(w.underWay, what)
		}
	}
}

// watch calls bark if the run is not over in time; over ends the watch.
func (w *simWatchdog) watch(p *simPlan, bark func(text string)) (over func()) {
	timer := time.AfterFunc(simLongestRun, func() {
		w.mu.Lock()
		defer w.mu.Unlock()
		bark(fmt.Sprintf("seed %d (%s): it is not over after %v of virtual time; under way: %s\nreplay it with: %s",
			p.seed, p.kind, simLongestRun, strings.Join(slices.Sorted(maps.Keys(w.underWay)), ", "), p.replay()))
	})
	return func() { timer.Stop() }
}

// panics is how the watchdog of a run barks: what waits for ever cannot be ended otherwise, and its
// pings would keep virtual time going.
func panics(text string) { panic(text) }

func TestWatchdogNamesTheCallsUnderWay(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var w simWatchdog
		var barked []string
		over := w.watch(&simPlan{seed: 7, kind: simAnything}, func(text string) { barked = append(barked, text) })
		defer over()
		w.does("client %d's call", 0)()
		_ = w.does("client %d's Close", 1)
		time.Sleep(simLongestRun + 1)
		synctest.Wait()
		require.Len(t, barked, 1)
		require.Contains(t, barked[0], "seed 7 (anything)")
		require.Contains(t, barked[0], "under way: client 1's Close\n")
	})
}
