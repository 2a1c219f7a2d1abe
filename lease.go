package redlock

import (
	"context"
	"fmt"
	"sync"
	"time"
)

// Lease is one holding of a lock, from grant to release or loss. It is safe for
// concurrent use. Its validity ends by itself; Extend prolongs it.
type Lease struct {
	mutex *Mutex
	owner string

	mu      sync.Mutex    // protects what follows; ballots are queued under it
	until   time.Duration // end of validity, on the client's clock
	mayHold nodeSet       // nodes where its key may stand, now or later
	err     error         // why it ended; nil while held
	done    chan struct{} // made by the first Done

	// The keeper's, protected by its lock.
	due   time.Duration // when to look at it
	place int           // in the keeper's heap; -1: not there
}

// newLease makes the lease that a ballot granted.
func newLease(m *Mutex, owner string, b *ballot) *Lease {
	until := m.opts.validUntil(b.start)
	return &Lease{mutex: m, owner: owner, until: until, mayHold: b.sent(), due: until, place: -1}
}

// Name is the lock's name.
func (l *Lease) Name() string { return l.mutex.name }

// Owner is the random value that marks this lease at the nodes: a random part,
// then "@" and the owner label.
func (l *Lease) Owner() string { return l.owner }

// Remaining is how long the lease may still be trusted: its ttl less the time
// since it was asked for, less the drift allowance; 0 when it has ended. It is
// measured on a clock that cannot be set and goes on while the machine is
// suspended.
func (l *Lease) Remaining() time.Duration {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.err != nil {
		return 0
	}
	return max(0, l.until-l.mutex.opts.clock())
}

// Valid tells whether the lease may be trusted now.
func (l *Lease) Valid() bool { return l.Remaining() > 0 }

// Until is the end of validity on the wall clock, for people and logs; a
// program asks Remaining, since the wall clock may be set.
func (l *Lease) Until() time.Time {
	l.mu.Lock()
	defer l.mu.Unlock()
	return time.Now().Add(l.until - l.mutex.opts.clock())
}

// Done is closed when the lease is released or lost, at the latest when its
// validity ends. (On a machine that was suspended, within a second of waking;
// Valid and Remaining are right at once.)
func (l *Lease) Done() <-chan struct{} {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.done == nil {
		l.done = make(chan struct{})
		if l.err != nil {
			close(l.done)
		}
	}
	return l.done
}

// Err is nil while the lease is held, then ErrReleased, ErrLost, or ErrClosed if
// the client's Close ended it.
func (l *Lease) Err() error {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.err == nil && l.overdue() {
		return ErrLost
	}
	return l.err
}

// overdue tells that the validity is over. Called under l.mu.
func (l *Lease) overdue() bool { return l.mutex.opts.clock() >= l.until }

// Extend prolongs the lease to a full ttl from now, if its validity has not
// ended; it also puts its key back at nodes that have lost it. It takes at most
// one node timeout. ctx bounds the call; a lease whose Extend failed with
// anything but ErrLost stays valid until its old end.
//
// Errors: ErrLost when the validity had ended before or during the call, or a
// quorum of the nodes had lost the lease: then somebody else may have held it,
// and what is left of it is released. ErrNoQuorum when too few nodes confirmed
// (a *QuorumError has each node's vote), joined with ctx's cause if that ended
// the call. ErrReleased after Unlock, ErrClosed after Close.
func (l *Lease) Extend(ctx context.Context) error {
	m := l.mutex
	l.mu.Lock()
	now := m.opts.clock()
	switch {
	case l.err != nil:
		defer l.mu.Unlock()
		return l.refuse("extend", l.err)
	case now >= l.until:
		l.mu.Unlock()
		l.finish(ErrLost)
		return l.refuse("extend", ErrLost)
	}
	// Whether the lease is still held is checked, and the renewal queued, under
	// the lock under which Unlock queues its release: on every connection the
	// renewal is ahead of the release, and none comes after it.
	b := m.newBallot(renewing, l.owner, renewScript.bySHA(m.keyArg, l.owner, m.ttlArg), now)
	crowded := b.queue(0, true)
	l.mayHold |= b.sent()
	l.mu.Unlock()
	b.flush(crowded)

	v, err := b.await(ctx, m.opts.voteTimeout())
	switch {
	case v == taken:
		l.finish(ErrLost)
		return l.refuse("extend", ErrLost)
	case v == granted:
		return l.prolong(m.opts.validUntil(b.start))
	case l.Err() == ErrLost:
		l.finish(ErrLost)
		return l.refuse("extend", ErrLost)
	case err != nil:
		return &waitError{op: "extend", name: m.name, cause: err, last: b.quorumError()}
	}
	return b.quorumError()
}

// prolong moves the end of validity, unless the old one has passed: a lease
// that has ended stays ended, whatever the nodes said in the meantime.
func (l *Lease) prolong(until time.Duration) error {
	l.mu.Lock()
	if l.err == nil && !l.overdue() {
		if until > l.until { // a renewal that began later may have been faster
			l.until = until
			l.mutex.client.keeper.move(l, until)
		}
		l.mu.Unlock()
		return nil
	}
	l.mu.Unlock()
	l.finish(ErrLost)
	return l.refuse("extend", l.Err())
}

// Unlock releases the lease at every node and returns when a quorum confirmed.
// A ctx that has ended does not keep it from doing so; it takes at most one
// node timeout. Nodes that do not answer owe the release: they get it first
// thing when they are back. A second call returns nil.
//
// Errors: ErrLost when the lease had ended before, or a quorum of the nodes had
// lost it: what was left of it is released, but somebody else may have held the
// lock meanwhile. ErrNoQuorum when too few nodes confirmed (a *QuorumError has
// each node's vote); the lease has ended all the same. ErrClosed when Close
// ended it.
func (l *Lease) Unlock(_ context.Context) error {
	b, was := l.release(ErrReleased)
	switch {
	case b == nil && was == ErrReleased:
		return nil
	case b == nil:
		return l.refuse("unlock", was)
	}
	// The release is on its way, whatever ctx says.
	v, _ := b.await(context.Background(), l.mutex.opts.voteTimeout())
	switch {
	case was != nil:
		return l.refuse("unlock", was)
	case v != granted:
		return b.quorumError()
	case b.foundNothing() && l.mutex.opts.clock() < l.validity():
		return l.refuse("unlock", ErrLost)
	}
	return nil
}

// validity is the end of validity, whether it has passed or not.
func (l *Lease) validity() time.Duration {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.until
}

// release ends the lease for the reason why, and sends the release. was is the
// reason for which it had ended before; b is nil where nothing was sent because
// that had been done before.
func (l *Lease) release(why error) (b *ballot, was error) {
	m := l.mutex
	l.mu.Lock()
	if l.err != nil {
		defer l.mu.Unlock()
		return nil, l.err
	}
	now := m.opts.clock()
	if now >= l.until {
		was, why = ErrLost, ErrLost
	}
	l.err = why
	if l.done != nil {
		close(l.done)
	}
	b = m.newBallot(releasing, l.owner, releaseScript.bySHA(m.keyArg, l.owner), now)
	crowded := b.queue(l.mayHold, true)
	l.mu.Unlock()
	m.client.keeper.remove(l)
	b.flush(crowded)
	return b, was
}

// finish ends the lease and releases what is left of it, without waiting.
func (l *Lease) finish(why error) { l.release(why) }

// refuse is the error of a method of a lease that has ended.
func (l *Lease) refuse(op string, why error) error {
	return fmt.Errorf("redlock: %s %q: %w", op, l.mutex.name, why)
}
