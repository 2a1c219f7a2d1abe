package lock

import (
	"context"
	"errors"

	"github.com/redlock-go/redlock/internal/quorum"
)

// Fencing tokens: for one lock name, every lease that holds the lock alone has a greater token
// than every lease before it, without a consensus store. Each admitted node counts its grants.
// The greatest count T of a quorum becomes the token once a quorum is known to stand at T or
// above: any later lease is granted by one of those nodes, which counts on from there. For a
// share a node's count is read and not raised, so its token is T or above as well, but may be
// T. docs/safety.md has the proof.

// errNotAsked is why a node that did not grant is not raised.
var errNotAsked = errors.New("it had no part in the grant")

// tokenOf settles the token of a ballot that was granted. Where the quorum agrees, which is
// nearly always, that takes no further round trip; else the nodes are raised to the greatest
// count, as long as the lease stands there. It returns the ballot that did not reach a quorum
// as failed.
func (l *Lock) tokenOf(ctx context.Context, granted *quorum.Ballot) (token int64, failed *quorum.Ballot, err error) {
	if !l.terms.Fencing {
		return 0, nil, nil
	}
	token, agreed := granted.Greatest()
	if agreed >= l.engine.Cluster.Need {
		return token, nil, nil
	}
	raise := new(quorum.Ballot)
	l.begin(raise, opLock, granted.Owner, l.engine.Clock(), quorum.Confirm, l.primitive.Readers().Raise)
	raise.Recorder = l.engine.Observer.Recorder(ctx, opRaise, l.Name, granted.Owner, nil)
	raise.SetCommand("EVALSHA", nil)
	for i := range raise.Votes {
		v := &raise.Votes[i]
		v.Skip = errNotAsked
		if right := granted.Votes[i].Right; right != nil {
			v.Skip, v.Right = nil, right
			l.primitive.PrepareRaise(v, granted.Owner, token)
		}
	}
	raise.Send(0, true)
	v, err := raise.Await(ctx, l.timeout(), nil)
	if v != quorum.Granted {
		return 0, raise, err
	}
	return token, nil, nil
}
