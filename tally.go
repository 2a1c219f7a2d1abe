package redlock

import (
	"errors"
	"fmt"
	"time"

	"github.com/gomodule/redigo/redis"

	"github.com/redlock-go/redlock/internal/pipe"
)

// voice is what a node's answer means to the tally.
type voice int

const (
	pending  voice = iota
	mine           // granted, renewed, released, or simply answered
	restored       // a renewal found the key missing and created it anew
	others         // the key is somebody else's, or nobody's where it may have been forgotten
	absent         // a release found nothing of the attempt
	silent         // no answer, an error, or not sent
	voices
)

// tally counts the voices of one ballot.
type tally [voices]int

// verdict is what a tally says so far. The order matters: from failed on it is
// final.
type verdict int

const (
	open     verdict = iota
	outvoted         // somebody else has a quorum; a waiter hears the other votes too
	failing          // a quorum has become impossible; who holds the lock is not clear yet
	failed           // no quorum
	taken            // a renewal only: a quorum of the nodes had lost the lease
	granted          // a quorum did what was asked
)

// decide tells the verdict of each kind of ballot, as soon as it is certain.
func (b *ballot) decide() verdict {
	switch t := &b.tally; b.kind {
	case acquiring:
		return decideAcquire(t, b.quorum, b.strongest(), b.waiter != nil)
	case renewing:
		return decideRenew(t, b.quorum)
	default:
		return decideAnswered(t, b.quorum)
	}
}

// decideAcquire: granted at the quorum-th grant, failing as soon as the votes
// still out cannot make a quorum. The failure is final when no vote still out
// can change whether one other owner may have a quorum. strongest is the
// greatest number of nodes at which the same other owner was seen. Who waits is
// patient where that owner has a quorum, or no node has granted yet: the votes still
// out are not worth a rollback each, which would also take back its bids.
func decideAcquire(t *tally, quorum, strongest int, patient bool) verdict {
	if t[mine] >= quorum {
		return granted
	}
	if t[mine]+t[pending] >= quorum {
		return open
	}
	heldForSure := strongest >= quorum
	if patient && heldForSure && t[pending] > 0 {
		return outvoted
	}
	freeForSure := strongest+t[silent]+t[pending] < quorum
	tooFewAnswers := t[mine]+t[others]+t[pending] < quorum
	if t[pending] == 0 || heldForSure || freeForSure || tooFewAnswers {
		return failed
	}
	if patient && t[mine] == 0 {
		return open
	}
	return failing
}

// decideRenew: mine and restored nodes together renew the lease, unless a
// quorum had lost it: then somebody else may have held the lock meanwhile, and
// the nodes that had it back prove nothing. So it is renewed only when the
// votes still out cannot show that any more.
func decideRenew(t *tally, quorum int) verdict {
	gone := t[restored] + t[others]
	switch {
	case gone >= quorum:
		return taken
	case t[mine]+t[restored] >= quorum && gone+t[pending] < quorum:
		return granted
	case t[mine]+t[restored]+t[pending] < quorum && gone+t[pending] < quorum:
		return failed
	case t[pending] == 0:
		return failed
	}
	return open
}

// decideAnswered serves releases and pings: any answer of the node confirms.
func decideAnswered(t *tally, quorum int) verdict {
	confirmed := t[mine] + t[absent]
	switch {
	case confirmed >= quorum:
		return granted
	case confirmed+t[pending] < quorum:
		return failed
	}
	return open
}

// answer is a node's reply, understood.
type answer struct {
	voice     voice
	outcome   Outcome
	holder    string        // whose key was found, if not the attempt's
	remaining time.Duration // that key's ttl left: endless, or 0 if the node did not tell
	place     int           // a waiter's, in the node's line; 0: none
	handed    bool          // a release: the key is reserved for somebody who waits
	token     int64         // the node's count, with a grant
	cause     error
}

// endless is the remaining time of a key without a ttl.
const endless time.Duration = -1

// understand reads a script's reply, or the error that came in its place.
func understand(kind *ballotKind, reply any, err error) answer {
	if err != nil {
		return understandError(err)
	}
	switch reply := reply.(type) {
	case int64:
		return understandCount(kind, reply)
	case []any:
		if kind == seizing {
			return understandSeized(reply)
		}
		if a, ok := understandHolder(reply); ok && (kind == acquiring || kind == claiming || kind == renewing) {
			return a
		}
	case string:
		if kind == pinging {
			return answer{voice: mine, outcome: Granted}
		}
	}
	return answer{voice: silent, outcome: Unknown, cause: fmt.Errorf("unexpected reply to %s: %.80q", kind.op, fmt.Sprint(reply))}
}

// understandError reads what came in the place of a reply.
func understandError(err error) answer {
	a := answer{voice: silent, outcome: Unknown, cause: err}
	var refusal redis.Error
	switch {
	case isCode(err, "NOSCRIPT"), errors.Is(err, pipe.ErrNotSent):
		a.outcome = NotSent
	case errors.As(err, &refusal):
		a.outcome, a.cause = Refused, advise(err)
	}
	return a
}

// understandCount reads the numbers that the scripts return.
func understandCount(kind *ballotKind, n int64) answer {
	switch {
	case n >= 1 && kind == acquiring:
		return answer{voice: mine, outcome: Granted, token: n}
	case n == forgotten && (kind == acquiring || kind == seizing):
		return answer{voice: silent, outcome: Refused, cause: errForgot}
	case n == 0 && kind == raising:
		return answer{voice: silent, outcome: Refused, cause: errGone}
	case n == 1 && kind != pinging:
		return answer{voice: mine, outcome: Granted}
	case n == recordless && kind == renewing:
		return answer{voice: others, outcome: Refused, cause: errForgot}
	case n == 2 && kind == renewing:
		return answer{voice: restored, outcome: Granted}
	case (n == keptForYou || n == handedOver) && kind == releasing:
		return answer{voice: mine, outcome: Granted, handed: n == handedOver}
	case n == 0 && kind == releasing:
		return answer{voice: absent, outcome: Granted}
	}
	return answer{voice: silent, outcome: Unknown, cause: fmt.Errorf("unexpected reply to %s: %d", kind.op, n)}
}

const (
	recordless = 0  // the renew script's answer where there is none, and no key either
	forgotten  = -1 // the acquire script's answer where the record is not whole
	keptForYou = 2  // the release script's where the key is reserved for the ticket
	handedOver = 3  // and where it is for somebody else's
)

var (
	errForgot = errors.New("it lost its memory; it votes again when all leases must have ended that it may have forgotten")
	errGone   = errors.New("the lease, or the node's record, is gone there")
)

// understandHolder reads {holder, milliseconds}, and {…, place in line} of an
// attempt. PTTL answers -1 for a key without a ttl, which this library never
// sets but others may.
func understandHolder(reply []any) (answer, bool) {
	if len(reply) != 2 && len(reply) != 3 {
		return answer{}, false
	}
	holder, ok := reply[0].([]byte)
	numbers := [2]int64{}
	for i, n := range reply[1:] {
		var is bool
		numbers[i], is = n.(int64)
		ok = ok && is
	}
	ms := numbers[0]
	if !ok || ms > int64(forever/time.Millisecond) {
		return answer{}, false
	}
	return answer{voice: others, outcome: Refused, holder: string(holder), remaining: remaining(ms),
		place: int(numbers[1])}, true
}

// remaining is what PTTL answered: -1 for a key without an end, -2 for none.
func remaining(ms int64) time.Duration {
	switch {
	case ms == -1:
		return endless
	case ms < 0:
		return 0
	}
	return time.Duration(min(ms, int64(forever/time.Millisecond))) * time.Millisecond
}
