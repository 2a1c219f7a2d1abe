package waitqueue

import (
	"context"
	"sync"
	"time"

	"github.com/redlock-go/redlock/internal/life"
	"github.com/redlock-go/redlock/internal/protocol"
	"github.com/redlock-go/redlock/internal/quorum"
	"github.com/redlock-go/redlock/internal/system"
)

const (
	// firstQuorumWait is how long a waiter that was woken by one node awaits the wake-ups of
	// the others before it tries; it doubles with every try in vain. A wake-up is a
	// challenge: a client that answers after the reservation's ttl counts as dead, so a
	// waiter never waits that long.
	firstQuorumWait = 50 * time.Millisecond
	maxQuorumWait   = protocol.ReservationTTL / 4

	// retriesBeforeBackoff is how many wake-ups of a quorum in a row a waiter may follow in
	// vain before it hesitates, first for retryBase, then for twice as long each time.
	retriesBeforeBackoff = 3
	retryBase            = 2 * time.Millisecond
)

// A waiter looks when it asks again though no node has woken it. Looks find what no message tells: that the keys of a
// holder, or of a reservation, have ended, and that the clients ahead are dead. docs/safety.md (How long a lock has no
// holder) argues how long that takes.
const (
	// firstLook is the pace of a client's foremost waiter at the head of the queue: another program may have
	// deleted the lock's key. A waiter looks as soon after it has become its client's foremost.
	firstLook = time.Second

	// A client's foremost waiter looks this long after the end of the lock's keys, and up to slowSpread earlier, so
	// that many clients do not look at the same instant. maxSlowLook bounds that: queue.lua relies on it.
	slowLook    = 2500 * time.Millisecond
	slowSpread  = 500 * time.Millisecond
	maxSlowLook = 30 * time.Second

	// unheardLook times its position, counted up to unheardMost, is the pace of the foremost waiter of a client that
	// too few nodes can wake: see lives in queue.lua.
	unheardLook = 250 * time.Millisecond
	unheardMost = 100
)

// turn is when a waiter asks again. Other goroutines bring it forward.
type turn struct {
	clock system.Clock
	of    *quorum.Cluster
	rung  chan struct{} // holds one signal after changes

	mu      sync.Mutex     // protects what follows; innermost
	ready   quorum.NodeSet // nodes that have the lock reserved for the waiter, since its last attempt
	callBy  time.Duration  // the instant by which it asks since a node called it, or is to know that it asks; or never
	lookBy  time.Duration  // the instant by which it looks, whether it asks before or not; or never
	thenBy  time.Duration  // the latest look that was asked for: begin moves it to lookBy when the earlier one is over
	misses  int            // attempts in a row, all refused, made while a node had the lock reserved
	vain    int            // those of them that followed the wake-ups of a quorum
	rungFor bool           // ready counts a wake-up, and not only the answer to a rollback
}

// never is an instant that does not come.
const never = time.Duration(system.Forever)

// newTurn makes the turn of a waiter of a cluster.
func newTurn(clock system.Clock, of *quorum.Cluster) turn {
	return turn{clock: clock, of: of, rung: make(chan struct{}, 1), callBy: never, lookBy: never}
}

// nodeReady records that a node has the lock reserved for the waiter. It asks when a quorum has; after a wake-up, it
// awaits the others for a while only.
func (t *turn) nodeReady(node int, woken bool) {
	t.mu.Lock()
	t.ready.Add(node)
	first := woken && !t.rungFor
	t.rungFor = t.rungFor || woken
	full := t.ready.Len() >= t.of.Need()
	wait := min(firstQuorumWait<<min(t.misses, 10), maxQuorumWait)
	if full {
		wait = t.backoff()
	}
	asks := full || first
	if asks {
		t.callBy = min(t.callBy, t.clock()+wait)
	}
	t.mu.Unlock()
	if asks {
		t.ring()
	}
}

// ask has the waiter ask at this instant.
func (t *turn) ask(at time.Duration) {
	t.mu.Lock()
	t.callBy = min(t.callBy, at)
	t.mu.Unlock()
	t.ring()
}

// look has the waiter look by this instant, though it may look before. Of several later ones, the latest counts.
func (t *turn) look(at time.Duration) {
	t.mu.Lock()
	t.lookBy, t.thenBy = min(t.lookBy, at), max(t.thenBy, at)
	t.mu.Unlock()
	t.ring()
}

// ring has the waiter see what has changed.
func (t *turn) ring() {
	select {
	case t.rung <- struct{}{}:
	default: // it has been woken, and will see the newest
	}
}

// next returns the instant by which the waiter asks, or never.
func (t *turn) next() time.Duration {
	t.mu.Lock()
	defer t.mu.Unlock()
	return min(t.callBy, t.lookBy)
}

// isCalled reports whether a node has the lock reserved for the waiter.
func (t *turn) isCalled() bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.ready != 0
}

// begin begins an attempt: what led to it is over, and counts if the attempt is refused.
func (t *turn) begin() {
	now := t.clock()
	t.mu.Lock()
	defer t.mu.Unlock()
	t.misses++
	if t.ready == 0 {
		t.misses = 0
	}
	t.vain++
	if t.ready.Len() < t.of.Need() {
		t.vain = 0
	}
	t.ready, t.callBy, t.rungFor = 0, never, false
	if t.lookBy <= now {
		t.lookBy = never
		if t.thenBy > now {
			t.lookBy = t.thenBy
		}
	}
}

// backoff returns how long the waiter waits though a quorum is ready. Mostly that is not at
// all; but where several tries in a row were refused all the same, something is amiss that
// trying does not mend. Called under t.mu.
func (t *turn) backoff() time.Duration {
	if t.vain < retriesBeforeBackoff {
		return 0
	}
	return retryBase << min(t.vain-retriesBeforeBackoff, 6)
}

// hesitation is backoff, for the waiter's own goroutine.
func (t *turn) hesitation() time.Duration {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.backoff()
}

// AwaitTurn returns when it is time for the next attempt, after one that was refused: when a
// quorum of the nodes is ready for the waiter, a while after the first of them is, or when it
// is to look again. Errors: life.ErrClosed, or ctx's cause.
func (w *Waiter) AwaitTurn(ctx context.Context, s Standing) error {
	clock := w.queue.cfg.Clock
	w.last.took = s.Took
	if s.Joined && w.last.joined {
		w.queue.rejoinOthers(w)
	}
	w.last.joined = true
	if s.Joined && s.LookIn > 0 && w.isForemost() {
		w.turn.look(clock() + s.LookIn) // also if it asks before, since nodes tell that to newcomers alone
	}
	due := clock() + max(w.lookAfter(s), w.turn.hesitation())
	timer := time.NewTimer(0)
	defer timer.Stop()
	for {
		now, next := clock(), min(due, w.turn.next())
		if now >= next {
			return nil
		}
		timer.Reset(next - now)
		select {
		case <-timer.C:
		case <-w.turn.rung:
		case <-ctx.Done():
			return life.EndOf(ctx)
		case <-w.queue.cfg.Life.Closing():
			return life.ErrClosed
		}
	}
}

// lookAfter returns how long the waiter waits for a wake-up before it looks. Of a client's waiters for a lock mostly the
// foremost looks, for all of them.
func (w *Waiter) lookAfter(s Standing) time.Duration {
	random := w.lock.Terms.Random
	soon := time.Millisecond + random.Below(2*time.Millisecond, "looking")
	d := time.Duration(system.Forever / 2)
	if s.Position <= 2 || s.Granted {
		d = min(d, s.Free+soon) // the holder, or the one for whom the lock is reserved, may have died
	}
	if !w.isForemost() {
		return d
	}
	d = min(d, s.Free+slowLook, w.lock.Terms.TTL+slowLook, maxSlowLook+slowLook)
	d = min(d, max(s.Free+soon, d-random.Below(slowSpread, "looking")))
	if s.Watches {
		d = min(d, protocol.ReservationTTL+soon)
	}
	if s.Position <= 1 {
		d = min(d, system.Jitter(random, firstLook, "looking"))
	}
	if s.LookIn > 0 {
		d = min(d, s.LookIn+soon)
	}
	if s.Unheard {
		d = min(d, system.Jitter(random, time.Duration(min(max(s.Position, 1), unheardMost))*unheardLook, "looking"))
	}
	return d
}

// IsAwaited reports whether nodes await the waiter's next attempt: a node has called it or told it to ask since the last
// one, or it looks for all of its client's waiters.
func (w *Waiter) IsAwaited() bool {
	t := &w.turn
	t.mu.Lock()
	called := t.ready != 0 || t.callBy != never
	t.mu.Unlock()
	return called || w.isForemost()
}

// Calls returns a channel that receives a value after IsAwaited has become true. Only the waiter's own goroutine may
// read it.
func (w *Waiter) Calls() <-chan struct{} { return w.turn.rung }
