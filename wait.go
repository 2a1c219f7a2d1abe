package redlock

import (
	"context"
	"errors"
	"slices"
	"strings"
	"time"
)

// Pauses between attempts on a lock that is held, or at nodes that do not
// answer: up to the first, doubled with every try up to the longest.
const (
	firstWait   = 2 * time.Millisecond
	longestWait = 250 * time.Millisecond
)

// refusal is what a failed ballot says to whoever wants to try again.
type refusal struct {
	err         error         // *HeldError or *QuorumError
	hopeless    bool          // waiting cannot mend it
	again       bool          // nobody holds the lock: ask at once
	registering bool          // nodes put its ttl on record first, and were not asked
	rank        int           // this attempt's place among those that split the votes
	trip        time.Duration // how long the ballot took
	remaining   time.Duration // the holder's time left; endless, or 0: unknown

	// Of a waiter's attempt.
	reached bool          // a quorum answered
	place   int           // in line, 0: none
	kept    bool          // the lock is reserved for somebody at a quorum
	holder  string        // who may have it; "" if nobody is known to
	some    bool          // nodes granted it, too few
	free    time.Duration // until a quorum is free, if nothing is renewed
}

// refusal tells why the ballot failed. Somebody holds the lock only where one
// owner may have a quorum: the nodes that showed it, and those that showed
// nothing.
func (b *ballot) refusal() *refusal {
	q := b.quorumError()
	r := &refusal{err: q, hopeless: q.hopeless(), trip: q.Elapsed}

	b.mu.Lock()
	defer b.mu.Unlock()
	leader, nodes := b.leader()
	answered := b.tally[mine] + b.tally[others]
	r.reached = answered >= b.quorum
	r.place, r.free = b.standing()
	kept := leader != nil && isReservation(leader.holder)
	r.kept = kept && nodes >= b.quorum
	r.some = b.tally[mine] > 0
	switch {
	case answered < b.quorum:
		scriptless, registering := b.unprepared()
		r.again = answered+scriptless+registering >= b.quorum
		r.registering = r.again && registering > 0
	case nodes+b.tally[silent] >= b.quorum:
		r.remaining = b.longest(leader.holder)
		held := &HeldError{Name: b.mutex.name, Holder: leader.holder, Remaining: r.remaining, Place: r.place, Votes: q.Votes}
		if kept {
			held.Holder = "" // nobody has it yet
		}
		r.err, r.holder = held, held.Holder
	default:
		r.again = true
		r.rank = b.rank()
	}
	return r
}

// late is a ballot that was granted when no validity was left.
func (b *ballot) late() *refusal {
	q := b.quorumError()
	q.Late = true
	return &refusal{err: q, trip: q.Elapsed}
}

// lackedScripts tells that nodes had to load the scripts first.
func (b *ballot) lackedScripts() bool {
	b.mu.Lock()
	defer b.mu.Unlock()
	scriptless, _ := b.unprepared()
	return scriptless > 0
}

// unprepared counts the nodes that had to load the scripts first, and those that
// put the ttl on record; a repeated ballot finds that done. Called under b.mu.
func (b *ballot) unprepared() (scriptless, registering int) {
	for i := range b.votes {
		switch cause := b.votes[i].answer.cause; {
		case isCode(cause, "NOSCRIPT"):
			scriptless++
		case errors.Is(cause, errRegistering):
			registering++
		}
	}
	return scriptless, registering
}

// longest is the longest ttl that a holder has left at any node; endless if its
// key has none, 0 if no node told. Called under b.mu.
func (b *ballot) longest(holder string) time.Duration {
	var longest time.Duration
	for i := range b.votes {
		a := &b.votes[i].answer
		if a.holder != holder {
			continue
		}
		if a.remaining == endless {
			return endless
		}
		longest = max(longest, a.remaining)
	}
	return longest
}

// rank orders the attempts that split the votes: by their owners, which are
// random, so that each of them comes to the same order. One that has no vote
// stands behind all that were seen, for they do not see it. Called under b.mu.
func (b *ballot) rank() int {
	ahead := make(map[string]bool)
	for i := range b.votes {
		a := &b.votes[i].answer
		if a.voice == others && a.holder != "" && (b.tally[mine] == 0 || strings.Compare(a.holder, b.owner) < 0) {
			ahead[a.holder] = true
		}
	}
	return len(ahead)
}

// patience is how long to wait before the next attempt. Where the votes were
// split the callers go one after the other, two round trips apart: time for the
// one ahead to ask, and for the others to have given their nodes back. Where
// the lock is held it is a random time, longer with each try, but not much
// longer than the holder has left.
func (r *refusal) patience(c chance, try int) time.Duration {
	if r.again && !r.registering {
		return time.Duration(r.rank)*2*r.trip + c.below(max(r.trip, time.Microsecond), "splitting")
	}
	limit := min(firstWait<<min(try, 10), longestWait)
	if r.remaining > 0 {
		limit = min(limit, r.remaining+time.Millisecond)
	}
	return c.below(limit, "trying again") + 1
}

// pause waits. It returns ctx's cause or ErrClosed if that ends it.
func (c *Client) pause(ctx context.Context, d time.Duration) error {
	timer := time.NewTimer(d)
	defer timer.Stop()
	select {
	case <-timer.C:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	case <-c.closing:
		return ErrClosed
	}
}

// reservation begins the value of a lock's key that is kept for a waiter.
const reservation = reserved + "reserved:"

func isReservation(holder string) bool { return strings.HasPrefix(holder, reservation) }

// standing is a waiter's place in line, by the median of the nodes that told, and how
// long it takes until a quorum of the nodes is free if
// nothing there is renewed. Called under b.mu.
func (b *ballot) standing() (place int, free time.Duration) {
	var places []int
	var ends []time.Duration
	for i := range b.votes {
		a := &b.votes[i].answer
		if a.place > 0 {
			places = append(places, a.place)
		}
		switch {
		case a.voice == mine:
			ends = append(ends, 0)
		case a.voice == others && a.remaining != endless:
			ends = append(ends, a.remaining)
		}
	}
	free = forever / 2
	if len(ends) >= b.quorum {
		slices.Sort(ends)
		free = ends[b.quorum-1]
	}
	if len(places) > 0 {
		slices.Sort(places)
		place = places[len(places)/2]
	}
	return place, free
}
