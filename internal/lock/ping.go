package lock

import (
	"context"

	"github.com/redlock-go/redlock/internal/quorum"
)

// Ping asks all nodes that may vote to do what a lock needs. It returns nil if a quorum did; else the failure says how
// each node voted, or has the cause that ended the call.
func (e *Engine) Ping(ctx context.Context) *Failure {
	if err := e.Life.Enter(ctx); err != nil {
		return &Failure{Cause: err}
	}
	defer e.Life.Leave()
	f := e.ping(ctx)
	if f != nil && f.Refusal != nil && f.Refusal.Votes.LackedScripts() {
		return e.ping(ctx) // they are loaded ahead of it
	}
	return f
}

func (e *Engine) ping(ctx context.Context) *Failure {
	b := new(quorum.Ballot)
	e.Cluster.Begin(b, quorum.Question{Op: opPing, Start: e.Clock(), Timeout: e.NodeTimeout, Rule: quorum.Survey, Reader: pinging,
		Recorder: e.Observer.Recorder(ctx, opPing, "", "", nil)})
	for i := range b.Votes {
		v := &b.Votes[i]
		v.Call = v.Node.NewLook(v)
		v.Right, v.Skip = v.Node.Right(0)
	}
	b.Send(0, true)
	switch v, err := b.Await(ctx, e.NodeTimeout, nil); {
	case err != nil:
		return &Failure{Cause: err}
	case v != quorum.Granted:
		return &Failure{Refusal: &Refusal{Votes: quorum.FailureOf(b)}}
	}
	return nil
}
