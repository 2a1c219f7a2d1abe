package integration

import (
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/redlock-go/redlock/integration/chaos"
	"github.com/redlock-go/redlock/integration/cluster"
)

var (
	chaosDuration = flag.Duration("chaos.duration", time.Minute, "how long faults go on in the chaos test")
	chaosSeed     = flag.Uint64("chaos.seed", 0, "the seed of its plan, to see the same faults again; 0: a new one")
)

const (
	chaosProcesses = 3               // with either kind of place
	chaosRound     = 5 * time.Minute // after which histories are checked, and begin anew

	// maxChaosGap bounds the time without a grant while a majority is healthy. The holder
	// may have been killed, and the first waiters too.
	maxChaosGap = 10 * time.Second

	// maxChaosModeGap bounds the time without a grant to a writer, to a reader, or to a set. They
	// take turns, and at times no client asks for the lock in one mode.
	maxChaosModeGap = 2 * maxChaosGap
)

// Several processes add to numbers under locks, some to two numbers under a set of two locks, and
// read them under shares, while nodes and processes fail by a random plan. Their operations must be
// a possible history of a lock with leases and tokens: never two valid leases unless both are
// shares, each writer's token greater than all before, each reader's not less than any writer's
// before, no lost update. A set's lease is one of each of its locks. Permits are leases on slots,
// which are locks as any other: so no more are held than there are.
//
// Mostly, a minority of the nodes fails, and locks go on; every fifth time a majority does,
// and then they need only be safe.
func TestHistoriesAreThoseOfALeaseLockWhateverFails(t *testing.T) {
	notInShort(t)
	nodes := cluster.Use(t, 5)
	assertLeakFree(t)
	duration, seed := *chaosDuration, *chaosSeed
	if seed == 0 {
		seed = uint64(time.Now().UnixNano())
	}
	t.Logf("the plan is that of -chaos.seed=%d -chaos.duration=%v", seed, duration)
	r := newChaosRun(t, nodes, chaos.NewPlan(seed, len(nodes), chaosProcesses, chaosTTL, duration > chaosRound))
	start := time.Now()
	for left := duration; left > 0 && !t.Failed(); left = duration - time.Since(start) {
		r.round(t, min(left, chaosRound))
	}
	r.summary.Took = time.Since(start)
	t.Log(r.summary)
	assert.Positive(t, r.summary.Count[chaos.Acquire])
	assert.Positive(t, r.summary.Shares)
	assert.Positive(t, r.summary.Sets)
	assert.Positive(t, r.summary.Permits)
	for limit, gap := range map[time.Duration]chaos.Gap{maxChaosGap: r.summary.Gap, maxChaosModeGap: r.summary.ModeGap} {
		assert.Less(t, gap.Length(), limit, "nobody got the lock %q from %v to %v", gap.Name, gap.From, gap.To)
	}
}

// chaosRun is the state of a run over all rounds.
type chaosRun struct {
	nodes    cluster.Nodes
	plan     *chaos.Plan
	places   string // the directory of the numbers
	counter  counter
	register register
	memory   *chaos.Memory
	checker  chaos.Checker
	summary  *chaos.Summary
	rounds   int

	// Of the round:
	histories string
	started   int // processes
	fenced    []*worker
	deaths    []time.Duration // when processes were dead that had been killed
}

func newChaosRun(t *testing.T, nodes cluster.Nodes, plan *chaos.Plan) *chaosRun {
	t.Helper()
	dir := t.TempDir()
	register, err := connectRegister(dir)
	require.NoError(t, err)
	t.Cleanup(func() { assert.NoError(t, register.close()) })
	_, err = register.db.Exec(registerSchema)
	require.NoError(t, err)
	r := &chaosRun{nodes: nodes, plan: plan, places: dir, counter: counter{dir}, register: register,
		memory:  &chaos.Memory{Nodes: len(nodes), TTL: chaosTTL},
		checker: chaos.Checker{Timeout: time.Minute}, summary: chaos.NewSummary()}
	for _, name := range chaosNames("counter") {
		require.NoError(t, r.counter.create(name))
	}
	for _, name := range chaosNames("register") {
		require.NoError(t, r.register.create(name))
	}
	return r
}

func lockOf(kind string, i int) string { return fmt.Sprint(kind, "-", i) }

// chaosNames returns the names of all locks that protect places of a kind: also those of slots.
func chaosNames(kind string) (names []string) {
	for i := range chaosLocks {
		names = append(names, lockOf(kind, i))
	}
	for slot := range chaosPermits {
		names = append(names, slotOf(kind, slot))
	}
	return names
}

// round plays phases for the time d, then checks the clients' histories.
func (r *chaosRun) round(t *testing.T, d time.Duration) {
	t.Helper()
	deadline := time.Now().Add(d)
	r.rounds++
	r.histories = filepath.Join(t.TempDir(), fmt.Sprint("round-", r.rounds))
	require.NoError(t, os.Mkdir(r.histories, 0o700))
	var all []*worker
	r.fenced, r.deaths = nil, nil
	for range chaosProcesses {
		all = append(all, r.startClients(t, "counter"))
		r.fenced = append(r.fenced, r.startClients(t, "register"))
	}
	for _, n := range r.nodes {
		awaitAdmission(t, n)
	}
	time.Sleep(chaosSettling)
	var well []chaos.Span
	span := chaos.Span{From: chaos.Now()}
	for time.Now().Before(deadline) && !t.Failed() {
		phase := r.plan.Next()
		t.Logf("%v: %v", chaos.Now(), phase)
		if phase.Kind == chaos.Majority {
			span.To = chaos.Now()
			well = append(well, span)
		}
		r.play(t, phase)
		if phase.Kind == chaos.Majority {
			span.From = chaos.Now()
		}
		r.summary.AddPhase(phase)
		time.Sleep(phase.Rest)
	}
	span.To = chaos.Now()
	all = append(all, r.fenced...)
	for _, w := range all {
		require.NoError(t, w.input.Close())
	}
	for _, w := range all {
		w.awaitEnd(t)
	}
	r.judge(t, append(well, span))
}

// startClients starts a process. Its histories have names of their own.
func (r *chaosRun) startClients(t *testing.T, kind string) *worker {
	r.started++
	name := fmt.Sprintf("%s-%d", kind, r.started)
	return startWorker(t, kind, r.histories, r.places, strings.Join(r.nodes.ProxyURLs(), ","), name, kind)
}

// judge checks the histories of the round.
func (r *chaosRun) judge(t *testing.T, well []chaos.Span) {
	t.Helper()
	h, err := chaos.Gather(r.histories, r.memory)
	require.NoError(t, err)
	r.reconcile(t, h)
	audit := func(kind string, valueOf func(name string) (int64, error)) {
		for _, name := range chaosNames(kind) {
			value, err := valueOf(name)
			require.NoError(t, err)
			now := chaos.Now()
			h.Add(chaos.Op{Kind: chaos.Audit, Name: name, Value: value, Call: now, Return: now})
		}
	}
	audit("counter", r.counter.value)
	audit("register", r.register.value)
	violations := r.checker.Check(h)
	r.summary.Add(h, well)
	r.summary.Ops = r.checker.Ops
	r.summary.Violations += len(violations)
	if len(violations) == 0 {
		return
	}
	kept, err := os.MkdirTemp("", "redlock-chaos-")
	require.NoError(t, err)
	assert.NoError(t, os.CopyFS(kept, os.DirFS(r.histories)))
	for i, v := range violations {
		assert.NoError(t, v.Draw(filepath.Join(kept, fmt.Sprint("violation-", i, ".html"))))
		assert.Fail(t, "no lock can have this history", "%v\nall of it: %s", v, kept)
	}
}

// reconcile compares the clients' logs with the database's journal, and adds operations
// that killed clients could not log.
func (r *chaosRun) reconcile(t *testing.T, h *chaos.History) {
	t.Helper()
	type key struct {
		kind  chaos.Kind
		name  string
		owner string
		call  time.Duration
	}
	logged := map[key]chaos.Op{}
	for _, ops := range h.Locks {
		for _, op := range ops {
			if op.Kind == chaos.FencedRead || op.Kind == chaos.FencedWrite {
				logged[key{op.Kind, op.Name, op.Owner, op.Call}] = op
			}
		}
	}
	journal, err := r.register.takeJournal()
	require.NoError(t, err)
	for _, op := range journal {
		k := key{op.Kind, op.Name, op.Owner, op.Call}
		if known, found := logged[k]; found {
			assert.Equal(t, known.Value, op.Value, "%v", op)
			delete(logged, k)
			continue
		}
		death, _ := slices.BinarySearch(r.deaths, op.Call)
		if assert.Less(t, death, len(r.deaths), "a client that was not killed did not log %v", op) {
			op.Return = r.deaths[death]
			h.Add(op)
		}
	}
	assert.Empty(t, logged, "these are not in the database's journal")
}
