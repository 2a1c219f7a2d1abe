package lease

import (
	"context"
	"sync"
	"time"

	"github.com/redlock-go/redlock/internal/notify"
	"github.com/redlock-go/redlock/internal/protocol"
	"github.com/redlock-go/redlock/internal/quorum"
	"github.com/redlock-go/redlock/internal/system"
)

// Config is what all leases of a client have in common.
type Config struct {
	Clock    system.Clock
	Events   *notify.Queue
	Observer Observer

	// LostError makes the error by which users learn of a loss.
	LostError func(*Lease, Loss) error
}

// Observer is informed of leases. Its methods must not block. All but Endangered are called
// under the lease's lock: so what they report of one lease is in order, and they may not call the lease.
type Observer interface {
	Granted(ctx context.Context, g *Grant, s State)
	Renewed(g *Grant, s State, by *quorum.Ballot, granted bool)
	Ended(ctx context.Context, g *Grant, s State, end *End)

	// Wanted reports that others want the lock, once. It is called only for leases with a Signal.
	Wanted(g *Grant, s State)

	// Endangered reports that a renewal failed while the lease is valid for remaining; first,
	// that the renewal before it succeeded.
	Endangered(g *Grant, s State, remaining time.Duration, failure *quorum.Failure, first bool)
}

// State is what an Observer learns of a lease. Its instants are on the client's clock.
type State struct {
	Shared     bool          // others may hold the lock at the same time
	Until      time.Duration // the end of validity
	RestsUntil time.Duration // as Ending has it; 0 while the lease is held
}

// Terms are the settings of a lock's leases.
type Terms struct {
	TTL         time.Duration // of the keys at the nodes
	Validity    time.Duration // the longest validity, from the start of the ballot that granted or renewed the lease
	RenewEvery  time.Duration // from the start of one renewal to the next; 0: leases are not renewed
	MaxHold     time.Duration // from the start of the attempt; 0: no limit
	MinHold     time.Duration // from the start of the attempt: until then the lock rests when the lease has ended; 0: none
	Delayed     bool          // the keys of a lease that ends by itself are left to end with their ttl
	NodeTimeout time.Duration
	Random      system.Random
}

// Lock is the lock that a lease is of.
type Lock interface {
	// LeaseTerms returns the terms of the lock's leases.
	LeaseTerms() *Terms

	// Shared reports whether others may hold the lock at the same time.
	Shared() bool

	// BeginRenewal makes b a renewal, from at on, of what was granted by g that is not queued yet, for keys that last for
	// ttl, or, of a shared lease, as long as before if that is 0. If longer is set, that is longer than the
	// lock's: only nodes vote that have it on record, and that execute no earlier renewal after this one.
	BeginRenewal(ctx context.Context, at time.Duration, b *quorum.Ballot, g *Grant, ttl time.Duration, longer bool)

	// BeginRelease returns a release of what was granted by g that is not queued yet; nil if its keys stay,
	// and nothing else is to be released. What is queued later is executed later.
	BeginRelease(ctx context.Context, g *Grant, e Ending) *quorum.Ballot

	// TakeBack has nodes that have executed a transfer of a lease, or may yet, give their keys back to
	// its owner. What is queued later is executed later.
	TakeBack(owner string, p Passed)

	// Released informs the lock of a release that a quorum answered, or that timed out.
	Released(g *Grant, b *quorum.Ballot)
}

// Seat is the place in the wait queue of the waiter that got the lease.
type Seat interface {
	Ticket() string

	// Retire gives the place up with the lease, and returns its ticket.
	Retire() (ticket string)
}

// Grant is what a lease was granted with.
type Grant struct {
	Name     string // the lock's
	Owner    string
	OwnerArg any // Owner, as commands have it; nil: it was not made yet
	Token    int64
	Begun    time.Duration // when the attempt's ballot began
	Validity time.Duration // from then; if it is shorter than that of the terms, a renewal follows at once
	MayHold  quorum.NodeSet
	Seat     Seat           // nil if the caller did not queue
	List     *protocol.List // of masters, under which it was granted; nil where admission is off
	Wanted   *Signal        // nil if the holder is not to be told that others want the lock
}

// Lease is one holding of a lock. Its grant, renewals and end are one state machine under one lock.
type Lease struct {
	Grant

	cfg     *Config
	terms   *Terms
	renewer *Renewer
	limit   time.Duration // the validity never goes beyond it

	mu      sync.Mutex     // protects what follows; ballots are queued, and the renewer's lock taken, under it
	lock    Lock           // Downgrade replaces it, by one with the same terms
	until   time.Duration  // end of validity, on the client's clock
	mayHold quorum.NodeSet // nodes where its key may stand, now or later
	renewal schedule
	ending  ending
	publish func(held bool) // announces whether the lease is held alone; nil: nobody announces it
	handle  *Handle         // the first one, until the first renewal; then only the user has it

	place int // in the renewer's heap, or notInHeap; protected by the renewer's lock
}

// New makes the lease of a lock that a ballot granted. Start must follow.
func (r *Renewer) New(lock Lock, g Grant) *Lease {
	terms := lock.LeaseTerms()
	l := &Lease{Grant: g, cfg: r.cfg, terms: terms, lock: lock, renewer: r, limit: system.Forever, mayHold: g.MayHold}
	if terms.MaxHold > 0 {
		l.limit = g.Begun + min(terms.MaxHold, system.Forever-g.Begun) // no overflow
	}
	l.until = min(g.Begun+g.Validity, l.limit)
	l.planRenewal(g.Begun)
	if g.Validity < terms.Validity {
		l.renewal.at = l.cfg.Clock()
	}
	l.place = notInHeap
	return l
}

// RenewAtOnce has the first renewal follow at once, if there are any: not all nodes are known to
// have the keys. It comes ahead of Start.
func (l *Lease) RenewAtOnce() {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.terms.RenewEvery > 0 {
		l.renewal.at = l.cfg.Clock()
	}
}

// Start puts the lease into the renewer's care. It returns false if the client is closed.
func (l *Lease) Start(ctx context.Context) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	if !l.renewer.add(l) {
		return false
	}
	l.cfg.Observer.Granted(ctx, &l.Grant, l.state()) // under l.mu, so ahead of every later event of this lease
	if l.Wanted != nil {
		l.Wanted.start(l)
	}
	return true
}

// Announce has publish called with true now, and with false when the lease becomes a shared one, and at its end.
// Further calls do nothing. publish must not block.
func (l *Lease) Announce(publish func(held bool)) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.ending.end == nil && l.publish == nil {
		l.publish = publish
		publish(true)
	}
}

// announceChange announces that the lease is not held alone any more. What was queued before reaches the nodes first.
// Called under l.mu.
func (l *Lease) announceChange() {
	if l.publish != nil {
		l.publish(false)
	}
}

// TTL returns how long the lease's keys last at the nodes, at most.
func (l *Lease) TTL() time.Duration {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.keysLast()
}

// keysLast is TTL, called under l.mu.
func (l *Lease) keysLast() time.Duration { return max(l.terms.TTL, l.renewal.longest) }

// Shared reports whether others may hold the lock at the same time.
func (l *Lease) Shared() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.lock.Shared()
}

// Remaining returns for how long the lease is still valid; 0 when it has ended.
func (l *Lease) Remaining() time.Duration {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.remaining()
}

// remaining is Remaining, called under l.mu.
func (l *Lease) remaining() time.Duration {
	if l.ending.end != nil {
		return 0
	}
	return max(0, l.until-l.cfg.Clock())
}

// Until returns the end of validity, on the client's clock, whether it has passed or not.
func (l *Lease) Until() time.Duration {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.until
}

// Schedule returns when the next scheduled renewal begins, and whether one is under way.
func (l *Lease) Schedule() (next time.Duration, underWay bool) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.renewal.at, l.renewal.running != nil
}

// state returns what Observers learn. Called under l.mu.
func (l *Lease) state() State { return State{Shared: l.lock.Shared(), Until: l.until} }

// next returns when the renewer must look again. Called under l.mu.
func (l *Lease) next() time.Duration {
	if b := l.renewal.running; b != nil {
		return min(l.until, b.Start+l.terms.NodeTimeout)
	}
	if l.renewal.transfers > 0 {
		return l.until
	}
	return min(l.until, l.renewal.at)
}

// tick does what is due: it ends the lease, begins a renewal, or gives up a renewal that had
// no verdict in time. A ballot that it returns must be flushed.
func (l *Lease) tick() *quorum.Ballot {
	l.mu.Lock()
	now := l.cfg.Clock()
	switch late := l.renewal.running; {
	case l.ending.end != nil:
		l.mu.Unlock()
	case now >= l.until:
		l.mu.Unlock()
		l.expire()
	case late != nil && now >= late.Start+l.terms.NodeTimeout:
		l.mu.Unlock()
		late.Close(errNoVerdict)
		l.conclude(late, late.Verdict())
	case late == nil && now >= l.renewal.at && l.renewal.transfers == 0:
		b := l.renew(now)
		l.mu.Unlock()
		if v := b.Verdict(); v.IsFinal() {
			l.conclude(b, v) // no node could be asked
		}
		return &b.Ballot
	default:
		l.renewer.move(l, now)
		l.mu.Unlock()
	}
	return nil
}
