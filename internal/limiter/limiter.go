package limiter

import (
	"container/heap"
	"container/list"
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"github.com/redlock-go/redlock/internal/life"
	"github.com/redlock-go/redlock/internal/system"
)

const (
	// firstLimit is the limit before anything is known: so few attempts that even slow nodes execute
	// them within a short node timeout. It doubles in a round trip where there is room.
	firstLimit = 64

	// minLimit keeps a client moving whose nodes answer nothing in time. It is small: what is given
	// up after a node timeout is still in the nodes' queues, and must get less meanwhile.
	minLimit = 2

	// maxLimit bounds what is unanswered on a connection to some 4 MB.
	maxLimit = 4096

	// growth is by which part of itself the limit grows while as many attempts as it allows come
	// back early. It doubles while they come back very early.
	growth = 1.0 / 8

	// sampleEvery is the share of the attempts that are measured while the limit is far away.
	sampleEvery = 16

	// stallPause is by how much the time for which all callers wait, after an attempt that found the nodes
	// stalled, is shorter than that attempt's timeout: an eighth of it.
	stallPause = 8

	// baseAge is for how long, at least, the shortest measured time counts.
	baseAge = 10 * time.Second
)

// ErrTooLate is why an attempt was not made: its turn did not come while the caller was ready to
// wait for it.
var ErrTooLate = errors.New("not asked: too many calls of this client are ahead")

// Limiter bounds the attempts of one client.
type Limiter struct {
	clock system.Clock
	life  *life.Life
	asked atomic.Int64 // the instant of the last call

	mu               sync.Mutex // protects what follows; innermost
	ordinary, urgent lane
	retries          retries
	serial           uint64        // of the last caller that waited
	paused           bool          // only callers whose wait has a bound begin: a timer of its own ends that
	limit            float64       // of each lane, from minLimit to maxLimit
	cut              time.Duration // when the limit shrank last
	measured
}

// lane is the callers that are urgent, or those that are not. Neither lane takes room from the other. So it makes no
// difference which of two callers comes first that an event wakes at one instant, one in each lane.
type lane struct {
	waiting turnQueue // callers that wait for as long as it takes
	brief   turnQueue // callers that wait for a bounded time: no pause keeps them
	running int       // attempts under way; with a caller waiting, at least as many as the limit allows, unless paused
	made    uint64    // attempts so far
}

// waits returns how many callers wait in the lane.
func (in *lane) waits() int { return len(in.waiting) + len(in.brief) }

// queue returns the queue of callers with so much patience; 0: without a bound.
func (in *lane) queue(patience time.Duration) *turnQueue {
	if patience > 0 {
		return &in.brief
	}
	return &in.waiting
}

// lane returns the lane of the callers that are urgent, or not. Called under l.mu.
func (l *Limiter) lane(urgent bool) *lane {
	if urgent {
		return &l.urgent
	}
	return &l.ordinary
}

// measured is what the Limiter knows of the time that a quorum takes to answer an attempt. It is
// protected by the Limiter's lock.
type measured struct {
	least, older time.Duration // the shortest time since aged, and in the period before; 0: none
	gaveUp       time.Duration // the shortest time since aged after which a caller gave up in vain; 0: none
	aged         time.Duration // when the period began
}

// New makes the Limiter of a client.
func New(clock system.Clock, l *life.Life) *Limiter {
	return &Limiter{clock: clock, life: l, limit: firstLimit}
}

// Asked returns the instant at which a call asks: now, or later by nanoseconds if others asked at the same
// instant. So calls have one order, however often each of them waits for its turn.
func (l *Limiter) Asked() time.Duration {
	for {
		last := l.asked.Load()
		now := max(int64(l.clock()), last+1)
		if l.asked.CompareAndSwap(last, now) {
			return time.Duration(now)
		}
	}
}

// Attempt is an attempt that may be made.
type Attempt struct {
	limiter *Limiter
	lane    *lane
	Timed   bool // it is measured: Leave needs to know how long a quorum took to answer
}

// Caller is a call that makes an attempt.
type Caller interface {
	// TurnAwaited is called before the caller waits, behind so many others, and returns the function
	// that is called when it waits no more.
	TurnAwaited(ctx context.Context, ahead int) (ended func(error))

	// IsUrgent reports whether the attempt cannot wait for its turn: a node awaits the caller.
	IsUrgent() bool

	// Changed returns a channel that receives a value after IsUrgent has changed. Only Enter reads it until it
	// returns. It may be nil.
	Changed() <-chan struct{}
}

// TryEnter reports whether an attempt may be made at once, and then begins it. The caller must call Leave.
func (l *Limiter) TryEnter(urgent bool) (Attempt, bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.tryBegin(l.lane(urgent), 0)
}

// tryBegin is TryEnter, for a caller with so much patience. Called under l.mu.
func (l *Limiter) tryBegin(in *lane, patience time.Duration) (Attempt, bool) {
	ahead := len(in.waiting) + len(in.brief)
	if l.paused {
		if patience == 0 {
			return Attempt{}, false
		}
		ahead = len(in.brief) // the pause keeps the others
	}
	if ahead > 0 || float64(in.running) >= l.limit {
		return Attempt{}, false
	}
	return l.begin(in), true
}

// Enter waits until the caller may make an attempt. Callers come in the order of the instants at which they asked;
// urgent ones wait for none that are not. patience bounds the wait; 0: it has no bound. A caller whose wait has a bound
// begins during a pause, too: it may have no time for another attempt, and learns by its own which nodes are stalled.
// Errors: ErrTooLate, life.ErrClosed, or ctx's cause. After a nil error the caller must call Leave.
func (l *Limiter) Enter(ctx context.Context, asked, patience time.Duration, c Caller) (Attempt, error) {
	urgent := c.IsUrgent()
	l.mu.Lock()
	in := l.lane(urgent)
	if a, begun := l.tryBegin(in, patience); begun {
		l.mu.Unlock()
		return a, nil
	}
	ahead := in.waits()
	l.serial++
	t := &turn{in: in.queue(patience), asked: asked, serial: l.serial, granted: make(chan Attempt, 1)}
	heap.Push(t.in, t)
	l.mu.Unlock()

	ended := c.TurnAwaited(ctx, ahead)
	a, err := l.await(ctx, t, patience, c)
	ended(err)
	return a, err
}

// await waits until the caller's turn comes, or the wait ends without.
func (l *Limiter) await(ctx context.Context, t *turn, patience time.Duration, c Caller) (Attempt, error) {
	var late <-chan time.Time
	if patience > 0 {
		timer := time.NewTimer(patience)
		defer timer.Stop()
		late = timer.C
	}
	var err error
	for mayKeep := patience > 0; err == nil; {
		select {
		case a := <-t.granted:
			if mayKeep || !l.takeBack(a, t) {
				return a, nil
			}
			if mayKeep = true; c.IsUrgent() { // hasten had no effect while it had its turn
				l.hasten(t)
			}
		case <-c.Changed():
			if c.IsUrgent() {
				l.hasten(t)
			}
		case <-late:
			err = ErrTooLate
		case <-ctx.Done():
			err = life.EndOf(ctx)
		case <-l.life.Closing():
			err = life.ErrClosed
		}
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if t.index >= 0 {
		heap.Remove(t.in, t.index)
		if err == ErrTooLate {
			err = fmt.Errorf("%w: its turn did not come within %v, since %d others waited", ErrTooLate, patience,
				l.ordinary.waits()+l.urgent.waits())
		}
		return Attempt{}, err
	}
	a := <-t.granted // at the same instant; the turn is passed on
	a.end()
	return Attempt{}, err
}

// takeBack reports whether a pause began since the caller got its turn: then the caller waits on. In a crowd, many have
// got their turn, and their goroutines no processor yet. It happens to a caller once: pauses that follow each other
// must not keep it.
func (l *Limiter) takeBack(a Attempt, t *turn) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.paused {
		heap.Push(t.in, t)
		a.end()
	}
	return l.paused
}

// hasten makes a caller that waits an urgent one.
func (l *Limiter) hasten(t *turn) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if t.index >= 0 && t.in == &l.ordinary.waiting {
		heap.Remove(t.in, t.index)
		t.in = &l.urgent.waiting
		heap.Push(t.in, t)
		l.serve(&l.urgent)
	}
}

// isNear reports whether the attempts under way are at least half of the limit. Called under l.mu.
func (l *Limiter) isNear(in *lane) bool { return float64(2*in.running) >= l.limit }

// begin counts an attempt. Called under l.mu.
func (l *Limiter) begin(in *lane) Attempt {
	in.running++
	in.made++
	unknown := l.least == 0 && l.older == 0 // the first that is answered is measured: most often, no crowd has come by then
	return Attempt{limiter: l, lane: in, Timed: l.isNear(in) || unknown || in.made%sampleEvery == 0}
}

// end ends an attempt, and lets further ones begin. Called under the Limiter's lock.
func (a Attempt) end() {
	a.lane.running--
	if len(a.lane.waiting) > 0 || len(a.lane.brief) > 0 {
		a.limiter.serve(a.lane)
	}
}

// serve lets the first callers of a lane begin that wait. Called under l.mu.
func (l *Limiter) serve(in *lane) {
	for float64(in.running) < l.limit {
		from := &in.brief
		if !l.paused && len(in.waiting) > 0 && (len(in.brief) == 0 || in.waiting[0].isBefore(in.brief[0])) {
			from = &in.waiting
		}
		if len(*from) == 0 {
			return
		}
		t := heap.Pop(from).(*turn)
		t.granted <- l.begin(in)
	}
}

// Waiting returns how many callers wait for their turn.
func (l *Limiter) Waiting() int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.ordinary.waits() + l.urgent.waits() + l.retries.waiting.Len()
}

// Result is how an attempt went.
type Result struct {
	Start   time.Duration // of the attempt, on the client's clock
	Timeout time.Duration // after it no answer counts

	// Answered is how long a quorum took to answer; 0: it did not. Took is how long the attempt
	// took in that case. Only those of an attempt that is timed count.
	Answered, Took time.Duration

	// Stalled is set if nothing was sent, since too many nodes owed answers for too long.
	Stalled bool
}

// Leave ends an attempt.
func (a Attempt) Leave(r Result) {
	l := a.limiter
	l.mu.Lock()
	defer l.mu.Unlock()
	switch {
	case r.Stalled:
		l.pauseAll(&r)
	case a.Timed:
		l.adapt(&r, a.lane)
	}
	a.end()
}

// pauseAll keeps callers whose wait has no bound for a while: each of thousands would find out by an attempt of its own
// that the nodes are stalled. Few may try again then. A timeout that is shorter than the way there and back says
// nothing, as in adapt. Called under l.mu.
func (l *Limiter) pauseAll(r *Result) {
	if l.paused || r.Timeout <= l.base() {
		return
	}
	l.shrink(r.Start, firstLimit)
	l.paused = true
	time.AfterFunc(r.Timeout/stallPause, func() {
		l.mu.Lock()
		defer l.mu.Unlock()
		l.paused = false
		l.serve(&l.urgent)
		l.serve(&l.ordinary)
	})
}

// LeaveLater ends an attempt whose caller has given up. What it sent is still at the nodes, for
// about as long as attempts took lately: until then it counts. If no quorum had answered for much
// longer than that, the nodes have too much to do for such a caller: the limit shrinks, and the
// time that the caller waited counts as a timeout for a while.
func (a Attempt) LeaveLater(r Result) {
	l := a.limiter
	l.mu.Lock()
	d := 2 * l.base()
	if a.Timed && r.Answered == 0 && d > 0 && r.Took > 2*d {
		if l.gaveUp == 0 || r.Took < l.gaveUp {
			l.gaveUp = r.Took
		}
		l.shrink(r.Start, maxLimit)
	}
	l.mu.Unlock()
	time.AfterFunc(d, func() {
		l.mu.Lock()
		defer l.mu.Unlock()
		a.end()
	})
}

// adapt changes the limit after an attempt of a lane. Between the shortest time lately, which is the way
// there and back, and the timeout there is room for the nodes' queues. The limit grows while
// attempts take less than a quarter of it, and shrinks when one takes more than half of it. When no
// quorum answers in time at all, the nodes have far too much to do, and the limit is the first one
// again: halving it step by step would lose as many attempts once more. Two kinds of attempts say
// nothing: one that failed early, since no node could be asked, and one whose timeout is shorter
// than the way there and back. Called under l.mu.
func (l *Limiter) adapt(r *Result, in *lane) {
	took := r.Took
	if r.Answered > 0 {
		took = r.Answered
		l.measure(took)
	}
	base := l.base()
	timeout := r.Timeout
	if l.gaveUp > 0 {
		timeout = min(timeout, l.gaveUp)
	}
	room := timeout - base
	switch {
	case r.Answered == 0 && room <= 0:
	case r.Answered == 0 && took >= timeout:
		l.shrink(r.Start, firstLimit)
	case took > base+room/2:
		l.shrink(r.Start, maxLimit)
	case r.Answered == 0 || !l.isNear(in):
	case took < base+room/8:
		l.limit = min(l.limit+1, maxLimit)
	case took < base+room/4:
		l.limit = min(l.limit+growth, maxLimit)
	}
}

// shrink halves the limit, or more, to at most so many, once for all attempts that began before it
// did so last. Called under l.mu.
func (l *Limiter) shrink(start time.Duration, most float64) {
	if start >= l.cut {
		l.cut, l.limit = l.clock(), max(min(l.limit/2, most), minLimit)
	}
}

// measure records how long a quorum took. Called under l.mu.
func (l *Limiter) measure(took time.Duration) {
	if now := l.clock(); now-l.aged > baseAge {
		l.aged, l.older, l.least, l.gaveUp = now, l.least, 0, 0
	}
	if l.least == 0 || took < l.least {
		l.least = took
	}
}

// base returns the shortest time lately; 0 if none was measured. Called under l.mu.
func (m *measured) base() time.Duration {
	if m.older == 0 {
		return m.least
	}
	if m.least == 0 {
		return m.older
	}
	return min(m.least, m.older)
}

// turn is a caller that waits.
type turn struct {
	in      *turnQueue    // in which it waits
	asked   time.Duration // when its call began
	serial  uint64        // orders callers that asked at the same instant
	index   int           // in the queue; -1: it has got its turn
	granted chan Attempt  // has room for the one value that it gets
}

// isBefore reports whether the caller asked before other.
func (t *turn) isBefore(other *turn) bool {
	if t.asked != other.asked {
		return t.asked < other.asked
	}
	return t.serial < other.serial
}

// turnQueue is a heap of the callers that wait. The one that asked first is the first.
type turnQueue []*turn

func (q turnQueue) Len() int { return len(q) }

func (q turnQueue) Less(i, j int) bool { return q[i].isBefore(q[j]) }

func (q turnQueue) Swap(i, j int) {
	q[i], q[j] = q[j], q[i]
	q[i].index, q[j].index = i, j
}

func (q *turnQueue) Push(x any) {
	t := x.(*turn)
	t.index = len(*q)
	*q = append(*q, t)
}

func (q *turnQueue) Pop() any {
	last := len(*q) - 1
	t := (*q)[last]
	(*q)[last] = nil
	*q = (*q)[:last]
	t.index = -1
	return t
}

// maxRetrying is how many callers of a client ask again at a time while too few nodes answer. They find
// out for all others when a quorum answers: thousands of callers that each ask a few times in a second
// would keep the process busy, and the nodes that are to recover.
const maxRetrying = 16

// retries are the callers whose attempts too few nodes answered. They are protected by the Limiter's lock.
type retries struct {
	pausing int         // so many pause, and ask again then
	waiting list.List   // of chan bool, those of the others in the order of their calls; each gets whether it is to pause
	some    atomic.Bool // waiting has one; stored under the Limiter's lock
}

// next tells the first that waits whether it is to pause.
func (r *retries) next(pauses bool) {
	r.waiting.Remove(r.waiting.Front()).(chan bool) <- pauses
	r.some.Store(r.waiting.Len() > 0)
}

// Retry returns when a caller whose attempt too few nodes answered may ask again: after a pause if few
// callers are in this state; else when it has become one of these few and has paused, or when a quorum
// has answered others. Errors: life.ErrClosed, or ctx's cause.
func (l *Limiter) Retry(ctx context.Context, pause time.Duration, c Caller) error {
	l.mu.Lock()
	if l.retries.pausing < maxRetrying {
		l.retries.pausing++
		l.mu.Unlock()
		return l.pause(ctx, pause)
	}
	ahead := l.retries.waiting.Len()
	granted := make(chan bool, 1) // has room for the one value that it gets
	place := l.retries.waiting.PushBack(granted)
	l.retries.some.Store(true)
	l.mu.Unlock()

	ended := c.TurnAwaited(ctx, ahead)
	pauses, err := l.awaitRetry(ctx, granted, place)
	ended(err)
	if err == nil && pauses {
		err = l.pause(ctx, pause)
	}
	return err
}

// awaitRetry waits until the caller may go on, and reports whether it is to pause first.
func (l *Limiter) awaitRetry(ctx context.Context, granted <-chan bool, place *list.Element) (pauses bool, err error) {
	select {
	case pauses = <-granted:
		return pauses, nil
	case <-ctx.Done():
		err = life.EndOf(ctx)
	case <-l.life.Closing():
		err = life.ErrClosed
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	select {
	case pauses = <-granted: // at the same instant; its place is passed on
		if pauses {
			l.endPause()
		}
	default:
		l.retries.waiting.Remove(place)
		l.retries.some.Store(l.retries.waiting.Len() > 0)
	}
	return false, err
}

// pause waits as one of those that ask again.
func (l *Limiter) pause(ctx context.Context, d time.Duration) error {
	err := l.life.Pause(ctx, d)
	l.mu.Lock()
	defer l.mu.Unlock()
	l.endPause()
	return err
}

// endPause passes the place of a caller that has paused to the first that waits. Called under l.mu.
func (l *Limiter) endPause() {
	if l.retries.waiting.Len() > 0 {
		l.retries.next(true)
		return
	}
	l.retries.pausing--
}

// Answered says that a quorum has answered an attempt. Two of those that wait to ask again do so, and if
// they are answered, four more: nodes that answer again a little are not overrun.
func (l *Limiter) Answered() {
	if !l.retries.some.Load() { // as for nearly every attempt
		return
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	for i := 0; i < 2 && l.retries.waiting.Len() > 0; i++ {
		l.retries.next(false)
	}
}
