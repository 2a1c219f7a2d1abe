package integration

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/redlock-go/redlock"
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

// play makes the faults of a phase, and returns when all nodes and clients are healthy.
func (r *chaosRun) play(t *testing.T, phase chaos.Phase) {
	t.Helper()
	var blows sync.WaitGroup
	for _, blow := range phase.Nodes {
		blows.Go(func() {
			time.Sleep(blow.After)
			span := chaos.Span{From: chaos.Now()}
			r.strikeNode(t, blow)
			span.To = chaos.Now()
			if blow.Fault.Forgets() {
				r.memory.Forgot(blow.Target, span)
			}
		})
	}
	for _, blow := range phase.Clients {
		blows.Go(func() {
			time.Sleep(blow.After)
			r.strikeClient(t, blow)
		})
	}
	blows.Wait()
	for _, blow := range phase.Nodes {
		if blow.Fault.Forgets() {
			awaitAdmission(t, r.nodes[blow.Target])
		}
	}
	time.Sleep(chaosSettling)
}

// chaosSettling is how soon all clients are connected to a node again: a handshake with the
// sick server lasts up to four node timeouts, and dials are half a second apart.
const chaosSettling = 4*chaosNodeTimeout + 600*time.Millisecond

// strikeNode makes a fault of a node, and ends it in time.
func (r *chaosRun) strikeNode(t *testing.T, blow chaos.Blow) {
	n := r.nodes[blow.Target]
	wait := func(share time.Duration) { time.Sleep(blow.For / share) }
	switch blow.Fault {
	case chaos.Kill:
		n.Kill(t)
		wait(1)
		n.Start(t)
	case chaos.Restart:
		n.Save(t)
		n.Kill(t)
		wait(1)
		n.Start(t)
	case chaos.Rewind:
		n.Save(t)
		wait(2)
		n.Kill(t)
		wait(2)
		n.Start(t)
	case chaos.Wipe:
		n.Do(t, "FLUSHALL")
	case chaos.Replica:
		n.FollowOther(t, r.nodes[blow.Other])
		wait(1)
		n.Lead(t)
	case chaos.Freeze:
		n.Freeze(t)
		wait(1)
		n.Thaw(t)
	case chaos.Reset:
		n.Reset()
	default:
		disturbLink(n, blow)
		wait(1)
		n.Heal()
	}
}

// disturbLink makes a fault of the network.
func disturbLink(n *cluster.Node, blow chaos.Blow) {
	switch blow.Fault {
	case chaos.Cut:
		n.Cut()
	case chaos.HoldReplies:
		n.HoldReplies()
	case chaos.Strand:
		n.Strand()
	case chaos.Latency:
		n.Delay(time.Duration(blow.Amount) * time.Millisecond)
	case chaos.LoseReplies:
		for range blow.Amount {
			n.LoseReply()
		}
	}
}

// strikeClient makes a fault of a process whose place has a fence.
func (r *chaosRun) strikeClient(t *testing.T, blow chaos.Blow) {
	w := r.fenced[blow.Target]
	if blow.Fault == chaos.Pause {
		require.NoError(t, cluster.FreezeProcess(w.cmd.Process))
		time.Sleep(blow.For)
		require.NoError(t, cluster.ThawProcess(w.cmd.Process))
		return
	}
	require.NoError(t, w.cmd.Process.Kill())
	w.awaitEnd(t)
	r.deaths = append(r.deaths, chaos.Now())
	r.fenced[blow.Target] = r.startClients(t, "register")
}

// awaitEnd waits for the end of a process. If it failed, the histories are checked all the
// same.
func (w *worker) awaitEnd(t *testing.T) {
	t.Helper()
	for line := range w.lines {
		assert.False(t, strings.HasPrefix(line, "failed"), line)
	}
}

// awaitAdmission waits until the node has a record of the present run of its
// server: it votes again.
func awaitAdmission(t *testing.T, n *cluster.Node) {
	t.Helper()
	const timeout = 40 * time.Second // a majority that forgot waits for twenty
	assert.True(t, eventually(timeout, func() bool { return n.HasRecord(t) }), "a node that forgot was not admitted again within %v", timeout)
}

// lock asks for a lock, for a share of it, or for several locks, with or without waiting. It
// returns no lease and no error if it was refused.
func (v *visitor) lock(ctx context.Context, names []string, shared bool) (*redlock.Lease, error) {
	mutex := v.client.Mutex(names[0], anyOptions()...)
	switch {
	case shared:
		mutex = v.client.RWMutex(names[0], anyOptions()...).RLocker()
	case len(names) > 1:
		mutex = v.client.Multi(names, anyOptions()...)
	}
	op := chaos.Op{Name: strings.Join(names, ", "), Set: len(names) > 1}
	return v.acquire(ctx, op, mutex.Lock, mutex.TryLock)
}

// acquirePermits asks for permits, as lock does for a lock. A permit is a lease on a slot, which is a
// lock of its own: so the history of a lease of permits is that of a set of such locks.
func (v *visitor) acquirePermits(ctx context.Context, semaphore string, n int) (*redlock.Lease, error) {
	s := v.client.Semaphore(semaphore, chaosPermits, anyOptions()...)
	acquire := func(ctx context.Context) (*redlock.Lease, error) { return s.Acquire(ctx, n) }
	try := func(ctx context.Context) (*redlock.Lease, error) { return s.TryAcquire(ctx, n) }
	lease, err := v.acquire(ctx, chaos.Op{Name: semaphore, Permits: n}, acquire, try)
	if lease == nil {
		return nil, err
	}
	slots := lease.Slots()
	if len(slots) != n {
		return nil, fmt.Errorf("%d permits were asked for, and the lease has the slots %v", n, slots)
	}
	for _, slot := range slots {
		if slot < 0 || slot >= chaosPermits {
			return nil, fmt.Errorf("the lease has a slot that there is not: %v", slots)
		}
	}
	return lease, err
}

func anyOptions() (opts []redlock.LockOption) {
	if rand.N(3) == 0 { // a lease without renewals does not get its keys back
		opts = append(opts, redlock.WithoutRenewal())
	}
	return opts
}

// semaphoreOf returns the name of the semaphore of a kind of place, and slotOf that of the lock
// that a slot of it is.
func semaphoreOf(kind string) string { return kind + "-permits" }

func slotOf(kind string, slot int) string { return fmt.Sprint(semaphoreOf(kind), "#", slot) }

// locksOf returns the names of the locks that a lease holds: of permits, those of their slots.
func locksOf(lease *redlock.Lease) []string {
	slots := lease.Slots()
	if slots == nil {
		return lease.Names()
	}
	var names []string
	for _, slot := range slots {
		names = append(names, fmt.Sprint(lease.Name(), "#", slot))
	}
	return names
}

// acquire asks with or without waiting. op says for what.
func (v *visitor) acquire(ctx context.Context, op chaos.Op, wait, try func(context.Context) (*redlock.Lease, error)) (*redlock.Lease, error) {
	timeout := rand.N(3 * time.Second)
	if rand.N(2) == 0 {
		timeout = rand.N(200 * time.Millisecond)
	}
	ctx, cancel := context.WithTimeout(ctx, 10*time.Millisecond+timeout)
	defer cancel()
	call := wait
	if rand.N(2) == 0 {
		call = try
	}
	op.Kind, op.Call = chaos.Acquire, chaos.Now()
	lease, err := call(ctx)
	op.Return = chaos.Now()
	switch {
	case err == nil:
	case errors.Is(err, redlock.ErrNoQuorum):
		op.Kind, op.Note = chaos.Refused, "no quorum"
		return nil, v.log.Add(op)
	case errors.Is(err, redlock.ErrHeld):
		op.Kind, op.Note = chaos.Refused, "held"
		return nil, v.log.Add(op)
	case ctx.Err() != nil && errors.Is(err, ctx.Err()):
		op.Kind, op.Note = chaos.Refused, "out of time before the first verdict"
		return nil, v.log.Add(op)
	default:
		return nil, err
	}
	op.Name = ""
	op = opOf(lease, op)
	op.Until = op.Call
	if left := lease.Remaining(); left > 0 {
		// The ballot that granted it began when the validity did: after the call,
		// if it had to wait.
		op.Until = op.Return + left
		op.Call = min(op.Return, max(op.Call, op.Until-chaosValidity))
	}
	return lease, v.log.Add(op)
}
