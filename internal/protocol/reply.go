package protocol

import (
	"math"
	"strconv"
	"strings"
	"time"

	"github.com/gomodule/redigo/redis"
)

// What servers answer to the scripts about one lock. Each reader returns false for a reply that its
// script does not have.

// Kind is what a server did with a call, or why it did nothing.
type Kind int8

// The kinds.
const (
	_         Kind = iota
	Done           // it did what was asked
	Recreated      // renewal: a key was missing, or only reserved, and it has created it
	Refused        // another owner has the lock there, or too few permits are free
	Forgot         // its record is not whole, so it may have forgotten a vote
	Unproven       // renewal: a key was missing, and without a record that proves nothing
	Stranger       // renewal: the server stands in another list of masters than the lease, or in none, and a key was missing
	Moved          // renewal: the server stands in another list of masters than the lease, and prolonged the keys
	Gone           // raise: the lease, or the record, is gone
	KeyGone        // transfer, resumption: the lease's key is gone
	NotFound       // release: it had nothing of the owner
	Kept           // release of a waiter's attempt: the key is reserved for this waiter
	HandedOff      // release: the key is reserved for another waiter
	StillHeld      // release: other readers hold the lock, or it rests and others wait
)

// Reply is a server's answer to a call about one lock.
type Reply struct {
	Kind   Kind
	Token  int64  // Done: the count of grants
	Slots  string // of a semaphore: those granted, with commas between; of a refusal, the owners of those taken
	Wanted bool   // renewal: others want the lock

	// Of a refusal; of a lock that was seized, what stood there before.
	Holder    string
	Resting   bool          // the holder's lease has ended, and the lock rests
	Remaining time.Duration // of the holder's key; Endless if it has no end, 0 if that is not known
	Place     Place
}

// Place is a waiter's place in a server's queue. It is zero if the caller does not queue.
type Place struct {
	Position int32 // of several queues, the greatest
	Joined   bool  // its ticket was not there before
	Watches  bool  // a client ahead is challenged: the waiter looks again when that is over
	LookIn   int32 // milliseconds after which the waiter looks again, as the node says; else 0
	Unheard  bool  // the server cannot wake the client
}

// ReadGrant reads the answer to acquire, acquireall and read.
func ReadGrant(reply any) (Reply, bool) {
	if n, is := reply.(int64); is {
		return grant(n)
	}
	return refusal(reply)
}

func grant(n int64) (Reply, bool) {
	const forgot = -1
	if n == forgot {
		return Reply{Kind: Forgot}, true
	}
	return Reply{Kind: Done, Token: n}, n >= 1
}

// ReadPermits reads the answer to permit: {token, slot, …}, or {holder, milliseconds, the slots'
// owners}, or another refusal.
func ReadPermits(reply any) (Reply, bool) {
	if n, is := reply.(int64); is {
		return Reply{Kind: Forgot}, n == -1
	}
	parts, _ := reply.([]any)
	if len(parts) == 0 {
		return Reply{}, false
	}
	token, granted := parts[0].(int64)
	switch {
	case granted:
		slots, ok := slotsOf(parts[1:])
		return Reply{Kind: Done, Token: token, Slots: slots}, ok && token >= 1
	case len(parts) != 3:
		return refusal(reply)
	}
	owners, ok := parts[2].([]byte)
	if ok = ok && len(owners) > 0 && len(owners)%OwnerName == 0 && len(owners) <= MaxPermits*OwnerName; !ok {
		return Reply{}, false
	}
	r, ok := refusal(parts[:2])
	r.Slots = string(owners)
	return r, ok && r.Holder == Permits
}

// slotsOf returns the numbers of slots, with commas between.
func slotsOf(numbers []any) (slots string, ok bool) {
	all := make([]string, 0, len(numbers))
	for _, n := range numbers {
		slot, is := n.(int64)
		if !is || slot < 0 || slot >= MaxPermits {
			return "", false
		}
		all = append(all, strconv.FormatInt(slot, 10))
	}
	return strings.Join(all, ","), len(all) > 0
}

// ReadRaise reads the answer to raise.
func ReadRaise(reply any) (Reply, bool) {
	switch n, is := reply.(int64); {
	case is && n == 0:
		return Reply{Kind: Gone}, true
	default:
		return Reply{Kind: Done}, is && n == 1
	}
}

// ReadRenewal reads the answer to renew, renewall and keep.
func ReadRenewal(reply any) (Reply, bool) {
	n, is := reply.(int64)
	if !is {
		return refusal(reply)
	}
	const wanted = 10 // is added where others want the lock
	r := Reply{Wanted: n > wanted}
	if r.Wanted {
		n -= wanted
	} else if n == 0 {
		return Reply{Kind: Unproven}, true
	} else if n == 5 {
		return Reply{Kind: Stranger}, true
	} else if n == 6 {
		return Reply{Kind: Moved}, true
	}
	r.Kind = Done
	if n == 2 {
		r.Kind = Recreated
	}
	return r, n == 1 || n == 2
}

// ReadRelease reads the answer to release, releaseall, giveback and rest.
func ReadRelease(reply any) (Reply, bool) {
	kinds := [...]Kind{NotFound, Done, Kept, HandedOff, StillHeld}
	n, is := reply.(int64)
	if !is || n < 0 || n >= int64(len(kinds)) {
		return Reply{}, false
	}
	return Reply{Kind: kinds[n]}, true
}

// ReadTransfer reads the answer to transfer.
func ReadTransfer(reply any) (Reply, bool) {
	switch n, is := reply.(int64); {
	case !is:
	case n == 0:
		return Reply{Kind: KeyGone}, true
	case n == 6:
		return Reply{Kind: Moved}, true
	default:
		return Reply{Kind: Done}, n == 1
	}
	return refusal(reply)
}

// ReadResumption reads the answer to resume.
func ReadResumption(reply any) (Reply, bool) {
	switch n, is := reply.(int64); {
	case !is:
		return refusal(reply)
	case n == 0:
		return Reply{Kind: KeyGone}, true
	default:
		return grant(n)
	}
}

// ReadSeizure reads the answer to seize: {count, holder, milliseconds} of what stood there before, or a refusal.
func ReadSeizure(reply any) (Reply, bool) {
	if n, is := reply.(int64); is {
		return Reply{Kind: Forgot}, n == -1
	}
	parts, _ := reply.([]any)
	if len(parts) != 3 {
		return refusal(reply)
	}
	var ms int64
	r := Reply{Kind: Done}
	if _, err := redis.Scan(parts, &r.Token, &r.Holder, &ms); err != nil {
		return Reply{}, false
	}
	r.Holder, r.Remaining = foundHolder(r.Holder, ms), Remaining(ms)
	return r, true
}

// looked is what look.lua returns: no other script returns that, and an answer that is another call's is noticed.
const looked = "looked"

// ReadLook reads the answer to a LookCall.
func ReadLook(reply any) (Reply, bool) {
	word, _ := reply.([]byte)
	return Reply{Kind: Done}, string(word) == looked
}

// counted returns a number of waiters as a Place holds it.
func counted(n int64) int32 { return int32(max(min(n, math.MaxInt32), math.MinInt32)) } //nolint:gosec // within bounds

// refusal reads {holder, milliseconds} and, for a waiter, {…, position, flags}: see acquire.lua.
func refusal(reply any) (Reply, bool) {
	parts, _ := reply.([]any)
	if len(parts) != 2 && len(parts) != 4 {
		return Reply{}, false
	}
	value, ok := parts[0].([]byte)
	ms, isNumber := parts[1].(int64)
	if !ok || !isNumber || ms > mostMilliseconds {
		return Reply{}, false
	}
	r := Reply{Kind: Refused, Remaining: Remaining(ms)}
	r.Holder, r.Resting = HolderOf(value)
	if len(parts) == 2 {
		return r, true
	}
	position, isNumber := parts[2].(int64)
	flags, isText := parts[3].([]byte)
	if r.Place, ok = placeOf(string(flags)); !ok || !isNumber || !isText {
		return Reply{}, false
	}
	r.Place.Position = counted(position)
	return r, true
}

// placeOf reads the flags of a refusal: see acquire.lua.
func placeOf(flags string) (p Place, ok bool) {
	letters, rest, delayed := strings.Cut(flags, "d")
	for delayed {
		var digits string
		digits, rest, delayed = strings.Cut(rest, "d")
		digits = strings.TrimRight(digits, "nuc")
		ms, err := strconv.ParseUint(digits, 10, 31)
		if err != nil {
			return Place{}, false
		}
		if p.LookIn == 0 || int32(ms) < p.LookIn { // of several locks, the soonest
			p.LookIn = int32(ms)
		}
	}
	p.Joined, p.Unheard, p.Watches = strings.Contains(flags, "n"), strings.Contains(flags, "u"), strings.Contains(flags, "c")
	return p, strings.Trim(letters, "nuc") == ""
}
