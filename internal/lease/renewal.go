package lease

import (
	"container/heap"
	"context"
	"errors"
	"sync"
	"sync/atomic"
	"time"

	"github.com/redlock-go/redlock/internal/quorum"
	"github.com/redlock-go/redlock/internal/system"
)

// minRenewRetry is how soon a failed renewal is tried again, at the earliest. That is after
// a node timeout, or a quarter of the validity that is left.
const minRenewRetry = 10 * time.Millisecond

// errNoVerdict is the cause of votes that were still out when a scheduled renewal timed out.
var errNoVerdict = errors.New("no answer within the node timeout")

// schedule is when a lease is renewed, and what its renewals have shown. It is protected by
// the lease's lock.
type schedule struct {
	at       time.Duration   // when to renew next
	running  *renewal        // the scheduled renewal that is under way; nil if there is none
	keysEnd  time.Duration   // the keys may stand so long by the renewals, whatever their verdicts
	failure  *quorum.Failure // of the last renewal; nil if it succeeded
	restored quorum.NodeSet  // nodes where the key was missing, since the last renewal that succeeded

	transfers int32 // transfers that are under way: no other renewal begins
	began     bool  // a scheduled renewal was begun
	untold    bool  // the lease became a shared one, and no renewal since then tells the nodes

	extended // by ExtendTo
}

// renewal is a ballot that prolongs a lease, and the watcher of itself.
type renewal struct {
	quorum.Ballot
	lease      *Lease
	scheduled  bool          // nobody awaits the verdict
	until      time.Duration // the validity, if it is granted
	generation int           // of the lease's keys when it was queued
}

// planRenewal sets the next renewal after one that began at start. A part of the time is
// random, so that leases that were granted together are not renewed together for ever. But
// the instants are rounded, so that those of many leases coincide and share their writes.
// Called under l.mu.
func (l *Lease) planRenewal(start time.Duration) {
	terms := l.terms
	every := terms.RenewEvery
	l.renewal.at = system.Forever
	if every > 0 && l.until < l.limit {
		at := start + every - terms.Random.Below(every/4+1, "renewing")
		l.renewal.at = at - at%(every/64+1)
	}
	l.hastenRenewal(start)
}

// queueRenewal queues a renewal that begins now. Called under l.mu: whether the lease is still held is
// checked, and the renewal queued, under the lock under which its release is queued. So on
// every connection a renewal is ahead of the release, and none ever comes after it. to is nil unless
// it is an ExtendTo.
func (l *Lease) queueRenewal(ctx context.Context, now time.Duration, scheduled bool, to *Span) (b *renewal, yield bool) {
	b = &renewal{lease: l, scheduled: scheduled}
	span := l.usualSpan(now)
	if to != nil {
		span = *to
	}
	tells := scheduled && l.terms.RenewEvery == 0 && l.lock.Shared() // and prolongs nothing
	if tells {
		span.TTL = 0
	}
	l.lock.BeginRenewal(ctx, now, &b.Ballot, &l.Grant, span.TTL, to != nil && to.TTL > l.terms.TTL)
	if to != nil {
		l.extendKeys(b.Start, to)
	}
	if tells {
		span.Validity = l.until - b.Start
	}
	return b, l.queue(b, span.Validity)
}

// queue queues a renewal that has begun, for a validity from its start. Called under l.mu.
func (l *Lease) queue(b *renewal, validity time.Duration) (yield bool) {
	b.until, b.generation = min(b.Start+validity, l.limit), l.renewal.generation
	b.Watcher, b.LateUntil = b, l.until
	yield = b.Queue(0, true)
	l.mayHold |= b.Sent()
	l.renewal.keysEnd = max(l.renewal.keysEnd, b.Start+validity)
	return yield
}

// renew begins a scheduled renewal now. Called under l.mu.
func (l *Lease) renew(now time.Duration) *renewal {
	l.renewal.began, l.renewal.untold = true, false
	if l.handle != nil && !l.renewer.keep.Load() {
		// From the first renewal on, only the user refers to the handle.
		l.releaseIfDropped(l.handle)
		l.handle = nil
	}
	b, _ := l.queueRenewal(context.Background(), now, true, nil)
	l.renewal.running = b
	l.renewer.move(l, now)
	return b
}

// Answered implements quorum.Watcher. It returns what a node's vote counts as. That the key
// is the lease's proves nothing where an earlier renewal, which did not succeed, found it
// missing and created it anew. That counts also where its answer came too late. (The answer
// to the earlier one is ahead on the same connection; it is unknown only where that broke.)
// Nor does it count where the node is still to undo the attempt, which became a lease at
// other nodes that had parked it: the undo takes the key away again.
func (r *renewal) Answered(v *quorum.Vote, a quorum.Answer) quorum.Answer {
	l, node := r.lease, v.Node
	undone := node.HasUndo(l.Owner)
	if a.Wanted {
		l.Wanted.Tell()
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if a.Count == quorum.Recreated {
		l.renewal.restored.Add(node.Index)
	} else if a.Count == quorum.Yes && l.renewal.restored.Has(node.Index) {
		a.Count = quorum.Recreated
	}
	switch {
	case a.Count == quorum.No && l.ending.passing.isValue(a.Holder):
		// Nobody else has had the key since a transfer that failed.
		a.Count = quorum.NoAnswer
		if l.renewal.transfers == 0 && l.ending.end == nil {
			l.lock.TakeBack(l.Owner, l.passed(1<<node.Index))
		}
	case undone && a.Count == quorum.Yes:
		a.Count = quorum.NoAnswer
	case undone && a.Count == quorum.Recreated:
		a.Count = quorum.No
	}
	return a
}

// Decided implements quorum.Watcher.
func (r *renewal) Decided(v quorum.Verdict, late bool) {
	if r.scheduled || late {
		r.lease.conclude(r, v)
	}
}

// conclude takes the verdict of a renewal, and returns why the lease has ended; nil if it has
// not. A verdict counts only before the validity without it ends: a lease that has ended
// stays ended, whatever the nodes said meanwhile.
func (l *Lease) conclude(b *renewal, v quorum.Verdict) *End {
	l.mu.Lock()
	now := l.cfg.Clock()
	end := l.endedAt(now)
	if end == nil && v == quorum.Revoked {
		end = l.revoked(&b.Ballot)
	}
	concluded := l.renewal.running != b // a verdict of b was taken before, or b is an Extend's
	if !concluded {
		l.renewal.running = nil
	}
	if end != nil {
		l.mu.Unlock()
		l.end(end)
		return l.End()
	}
	terms := l.terms
	endangered, first, left := false, false, time.Duration(0)
	if v == quorum.Granted {
		// Of two renewals the one that began later counts.
		if b.generation == l.renewal.generation {
			l.until = max(l.until, b.until)
		}
		l.renewal.failure, l.renewal.restored = nil, 0
		l.planRenewal(b.Start)
	} else if !concluded {
		endangered, first, left = true, l.renewal.failure == nil, l.until-now
		l.renewal.at = now + max(min(terms.NodeTimeout, left/4), minRenewRetry)
	}
	if l.renewal.untold {
		l.renewal.at = now
	}
	if v != quorum.Granted && (endangered || terms.RenewEvery == 0) {
		l.renewal.failure = quorum.FailureOf(&b.Ballot)
	}
	s := l.state()
	l.cfg.Observer.Renewed(&l.Grant, s, &b.Ballot, v == quorum.Granted)
	l.renewer.move(l, now)
	failure := l.renewal.failure
	l.mu.Unlock()
	if endangered {
		l.cfg.Observer.Endangered(&l.Grant, s, left, failure, first)
	}
	return nil
}

// Extension is what an Extend came to. All fields are zero if it prolonged the lease.
type Extension struct {
	End     *End            // why the lease has ended
	Cause   error           // ctx's, if that ended the call
	Failure *quorum.Failure // of the ballot; nil if there was none
}

// extendAs prolongs the lease as one of the lock as, nil if that stays; to is as queueRenewal has it.
func (l *Lease) extendAs(ctx context.Context, as Lock, to *Span) Extension {
	e := l.extend(ctx, as, to)
	if e.Cause == nil && e.Failure != nil && e.Failure.LackedScripts() { // they are loaded by now
		e = l.extend(ctx, nil, to)
	}
	return e
}

func (l *Lease) extend(ctx context.Context, as Lock, to *Span) Extension {
	l.mu.Lock()
	if end := l.ended(); end != nil {
		l.mu.Unlock()
		l.expire()
		return Extension{End: end}
	}
	if l.renewal.transfers > 0 { // its commands could put keys back behind the transfer
		l.mu.Unlock()
		return Extension{End: transferred}
	}
	if as != nil {
		l.lock = as
	}
	b, yield := l.queueRenewal(ctx, l.cfg.Clock(), false, to)
	l.mu.Unlock()
	b.Flush(yield)

	v, err := b.Await(ctx, l.terms.NodeTimeout, nil)
	end := l.conclude(b, v)
	if end != nil || v == quorum.Granted {
		return Extension{End: end}
	}
	return Extension{Cause: err, Failure: quorum.FailureOf(&b.Ballot)}
}

// maxSleep is how long the Renewer sleeps, at most, while leases exist: Go's timers stop
// while the machine is suspended, the clock does not.
const maxSleep = time.Second

// batch is how many leases the Renewer looks at before it writes what they queued: enough to
// fill a flush, and few enough that the first does not wait for long.
const batch = 64

// Renewer renews a client's leases and ends those whose validity is over. One goroutine
// serves them all, however many there are.
type Renewer struct {
	cfg  *Config
	wake chan struct{} // the first lease is due earlier than the goroutine knows
	keep atomic.Bool   // KeepHandles was called

	mu       sync.Mutex    // protects what follows, and the leases' places
	leases   leaseHeap     // the lease that is due first is the first
	nextWake time.Duration // when the goroutine looks next
	closed   bool
}

// NewRenewer makes a Renewer. Its owner must start Run.
func NewRenewer(cfg *Config) *Renewer {
	return &Renewer{cfg: cfg, wake: make(chan struct{}, 1), nextWake: system.Forever}
}

// Len returns the number of leases in its care.
func (r *Renewer) Len() int {
	r.mu.Lock()
	defer r.mu.Unlock()
	return len(r.leases)
}

// add takes a lease into its care. It returns false if it is closed. Called under l.mu.
func (r *Renewer) add(l *Lease) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.closed {
		return false
	}
	heap.Push(&r.leases, l)
	r.wakeInTime(l.Begun)
	return true
}

// move puts a lease in its care where it is due. now is an instant that has passed. Called under l.mu.
func (r *Renewer) move(l *Lease, now time.Duration) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if l.place != notInHeap {
		r.leases[l.place].due = l.next()
		heap.Fix(&r.leases, l.place)
		r.wakeInTime(now)
	}
}

// KeepHandles makes the leases refer to their handles for as long as they are held, so that no
// dropped lease is released. Only tests in virtual time need that: the garbage collector's
// goroutine is outside of it.
func (r *Renewer) KeepHandles() { r.keep.Store(true) }

// Forget takes a lease out of its care: it is neither renewed nor released any more, as if the
// process had died. Only tests do that; they must keep the lease's handle.
func (r *Renewer) Forget(l *Lease) { r.remove(l) }

// remove takes a lease out of its care.
func (r *Renewer) remove(l *Lease) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if l.place != notInHeap {
		heap.Remove(&r.leases, l.place)
	}
}

// Close takes no more leases and returns those in its care.
func (r *Renewer) Close() []*Lease {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.closed = true
	leases := make([]*Lease, len(r.leases))
	for i, e := range r.leases {
		leases[i] = e.lease
	}
	return leases
}

// wakeInTime wakes the goroutine if it would look too late. now is an instant that has passed: if the goroutine should
// have looked by then, its timer stood still, with the machine. Called under r.mu.
func (r *Renewer) wakeInTime(now time.Duration) {
	if r.leases[0].due >= r.nextWake && now <= r.nextWake {
		return
	}
	r.nextWake = r.leases[0].due
	select {
	case r.wake <- struct{}{}:
	default: // it has been woken, and will see the newest
	}
}

// Run does what is due until ctx ends.
func (r *Renewer) Run(ctx context.Context) {
	timer := time.NewTimer(0)
	defer timer.Stop()
	for {
		for r.tick() {
		}
		timer.Reset(r.sleep())
		select {
		case <-timer.C:
		case <-r.wake:
		case <-ctx.Done():
			return
		}
	}
}

// tick does what is due for one batch of leases. It returns false when nothing was due.
func (r *Renewer) tick() bool {
	due := r.due()
	ballots := make([]*quorum.Ballot, 0, len(due))
	for _, l := range due {
		if b := l.tick(); b != nil {
			ballots = append(ballots, b)
		}
	}
	for _, b := range ballots {
		b.Flush(false)
	}
	return len(due) > 0
}

// due returns leases whose time has come, and parks them at the end of the heap until they
// are moved.
func (r *Renewer) due() []*Lease {
	r.mu.Lock()
	defer r.mu.Unlock()
	var due []*Lease
	now := r.cfg.Clock()
	for len(due) < batch && len(r.leases) > 0 && r.leases[0].due <= now {
		due = append(due, r.leases[0].lease)
		r.leases[0].due = system.Forever
		heap.Fix(&r.leases, 0)
	}
	return due
}

// sleep returns how long the goroutine may sleep. When the last lease has left, the goroutine still sleeps until that
// lease would have been due: a lease that comes meanwhile is due later, as a rule, and need not wake it.
func (r *Renewer) sleep() time.Duration {
	r.mu.Lock()
	defer r.mu.Unlock()
	now := r.cfg.Clock()
	if len(r.leases) > 0 {
		r.nextWake = r.leases[0].due
	} else if r.nextWake <= now || r.nextWake == system.Forever {
		r.nextWake = system.Forever
		return system.Forever
	}
	return min(r.nextWake-now, maxSleep)
}

// notInHeap is the place of a lease that is in nobody's care.
const notInHeap = -1

// leaseHeap orders leases by when they are due.
type leaseHeap []dueLease

// dueLease has its time beside the lease: of thousands, most are out of the processor's caches when two are compared.
type dueLease struct {
	due   time.Duration // when to look at the lease
	lease *Lease
}

func (h leaseHeap) Len() int           { return len(h) }
func (h leaseHeap) Less(i, j int) bool { return h[i].due < h[j].due }

func (h leaseHeap) Swap(i, j int) {
	h[i], h[j] = h[j], h[i]
	h[i].lease.place, h[j].lease.place = i, j
}

func (h *leaseHeap) Push(x any) {
	l := x.(*Lease)
	l.place = len(*h)
	*h = append(*h, dueLease{l.next(), l})
}

func (h *leaseHeap) Pop() any {
	last := len(*h) - 1
	l := (*h)[last].lease
	(*h)[last] = dueLease{}
	*h = (*h)[:last]
	l.place = notInHeap
	return l
}

// ExtendTo prolongs a lease for another time than its lock's. docs/safety.md (A lease of another length) has
// the argument.

// Span is for how long a renewal prolongs a lease.
type Span struct {
	TTL      time.Duration // of the keys at the nodes
	Validity time.Duration // from the start of the ballot
}

// extended is what the calls of ExtendTo have asked for. It is protected by the lease's lock.
type extended struct {
	keysUntil  time.Duration // every renewal makes the keys last so long at least, on the client's clock
	longest    time.Duration // the longest ttl of any call
	generation int           // counts the calls after which keys may end earlier than before
}

// usualSpan returns for how long a renewal that begins at the instant now prolongs the lease: for the terms' ttl, but
// no key may end earlier than an ExtendTo has asked for. Called under l.mu.
func (l *Lease) usualSpan(now time.Duration) Span {
	return Span{TTL: max(l.terms.TTL, l.renewal.keysUntil-now), Validity: l.terms.Validity}
}

// extendKeys records that an ExtendTo that began at start is about to be queued. Where keys may end earlier
// by it than by a renewal before, the validity is shortened first, and no renewal that was queued
// before prolongs it any more. Called under l.mu.
func (l *Lease) extendKeys(start time.Duration, to *Span) {
	r := &l.renewal
	if to.TTL < l.terms.TTL || start+to.TTL < r.keysUntil {
		r.generation++
		l.until = min(l.until, start+to.Validity)
		l.hastenRenewal(start)
		l.renewer.move(l, start)
	}
	r.keysUntil, r.longest = start+to.TTL, max(r.longest, to.TTL)
}

// hastenRenewal brings the next scheduled renewal forward if the validity, counted from start, is shorter than
// that of the terms. Called under l.mu.
func (l *Lease) hastenRenewal(start time.Duration) {
	if left := l.until - start; left < l.terms.Validity && l.terms.RenewEvery > 0 && l.until < l.limit {
		l.renewal.at = min(l.renewal.at, start+left/3)
	}
}
