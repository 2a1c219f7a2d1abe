package limiter

import (
	"container/heap"
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

	// mostQueue is the longest that attempts may wait in the nodes' queues, beside four times the way there and back. A
	// connection is first in, first out: the client's releases and renewals wait behind the attempts.
	mostQueue = 10 * time.Millisecond

	// baseAge is for how long, at least, the shortest measured time counts.
	baseAge = 10 * time.Second

	// While too few nodes answer, about few callers of a lane ask, or rest until they ask again. The others wait, but for
	// those whose wait has a bound. The few find out when a quorum answers: thousands that each ask a few times in a second
	// would keep the process busy, and the nodes that are to recover. When a quorum answers again, few is the limit.
	few = 16
)

// FailurePause is the shortest time between two attempts of a client while no majority of the nodes can vote until a
// person acts: because of a wrong password, a loop around Lock or TryLock must not keep a processor busy and fill a log.
const FailurePause = 100 * time.Millisecond

// ErrTooLate is why an attempt was not made: its turn did not come while the caller was ready to
// wait for it.
var ErrTooLate = errors.New("not asked: too many calls of this client are ahead")

// ErrUnfit is why an attempt was not made while no majority could vote until a person acts: another caller asked.
var ErrUnfit = errors.New("not asked: the others are no quorum until somebody acts")

// Limiter bounds and paces the attempts of one client.
type Limiter struct {
	clock system.Clock
	life  *life.Life
	unfit func() bool  // reports whether no majority can vote until a person acts
	asked atomic.Int64 // the instant of the last call

	mu               sync.Mutex // protects what follows; innermost
	ordinary, urgent lane
	serial           uint64        // of the last caller that waited
	outage           bool          // too few nodes answer: see beginOutage
	outageAt         time.Duration // when that began, or ended
	next             time.Duration // while no majority can vote until a person acts: when the next caller asks; else 0
	limit            float64       // of each lane, from minLimit to maxLimit
	cut              time.Duration // when the limit shrank last
	measured
}

// lane is the callers that are urgent, or those that are not. Neither lane takes room from the other. So it makes no
// difference which of two callers comes first that an event wakes at one instant, one in each lane.
type lane struct {
	waiting turnQueue // callers that wait for as long as it takes
	brief   turnQueue // callers that wait for a bounded time: no outage keeps them
	running int       // attempts under way; with a caller waiting, at least as many as mayBegin allows
	resting int       // callers that pause before they ask again, since too few nodes answered
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
	aged         time.Duration // when the period began
	last         time.Duration // the last measured time
}

// New makes the Limiter of a client. unfit reports whether no majority can vote until a person acts.
func New(clock system.Clock, l *life.Life, unfit func() bool) *Limiter {
	return &Limiter{clock: clock, life: l, unfit: unfit, limit: firstLimit}
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
	if l.next > 0 {
		return Attempt{}, false
	}
	return l.tryBegin(l.lane(urgent), 0)
}

// tryBegin begins an attempt of a caller with so much patience, unless it must wait. Called under l.mu.
func (l *Limiter) tryBegin(in *lane, patience time.Duration) (Attempt, bool) {
	if len(*in.queue(patience)) > 0 || !l.mayBegin(in, patience > 0) {
		return Attempt{}, false
	}
	return l.begin(in), true
}

// mayBegin reports whether the lane has room for a caller, whose wait has a bound or has none. Called under l.mu.
func (l *Limiter) mayBegin(in *lane, brief bool) bool {
	if l.outage && !brief && in.running+in.resting >= few {
		return false
	}
	return float64(in.running) < l.limit
}

// Enter waits until the caller may make an attempt. Callers come in the order of the instants at which they asked;
// urgent ones wait for none that are not. patience bounds the wait; 0: it has no bound. A caller whose wait has a bound
// begins during an outage, too: it may have no time for another attempt, and learns by its own what ails the nodes.
// Errors: ErrTooLate, ErrUnfit, life.ErrClosed, or ctx's cause. After a nil error the caller must call Leave.
func (l *Limiter) Enter(ctx context.Context, asked, patience time.Duration, c Caller) (Attempt, error) {
	if l.isPaced() {
		if err := l.awaitNext(ctx, patience); err != nil {
			return Attempt{}, err
		}
	}
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
	for err == nil {
		select {
		case a := <-t.granted:
			return a, nil
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

// isPaced reports whether no majority could vote until a person acts, when a caller asked last.
func (l *Limiter) isPaced() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.next > 0
}

// awaitNext lets one caller ask in each FailurePause while no majority can vote until a person acts. The others pause
// until then, or until their patience ends, and get ErrUnfit. Other errors: life.ErrClosed, or ctx's cause.
func (l *Limiter) awaitNext(ctx context.Context, patience time.Duration) error {
	left := l.untilNext()
	if left <= 0 {
		return nil
	}
	if patience > 0 {
		left = min(left, patience)
	}
	if err := l.life.Pause(ctx, left); err != nil {
		return err
	}
	if l.untilNext() > 0 {
		return ErrUnfit
	}
	return nil
}

// untilNext returns how long it is until the next caller asks. If that is 0 or less, it is the caller of untilNext.
func (l *Limiter) untilNext() time.Duration {
	unfit := l.unfit()
	l.mu.Lock()
	defer l.mu.Unlock()
	if !unfit { // a person may have acted, and no attempt has been made since
		l.next = 0
	}
	left := l.next - l.clock()
	if l.next > 0 && left <= 0 {
		l.next += FailurePause - left
	}
	return left
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

// begin counts an attempt. Called under l.mu.
func (l *Limiter) begin(in *lane) Attempt {
	in.running++
	in.made++
	unknown := l.least == 0 && l.older == 0 // the first that is answered is measured: most often, no crowd has come by then
	return Attempt{limiter: l, lane: in, Timed: float64(2*in.running) >= l.limit || unknown || in.made%sampleEvery == 0}
}

// end ends an attempt, and lets further ones begin. Called under the Limiter's lock.
func (a Attempt) end() {
	a.lane.running--
	if a.lane.waits() > 0 {
		a.limiter.serve(a.lane)
	}
}

// serve lets the first callers of a lane begin that wait. Called under l.mu.
func (l *Limiter) serve(in *lane) {
	for {
		from := &in.waiting
		if len(in.brief) > 0 && (len(in.waiting) == 0 || !l.mayBegin(in, false) || in.brief[0].isBefore(in.waiting[0])) {
			from = &in.brief
		}
		if len(*from) == 0 || !l.mayBegin(in, from == &in.brief) {
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
	return l.ordinary.waits() + l.urgent.waits()
}

// Result is how an attempt went.
type Result struct {
	Start   time.Duration // of the attempt, on the client's clock
	Timeout time.Duration // after it no answer counts

	// Unanswered is set if fewer than a quorum of the nodes answered.
	Unanswered bool

	// Answered is how long a quorum took to answer; 0: it did not. That of an attempt that is timed counts.
	Answered time.Duration

	// Took is how long the attempt took, if it is timed or Unanswered.
	Took time.Duration
}

// Leave ends an attempt.
func (a Attempt) Leave(r Result) {
	l := a.limiter
	unfit := r.Unanswered && l.unfit()
	l.mu.Lock()
	defer l.mu.Unlock()
	if unfit {
		l.next = max(l.next, l.clock()+FailurePause)
	}
	if r.Unanswered {
		l.beginOutage(&r)
	} else {
		if l.outage {
			l.endOutage()
		}
		if a.Timed {
			l.adapt(&r, a.lane)
		}
	}
	a.end()
}

// beginOutage takes an attempt that too few nodes answered. One whose timeout is shorter than the way there and back says
// nothing. If the nodes answered too late, they have far too much to do: halving the limit step by step would lose as many
// attempts once more. An outage begins, unless the timeout is no longer than the last answer took, or the attempt began
// before the last outage ended. Called under l.mu.
func (l *Limiter) beginOutage(r *Result) {
	if r.Timeout <= l.base() {
		return
	}
	if r.Took >= r.Timeout {
		l.shrink(r.Start, few)
	}
	if !l.outage && r.Timeout > l.last && r.Start >= l.outageAt {
		l.outage, l.outageAt = true, l.clock()
	}
}

// endOutage lets those go on that wait: few at first, so that nodes that answer again a little are not overrun. Called
// under l.mu.
func (l *Limiter) endOutage() {
	l.outage, l.outageAt, l.next, l.limit = false, l.clock(), 0, min(l.limit, few)
	l.serve(&l.urgent)
	l.serve(&l.ordinary)
}

// Outage returns for how long too few nodes have answered; 0 if a quorum answered last.
func (l *Limiter) Outage() time.Duration {
	l.mu.Lock()
	defer l.mu.Unlock()
	if !l.outage {
		return 0
	}
	return l.clock() - l.outageAt
}

// Rest pauses a caller before it asks again, since too few nodes answered its attempt. It keeps its place among the few
// meanwhile. Errors: life.ErrClosed, or ctx's cause.
func (a Attempt) Rest(ctx context.Context, pause time.Duration) error {
	l := a.limiter
	l.mu.Lock()
	a.lane.resting++
	l.mu.Unlock()
	err := l.life.Pause(ctx, pause)
	l.mu.Lock()
	defer l.mu.Unlock()
	a.lane.resting--
	l.serve(a.lane)
	return err
}

// LeaveLater ends an attempt whose caller has given up. What it sent is still at the nodes, for
// about as long as attempts took lately: until then it counts. If no quorum had answered for much
// longer than that, the nodes have too much to do for such a caller: the limit shrinks.
func (a Attempt) LeaveLater(r Result) {
	l := a.limiter
	l.mu.Lock()
	d := 2 * l.base()
	if a.Timed && r.Answered == 0 && d > 0 && r.Took > 2*d {
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
// there and back, and the timeout there is room for the nodes' queues, as much as mostQueue allows. The limit grows
// while attempts take less than a quarter of it, and shrinks when one takes more than half of it. Called under l.mu.
func (l *Limiter) adapt(r *Result, in *lane) {
	if r.Answered == 0 {
		return
	}
	l.measure(r.Answered)
	base := l.base()
	room := min(r.Timeout-base, mostQueue+4*base)
	switch {
	case r.Answered > base+room/2:
		l.shrink(r.Start, maxLimit)
	case float64(2*in.running) < l.limit: // not many are under way
	case r.Answered < base+room/8:
		l.limit = min(l.limit+1, maxLimit)
	case r.Answered < base+room/4:
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
		l.aged, l.older, l.least = now, l.least, 0
	}
	if l.last = took; l.least == 0 || took < l.least {
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
