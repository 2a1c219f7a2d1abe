package schedulers

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"math/rand/v2"
	"os"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/hibiken/asynq"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/redlock-go/redlock/adapters/redlockasynq"
	"github.com/redlock-go/redlock/integration/cluster"
	"github.com/redlock-go/redlock/internal/test/long"
)

// tasks counts the tasks of each tick, as an asynq.Handler.
type tasks struct {
	mu     sync.Mutex
	counts map[int64]int
	others int // tasks that are of no tick
}

// ProcessTask counts a task, unless asynq itself runs it again.
func (s *tasks) ProcessTask(ctx context.Context, _ *asynq.Task) error {
	if retried, _ := asynq.GetRetryCount(ctx); retried > 0 {
		return nil
	}
	due, ok := redlockasynq.Tick(ctx)
	s.mu.Lock()
	defer s.mu.Unlock()
	if ok && due.Equal(due.Truncate(asynqPeriod)) {
		s.counts[due.Unix()]++
	} else {
		s.others++
	}
	return nil
}

// snapshot returns the number of each tick's tasks.
func (s *tasks) snapshot() map[int64]int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return maps.Clone(s.counts)
}

// work runs asynq's tasks until the test ends. Completed tasks are deleted when they are no longer
// retained.
func (r *run) work(t *testing.T) *tasks {
	t.Helper()
	s := &tasks{counts: make(map[int64]int)}
	server := asynq.NewServer(asynq.RedisClientOpt{Addr: r.queue.Addr()}, asynq.Config{
		Concurrency: 4, TaskCheckInterval: 100 * time.Millisecond, JanitorInterval: time.Second, LogLevel: asynq.FatalLevel,
	})
	require.NoError(t, server.Start(s))
	t.Cleanup(server.Shutdown)
	return s
}

// strikeQueue stops asynq's server for moments, until ctx ends.
func (r *run) strikeQueue(ctx context.Context, t *testing.T) {
	for pause(ctx, time.Second+rand.N(3*time.Second)) {
		r.queue.Freeze(t)
		time.Sleep(rand.N(time.Second))
		r.queue.Thaw(t)
	}
}

// missing returns the ticks of a range that have no task.
func missing(counts map[int64]int, first, last int64) (ticks []int64) {
	for tick := first; tick <= last; tick++ {
		if counts[tick] == 0 {
			ticks = append(ticks, tick)
		}
	}
	return ticks
}

// newTasksRun starts four processes that have the same periodic task, and returns when one enqueued
// it: for tick first.
func newTasksRun(t *testing.T) (r *run, s *tasks, first int64) {
	t.Helper()
	r = newRun(t, asynqKind)
	s = r.work(t)
	require.True(t, cluster.Eventually(startTimeout, func() bool { return len(s.snapshot()) > 0 }), "no task was enqueued")
	return r, s, slices.Min(slices.Collect(maps.Keys(s.snapshot())))
}

// judgeTasks expects that each tick from first until now gets one task, and ends the processes.
func (r *run) judgeTasks(t *testing.T, s *tasks, first int64) {
	t.Helper()
	last := time.Now().Unix()
	cluster.Eventually(asynqWindow, func() bool { return len(missing(s.snapshot(), first, last)) == 0 })
	for _, p := range r.processes {
		p.end(t)
	}
	counts := s.snapshot()
	assert.Empty(t, missing(counts, first, last), "ticks without a task, of %d to %d", first, last)
	for tick, n := range counts {
		assert.Equal(t, 1, n, "tasks of tick %d", tick)
		assert.GreaterOrEqual(t, tick, first)
	}
	assert.Zero(t, s.others, "tasks of no tick")
	r.reportTasks(t, counts)
	r.explain(t)
}

// Each tick has one task, whichever processes are struck, while at most two servers of five are.
func TestEachTickIsEnqueuedOnceWhateverFails(t *testing.T) {
	t.Parallel()
	r, tasks, first := newTasksRun(t)
	faults := 90 * time.Second
	if !long.Tests() {
		faults = 5 * time.Second
	}
	if leader := r.awaitGrant(t.Context(), t); assert.NotEqual(t, -1, leader) {
		r.strikeProcess(t, leader, true) // another process leads after a ttl, which is three ticks
	}
	ctx, cancel := context.WithTimeout(t.Context(), faults)
	defer cancel()
	var queue sync.WaitGroup
	queue.Go(func() { r.strikeQueue(ctx, t) })
	r.strikeUntil(ctx, t)
	queue.Wait()
	r.judgeTasks(t, tasks, first)
}

// Without a majority the leader stops when its lease ends. The ticks since then are enqueued when a
// majority is back.
func TestTicksWithoutAMajorityAreEnqueuedLater(t *testing.T) {
	t.Parallel()
	r, tasks, first := newTasksRun(t)
	for _, n := range r.nodes[:3] {
		n.Freeze(t)
	}
	time.Sleep(ttl + time.Second)
	before := len(tasks.snapshot())
	time.Sleep(2 * asynqPeriod)
	assert.Len(t, tasks.snapshot(), before, "no process leads")
	for _, n := range r.nodes[:3] {
		n.Thaw(t)
	}
	r.judgeTasks(t, tasks, first)
}

// reportTasks prints the figures.
func (r *run) reportTasks(t *testing.T, counts map[int64]int) {
	t.Helper()
	killed := 0
	for _, s := range r.strikes {
		if s.killed {
			killed++
		}
	}
	t.Logf("%s: %d ticks; processes killed %d times, stopped %d times; servers struck %d times",
		r.kind, len(counts), killed, len(r.strikes)-killed, r.blows)
}

// clock is that of one process: the machine's, but behind, and counted in ticks.
type clock struct {
	period time.Duration // between ticks
	behind time.Duration
}

// tick returns the last tick at an instant.
func (c clock) tick(now time.Time) int64 { return now.Add(-c.behind).UnixNano() / int64(c.period) }

// at returns the instant at which a tick is due by this clock.
func (c clock) at(tick int64) time.Time { return time.Unix(0, tick*int64(c.period)).Add(c.behind) }

// what is what a process records.
type what string

const (
	granted what = "granted" // it got the lock of the tick
	ran     what = "ran"     // it runs the tick
	ended   what = "ended"   // it has run the tick, and gives the lock back
	refused what = "refused" // another process has the lock, or leads
	late    what = "late"    // the process is too late or too early for a tick
	failed  what = "failed"  // too few servers answered
	elected what = "elected" // it leads; without a tick
	deposed what = "deposed" // it does not lead any more; without a tick
)

// event is one line of the history.
type event struct {
	at      time.Time
	slot    int // of the process: each is restarted when it was killed
	process int // the process's id
	what    what
	tick    int64
}

// history is a file to which all processes append a line for each event. A line that was written stays, however the
// process ends.
type history struct {
	file *os.File
	slot int
}

func openHistory(path string, slot int) (*history, error) {
	file, err := os.OpenFile(path, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	return &history{file, slot}, err
}

// add appends an event, in one write. A process that cannot record what it does must not go on.
func (h *history) add(w what, tick int64) {
	_, err := fmt.Fprintf(h.file, "%d %d %d %s %d\n", time.Now().UnixNano(), h.slot, os.Getpid(), w, tick)
	if err != nil {
		panic(err)
	}
}

// readHistory returns the events so far. A last line without an end is still being written.
func readHistory(path string) (events []event, err error) {
	text, err := os.ReadFile(path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	for line := range strings.Lines(string(text)) {
		if !strings.HasSuffix(line, "\n") {
			break
		}
		var e event
		var at int64
		if _, err := fmt.Sscan(line, &at, &e.slot, &e.process, &e.what, &e.tick); err != nil {
			return nil, fmt.Errorf("%q: %w", line, err)
		}
		e.at = time.Unix(0, at)
		events = append(events, e)
	}
	return events, nil
}
