package lock

import (
	"errors"
	"fmt"

	"github.com/gomodule/redigo/redis"

	"github.com/redlock-go/redlock/internal/admission"
	"github.com/redlock-go/redlock/internal/node"
	"github.com/redlock-go/redlock/internal/pipe"
	"github.com/redlock-go/redlock/internal/protocol"
	"github.com/redlock-go/redlock/internal/quorum"
)

// reader reads the replies to one kind of call.
type reader struct {
	op   string // for errors
	read func(reply any) (protocol.Reply, bool)
}

var (
	acquiring    = &reader{opLock, protocol.ReadGrant}
	permitting   = &reader{opLock, protocol.ReadPermits}
	raising      = &reader{opLock, protocol.ReadRaise}
	renewing     = &reader{opExtend, protocol.ReadRenewal}
	releasing    = &reader{opUnlock, protocol.ReadRelease}
	seizing      = &reader{opSeize, protocol.ReadSeizure}
	transferring = &reader{opTransfer, protocol.ReadTransfer}
	resuming     = &reader{opResume, protocol.ReadResumption}
	pinging      = &reader{opPing, protocol.ReadLook}
)

// Read implements quorum.Reader: it reads a reply, or the error that came in its place.
func (r *reader) Read(_ *quorum.Vote, reply any, err error) quorum.Answer {
	if err != nil {
		return readError(err)
	}
	got, ok := r.read(reply)
	if !ok {
		return quorum.Answer{Count: quorum.NoAnswer, Outcome: quorum.Unknown,
			Cause: fmt.Errorf("unexpected reply to %s: %.80q", r.op, fmt.Sprint(reply))}
	}
	a := meanings[got.Kind]
	a.Holder, a.Remaining, a.Resting, a.Token, a.Slots = got.Holder, got.Remaining, got.Resting, got.Token, got.Slots
	a.Place, a.Kind, a.Wanted = got.Place, got.Kind, got.Wanted
	return a
}

// Why a node that has answered does not do what was asked.
var (
	errGone    = errors.New("the lease, or the node's record, is gone there")
	errKeyGone = errors.New("the lease's key is gone there: it has ended, or was taken away")
)

var (
	yes    = quorum.Answer{Count: quorum.Yes, Outcome: quorum.Confirmed}
	forgot = quorum.Answer{Count: quorum.NoAnswer, Outcome: quorum.Refused, Cause: admission.ErrForgot}
)

// meanings are what replies mean for a ballot, by their kinds: each kind must have a row. If a quorum answers a release
// with NotFound, the lease was lost before.
var meanings = [...]quorum.Answer{
	protocol.Done:      yes,
	protocol.Recreated: {Count: quorum.Recreated, Outcome: quorum.Confirmed},
	protocol.Refused:   {Count: quorum.No, Outcome: quorum.Refused},
	protocol.Forgot:    forgot,
	protocol.Unproven:  {Count: quorum.No, Outcome: quorum.Refused, Cause: admission.ErrForgot},
	protocol.Stranger:  {Count: quorum.No, Outcome: quorum.Refused, Cause: admission.ErrOtherList},
	protocol.Moved:     {Count: quorum.NoAnswer, Outcome: quorum.Refused, Cause: admission.ErrOtherList},
	protocol.Gone:      {Count: quorum.NoAnswer, Outcome: quorum.Refused, Cause: errGone},
	protocol.KeyGone:   {Count: quorum.No, Outcome: quorum.Refused, Cause: errKeyGone},
	protocol.NotFound:  {Count: quorum.NotFound, Outcome: quorum.Confirmed},
	protocol.Kept:      yes,
	protocol.HandedOff: yes,
	protocol.StillHeld: yes,
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
