package lock

import (
	"context"
	"errors"
	"time"

	"github.com/redlock-go/redlock/internal/admission"
)

// errOldConnections is why a node does not vote for a lease that is to last longer than its lock's ttl.
var errOldConnections = errors.New("it has not closed this client's old connections, so a renewal that was sent there may yet end the lease's key " +
	"too early; grant the user INFO, CLIENT ID and CLIENT KILL")

// rightToExtend returns a node's right to vote for a lease that is to last for ttl, longer than its
// lock's leases, or why there is none.
func rightToExtend(n *admission.Member, ttl time.Duration) (*admission.VoteRight, error) {
	right, err := n.Right(ttl)
	if err == nil && n.HasOldConnections() {
		return nil, errOldConnections
	}
	return right, err
}

// AwaitRecord has a ttl put on record at the nodes. It returns when a quorum has it, when no more nodes are about
// to get it, after a node timeout of the terms t, or when ctx or the client ends.
func (e *Engine) AwaitRecord(ctx context.Context, t *Terms, ttl time.Duration) {
	for began, try := e.Clock(), 0; e.Clock()-began < t.Lease.NodeTimeout; try++ {
		able, registering := 0, 0
		for _, n := range e.Cluster.Nodes() {
			switch _, err := n.Right(ttl); {
			case err == nil:
				able++
			case errors.Is(err, admission.ErrRegistering):
				registering++
			}
		}
		if able >= e.Cluster.Need() || registering == 0 {
			return
		}
		if e.Life.Pause(ctx, new(Refusal).backoff(t.Random, "registering", min(try, 4), 0)) != nil {
			return
		}
	}
}
