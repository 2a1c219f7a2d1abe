package redlock

import (
	"errors"
	"fmt"
	"time"

	"github.com/gomodule/redigo/redis"

	"github.com/redlock-go/redlock/internal/admission"
	"github.com/redlock-go/redlock/internal/node"
	"github.com/redlock-go/redlock/internal/pipe"
	"github.com/redlock-go/redlock/internal/quorum"
	"github.com/redlock-go/redlock/internal/system"
)

// endless is the remaining time of a key without a ttl.
const endless time.Duration = -1

// Read implements quorum.Reader: it reads a script's reply, or the error that came in its
// place.
func (k *ballotKind) Read(_ *quorum.Vote, reply any, err error) quorum.Answer {
	if err != nil {
		return readError(err)
	}
	switch reply := reply.(type) {
	case int64:
		return k.readNumber(reply)
	case []any:
		if k == seizing && len(reply) == 3 {
			return readSeized(reply)
		}
		if a, ok := readHolder(reply); ok && (k == acquiring || k == claiming || k == renewing || k == seizing) {
			return a
		}
	case string:
		if k == pinging {
			return quorum.Answer{Count: quorum.Yes, Outcome: quorum.Confirmed}
		}
	}
	return quorum.Answer{Count: quorum.NoAnswer, Outcome: quorum.Unknown, Cause: fmt.Errorf("unexpected reply to %s: %.80q", k.op, fmt.Sprint(reply))}
}

// readError reads what came in the place of a reply.
func readError(err error) quorum.Answer {
	a := quorum.Answer{Count: quorum.NoAnswer, Outcome: quorum.Unknown, Cause: err}
	var refusal redis.Error
	switch {
	case node.IsCode(err, "NOSCRIPT"), errors.Is(err, pipe.ErrNotSent):
		a.Outcome = quorum.NotSent
	case errors.As(err, &refusal):
		a.Outcome, a.Cause = quorum.Refused, node.Advise(err)
	}
	return a
}

// readNumber reads the numbers that the scripts return.
func (k *ballotKind) readNumber(n int64) quorum.Answer {
	switch {
	case n >= 1 && k == acquiring:
		return quorum.Answer{Count: quorum.Yes, Outcome: quorum.Confirmed, Token: n}
	case n == forgotten && (k == acquiring || k == seizing):
		return quorum.Answer{Count: quorum.NoAnswer, Outcome: quorum.Refused, Cause: admission.ErrForgot}
	case n == 0 && k == raising:
		return quorum.Answer{Count: quorum.NoAnswer, Outcome: quorum.Refused, Cause: errGone}
	case n == 1 && k != pinging:
		return quorum.Answer{Count: quorum.Yes, Outcome: quorum.Confirmed}
	case n == recordless && k == renewing:
		return quorum.Answer{Count: quorum.No, Outcome: quorum.Refused, Cause: admission.ErrForgot}
	case n == 2 && k == renewing:
		return quorum.Answer{Count: quorum.Recreated, Outcome: quorum.Confirmed}
	case (n == keptForYou || n == handedOver) && k == releasing:
		return quorum.Answer{Count: quorum.Yes, Outcome: quorum.Confirmed, Handed: n == handedOver, Kept: n == keptForYou}
	case n == 0 && k == releasing:
		return quorum.Answer{Count: quorum.NotFound, Outcome: quorum.Confirmed}
	}
	return quorum.Answer{Count: quorum.NoAnswer, Outcome: quorum.Unknown, Cause: fmt.Errorf("unexpected reply to %s: %d", k.op, n)}
}

const (
	recordless = 0  // the renew script's answer where there is no record, and no key either
	forgotten  = -1 // the acquire script's answer where the record is not whole
	keptForYou = 2  // the release script's where the key is reserved for the ticket
	handedOver = 3  // and where it is for another ticket
)

var errGone = errors.New("the lease, or the node's record, is gone there")

// emptyHolder is the holder that is reported of a key with an empty value. No client of
// this library writes one, but others can, and they hold the lock.
const emptyHolder = "(an empty value)"

// holderOf returns the holder that a key's value names.
func holderOf(value []byte) string {
	if len(value) == 0 {
		return emptyHolder
	}
	return string(value)
}

// readHolder reads {holder, milliseconds}, and {…, position in the queue, other clients
// ahead, 1 if the ticket is new in the queue or 0} of an attempt. PTTL answers -1 for a
// key without a ttl, which this library never sets but others may.
func readHolder(reply []any) (quorum.Answer, bool) {
	if len(reply) != 2 && len(reply) != 5 {
		return quorum.Answer{}, false
	}
	holder, ok := reply[0].([]byte)
	numbers := [4]int64{}
	for i, n := range reply[1:] {
		var is bool
		numbers[i], is = n.(int64)
		ok = ok && is
	}
	ms := numbers[0]
	if !ok || ms > int64(system.Forever/time.Millisecond) || numbers[3] < 0 || numbers[3] > 1 {
		return quorum.Answer{}, false
	}
	return quorum.Answer{Count: quorum.No, Outcome: quorum.Refused, Holder: holderOf(holder), Remaining: remaining(ms),
		Position: int(numbers[1]), Ahead: int(numbers[2]), Joined: numbers[3] == 1}, true
}

// remaining returns what PTTL answered: -1 for a key without an end, -2 for none.
func remaining(ms int64) time.Duration {
	switch {
	case ms == -1:
		return endless
	case ms < 0:
		return 0
	}
	return time.Duration(min(ms, int64(system.Forever/time.Millisecond))) * time.Millisecond
}
