package redlock

import (
	"context"
	"errors"
	"strconv"

	"github.com/redlock-go/redlock/internal/protocol"
	"github.com/redlock-go/redlock/internal/quorum"
)

// Fencing tokens: for one lock name, every lease has a greater token than every
// lease before it, without a consensus store. Each admitted node counts its
// grants. The greatest count T of a quorum becomes the token once a quorum is
// known to stand at T or above: any later lease is granted by one of those
// nodes, which counts on from there. docs/safety.md has the proof.

// leastCount is the least count by which a node shows that its record is whole.
func (o *options) leastCount() int64 {
	if o.noGuard {
		return 1
	}
	return protocol.FirstCount
}

// leastArg is the same as the scripts take it.
func (o *options) leastArg() any {
	if o.noGuard {
		return "1"
	}
	return firstCountArg
}

var firstCountArg any = strconv.FormatInt(protocol.FirstCount, 10)

var errNotAsked = errors.New("it had no part in the grant")

// tokenOf settles the token of a ballot that was granted. Where the quorum
// agrees, which is nearly always, that takes no further round trip; else the
// nodes are lifted to the greatest count, as long as the lease stands there. The
// ballot that did not reach a quorum is returned as the failure.
func (m *Mutex) tokenOf(ctx context.Context, b *ballot) (token int64, failure *ballot, err error) {
	if !m.opts.fencing {
		return 0, nil, nil
	}
	token, agreed := b.Greatest()
	if agreed >= m.client.cluster.Need {
		return token, nil, nil
	}
	lift := m.newBallot(raising, b.Owner, nil, m.opts.clock())
	lifted := strconv.FormatInt(token, 10)
	for i := range lift.Votes {
		v, grant := &lift.Votes[i], &b.Votes[i]
		v.Skip = errNotAsked
		if right := grant.Right; right != nil {
			v.Skip, v.Right = nil, right
			v.Call.Args = []any{protocol.Raise.SHA, "2", m.keyArg, right.Record, b.Owner, m.stripe, lifted, m.least}
		}
	}
	lift.trace.setCall(ctx)
	lift.Send(0, true)
	v, err := lift.Await(ctx, m.opts.voteTimeout(), nil)
	if v != quorum.Granted {
		return 0, lift, err
	}
	return token, nil, nil
}
