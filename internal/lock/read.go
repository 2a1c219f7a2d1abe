package lock

import (
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/gomodule/redigo/redis"

	"github.com/redlock-go/redlock/internal/admission"
	"github.com/redlock-go/redlock/internal/node"
	"github.com/redlock-go/redlock/internal/pipe"
	"github.com/redlock-go/redlock/internal/protocol"
	"github.com/redlock-go/redlock/internal/quorum"
	"github.com/redlock-go/redlock/internal/system"
)

// reader reads the replies to the scripts of all primitives, and to the commands that a client asks.
type reader struct {
	op     string // for errors
	number func(n int64) (quorum.Answer, bool)
	array  func(reply []any) (quorum.Answer, bool) // nil if the script returns none
	text   bool                                    // a text confirms
}

var (
	fenced   = &Readers{Acquire: acquiring, Raise: raising, Renew: renewing, Release: releasing}
	unfenced = &Readers{Acquire: claiming, Raise: raising, Renew: renewing, Release: releasing}

	choosing = &Readers{Acquire: permitting, Raise: raising, Renew: renewing, Release: releasing}

	acquiring  = &reader{op: opLock, number: readGrant, array: readHolder}
	claiming   = &reader{op: opLock, number: readConfirmation, array: readHolder} // without tokens
	permitting = &reader{op: opLock, number: readForgotten, array: readPermits}
	raising    = &reader{op: opLock, number: readRaised}
	renewing   = &reader{op: opExtend, number: readRenewal, array: readHolder}
	releasing  = &reader{op: opUnlock, number: readReleased}
	seizing    = &reader{op: opSeize, number: readSeizedNothing, array: readSeized}
	pinging    = &reader{op: opPing, number: func(int64) (quorum.Answer, bool) { return quorum.Answer{}, false }, text: true}
)

// Read implements quorum.Reader: it reads a script's reply, or the error that came in its place.
func (r *reader) Read(_ *quorum.Vote, reply any, err error) quorum.Answer {
	if err != nil {
		return readError(err)
	}
	switch reply := reply.(type) {
	case int64:
		if a, ok := r.number(reply); ok {
			return a
		}
		return quorum.Answer{Count: quorum.NoAnswer, Outcome: quorum.Unknown, Cause: fmt.Errorf("unexpected reply to %s: %d", r.op, reply)}
	case []any:
		if r.array != nil {
			if a, ok := r.array(reply); ok {
				return a
			}
		}
	case string:
		if r.text {
			return yes
		}
	}
	return quorum.Answer{Count: quorum.NoAnswer, Outcome: quorum.Unknown,
		Cause: fmt.Errorf("unexpected reply to %s: %.80q", r.op, fmt.Sprint(reply))}
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

// What the scripts return.
const (
	recordless = 0  // renew.lua: there is no record, and no key either
	recreated  = 2  // renew.lua: the key was missing, and is created
	wanted     = 10 // renew.lua: others want the lock; it is added to 1 or 2
	forgotten  = -1 // acquire.lua, seize.lua: the record is not whole
	keptForYou = 2  // release.lua: the key is reserved for the ticket
	handedOver = 3  // release.lua: the key is reserved for another ticket
	stillTaken = 4  // release.lua: other shares stand; rest.lua: the lock rests, and others wait
)

// errGone is why a node was not raised.
var errGone = errors.New("the lease, or the node's record, is gone there")

var (
	yes     = quorum.Answer{Count: quorum.Yes, Outcome: quorum.Confirmed}
	forgot  = quorum.Answer{Count: quorum.NoAnswer, Outcome: quorum.Refused, Cause: admission.ErrForgot}
	nothing = quorum.Answer{}
)

// readConfirmation reads a reply that can only be 1.
func readConfirmation(n int64) (quorum.Answer, bool) { return yes, n == 1 }

// readGrant reads acquire.lua's token.
func readGrant(n int64) (quorum.Answer, bool) {
	switch {
	case n >= 1:
		return quorum.Answer{Count: quorum.Yes, Outcome: quorum.Confirmed, Token: n}, true
	case n == forgotten:
		return forgot, true
	}
	return nothing, false
}

// readForgotten reads the only number that permit.lua returns.
func readForgotten(n int64) (quorum.Answer, bool) { return forgot, n == forgotten }

// readPermits reads {token, slot, …}, {holder, milliseconds, the slots' owners}, or what readHolder reads.
func readPermits(reply []any) (quorum.Answer, bool) {
	if len(reply) == 0 {
		return nothing, false
	}
	token, granted := reply[0].(int64)
	if !granted {
		return readFewPermits(reply)
	}
	slots := make([]string, 0, len(reply)-1)
	for _, n := range reply[1:] {
		slot, ok := n.(int64)
		if !ok || slot < 0 || slot >= MaxPermits {
			return nothing, false
		}
		slots = append(slots, strconv.FormatInt(slot, 10))
	}
	return quorum.Answer{Count: quorum.Yes, Outcome: quorum.Confirmed, Token: token, Slots: strings.Join(slots, ",")},
		token >= 1 && len(slots) > 0
}

// readFewPermits reads why permits were refused.
func readFewPermits(reply []any) (quorum.Answer, bool) {
	if len(reply) != 3 {
		return readHolder(reply)
	}
	owners, ok := reply[2].([]byte)
	if ok = ok && len(owners) > 0 && len(owners)%protocol.OwnerName == 0 && len(owners) <= MaxPermits*protocol.OwnerName; !ok {
		return nothing, false
	}
	a, ok := readHolder(reply[:2])
	a.Slots = string(owners)
	return a, ok && a.Holder == protocol.Permits
}

func readRaised(n int64) (quorum.Answer, bool) {
	if n == 0 {
		return quorum.Answer{Count: quorum.NoAnswer, Outcome: quorum.Refused, Cause: errGone}, true
	}
	return yes, n == 1
}

func readRenewal(n int64) (quorum.Answer, bool) {
	switch n {
	case recordless:
		return quorum.Answer{Count: quorum.No, Outcome: quorum.Refused, Cause: admission.ErrForgot}, true
	case recreated, recreated + wanted:
		return quorum.Answer{Count: quorum.Recreated, Outcome: quorum.Confirmed, Wanted: n > wanted}, true
	}
	return quorum.Answer{Count: quorum.Yes, Outcome: quorum.Confirmed, Wanted: n > wanted}, n == 1 || n == 1+wanted
}

func readReleased(n int64) (quorum.Answer, bool) {
	a := yes
	switch n {
	case 0:
		a.Count = quorum.NotFound
	case 1:
	case keptForYou:
		a.Kept = true
	case handedOver:
		a.Handed = true
	case stillTaken:
		a.Taken = true
	default:
		return nothing, false
	}
	return a, true
}

func readSeizedNothing(n int64) (quorum.Answer, bool) {
	if n == forgotten {
		return forgot, true
	}
	return yes, n == 1
}

// readHolder reads {holder, milliseconds}, and {…, position in the queue, other clients ahead,
// 1 if the ticket is new in the queue or 0, plus 2 if those ahead were challenged} of an attempt; of several locks with {…, nearest
// position}. PTTL answers -1 for a key without a ttl, which this library never sets but others
// may.
func readHolder(reply []any) (quorum.Answer, bool) {
	if len(reply) != 2 && len(reply) != 5 && len(reply) != 6 {
		return nothing, false
	}
	value, ok := reply[0].([]byte)
	numbers := [5]int64{}
	for i, n := range reply[1:] {
		var is bool
		numbers[i], is = n.(int64)
		ok = ok && is
	}
	ms := numbers[0]
	if !ok || ms > int64(system.Forever/time.Millisecond) || numbers[3] < 0 || numbers[3] > 3 {
		return nothing, false
	}
	holder, resting := protocol.HolderOf(value)
	return quorum.Answer{Count: quorum.No, Outcome: quorum.Refused, Holder: holder, Resting: resting, Remaining: protocol.Remaining(ms),
		Position: int(numbers[1]), Nearest: int(numbers[4]), Ahead: int(numbers[2]), Joined: numbers[3]&1 == 1,
		Challenged: numbers[3]&2 == 2}, true
}
