package redlock

import (
	"context"
	"errors"
	"slices"
	"strings"
	"time"

	"github.com/redlock-go/redlock/internal/admission"
	"github.com/redlock-go/redlock/internal/node"
	"github.com/redlock-go/redlock/internal/protocol"
	"github.com/redlock-go/redlock/internal/quorum"
	"github.com/redlock-go/redlock/internal/system"
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
	ahead   int           // other clients ahead in line: no node shows fewer
	joined  bool          // a node did not have the ticket in its line
	kept    bool          // the lock is reserved for somebody at a quorum
	some    bool          // nodes granted it, too few
	free    time.Duration // until a quorum is free, if nothing is renewed
}

// refusal returns why the ballot failed, which must be closed. Somebody holds the lock only
// where one owner may have a quorum: the nodes that showed it, and those that showed
// nothing.
func (b *ballot) refusal() *refusal {
	q := b.quorumError()
	r := &refusal{err: q, hopeless: q.hopeless(), trip: q.Elapsed}

	need := b.mutex.client.cluster.Need
	holder, nodes := b.Leader()
	tally := b.Tally()
	answered := tally[quorum.Yes] + tally[quorum.No]
	r.reached = answered >= need
	r.place, r.ahead, r.free = b.standing()
	r.joined = b.joinedAnew()
	kept := isReservation(holder)
	r.kept = kept && nodes >= need
	r.some = tally[quorum.Yes] > 0
	switch {
	case answered < need:
		scriptless, registering := b.unprepared()
		r.again = answered+scriptless+registering >= need
		r.registering = r.again && registering > 0
	case nodes+tally[quorum.NoAnswer] >= need:
		r.remaining = b.longest(holder)
		held := &HeldError{Name: b.mutex.name, Holder: holder, Remaining: r.remaining, Place: r.place, Votes: q.Votes}
		if kept {
			held.Holder = "" // nobody has it yet
		}
		r.err = held
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

// lackedScripts reports whether nodes had to load the scripts first.
func (b *ballot) lackedScripts() bool {
	scriptless, _ := b.unprepared()
	return scriptless > 0
}

// unprepared counts the nodes that had to load the scripts first, and those that put the
// ttl on record; a repeated ballot finds that done.
func (b *ballot) unprepared() (scriptless, registering int) {
	for _, a := range b.Answers() {
		switch {
		case node.IsCode(a.Cause, "NOSCRIPT"):
			scriptless++
		case errors.Is(a.Cause, admission.ErrRegistering):
			registering++
		}
	}
	return scriptless, registering
}

// longest returns the longest ttl that a holder has left at any node; endless if its key
// has none, 0 if no node reported it.
func (b *ballot) longest(holder string) (longest time.Duration) {
	for _, a := range b.Answers() {
		switch {
		case a.Holder != holder || longest == endless:
		case a.Remaining == endless:
			longest = endless
		default:
			longest = max(longest, a.Remaining)
		}
	}
	return longest
}

// rank orders the attempts that split the votes: by their owners, which are random, so
// that each of them comes to the same order. One that has no vote stands behind all that
// were seen, for they do not see it.
func (b *ballot) rank() int {
	ahead := make(map[string]bool)
	none := b.Tally()[quorum.Yes] == 0
	for _, a := range b.Answers() {
		if a.Count == quorum.No && a.Holder != "" && (none || strings.Compare(a.Holder, b.Owner) < 0) {
			ahead[a.Holder] = true
		}
	}
	return len(ahead)
}

// patience is how long to wait before the next attempt. Where the votes were
// split the callers go one after the other, two round trips apart: time for the
// one ahead to ask, and for the others to have given their nodes back. Where
// the lock is held it is a random time, longer with each try, but not much
// longer than the holder has left.
func (r *refusal) patience(random system.Random, try int) time.Duration {
	if r.again && !r.registering {
		return time.Duration(r.rank)*2*r.trip + random.Below(max(r.trip, time.Microsecond), "splitting")
	}
	limit := min(firstWait<<min(try, 10), longestWait)
	if r.remaining > 0 {
		limit = min(limit, r.remaining+time.Millisecond)
	}
	return random.Below(limit, "trying again") + 1
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
const reservation = protocol.Reserved + "reserved:"

func isReservation(holder string) bool { return strings.HasPrefix(holder, reservation) }

// joinedAnew reports whether the ticket was new in the queue of any node.
func (b *ballot) joinedAnew() (anew bool) {
	for _, a := range b.Answers() {
		anew = anew || a.Joined
	}
	return anew
}

// standing returns the waiter's position in the queue, the median of the positions that
// nodes reported; the number of other clients ahead of it, the least of the numbers that
// nodes reported, since looking too often does no harm; and how long it takes until a
// quorum of the nodes is free if nothing there is renewed.
func (b *ballot) standing() (position, ahead int, free time.Duration) {
	var positions []int
	var ends []time.Duration
	for _, a := range b.Answers() {
		if a.Position > 0 {
			if len(positions) == 0 || a.Ahead < ahead {
				ahead = a.Ahead
			}
			positions = append(positions, a.Position)
		}
		switch {
		case a.Count == quorum.Yes:
			ends = append(ends, 0)
		case a.Count == quorum.No && a.Remaining != endless:
			ends = append(ends, a.Remaining)
		}
	}
	free = system.Forever / 2
	if need := b.mutex.client.cluster.Need; len(ends) >= need {
		slices.Sort(ends)
		free = ends[need-1]
	}
	if len(positions) > 0 {
		slices.Sort(positions)
		position = positions[len(positions)/2]
	}
	return position, ahead, free
}
