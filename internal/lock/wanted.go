package lock

import (
	"github.com/redlock-go/redlock/internal/admission"
	"github.com/redlock-go/redlock/internal/lease"
	"github.com/redlock-go/redlock/internal/node"
	"github.com/redlock-go/redlock/internal/protocol"
)

// A holder may want to be told that others want the lock. Its owner at the nodes says so, and names its client:
// a node that makes a waiter wait publishes a message on the channel over which it wakes that client. Renewals
// learn the same (awaited.lua). Nothing is forced.

// alert is an attempt's owner and, with Terms.Wanted, the signal by which its holder learns that others want the
// lock. A message may come before the votes have made a lease of the attempt.
type alert struct {
	owner  string        // "" before the first attempt
	signal *lease.Signal // nil if the owner is not to be told
}

// newAlert makes the owner of an attempt. It is told until forget, or until the lease of that owner is released.
func newAlert(l *Lock) alert {
	if !l.terms.Wanted {
		return alert{owner: l.newOwner()}
	}
	owner := protocol.WantedOwner(l.terms.Random.ID("attempt"), l.engine.Wall(), l.engine.ID, l.terms.Label)
	a := alert{owner, lease.NewSignal()}
	l.engine.Queue().Holders.Expect(a.owner, a.signal.Tell)
	return a
}

// forget ends what newAlert began, for an owner that has got no lease.
func (a alert) forget(e *Engine) {
	if a.signal != nil {
		e.Queue().Holders.Forget(a.owner)
	}
}

// newOwner makes the owner of the call's next attempt.
func (c *call) newOwner() string {
	c.forget(c.engine)
	c.alert = newAlert(c.Lock)
	return c.alert.owner
}

// Ask asks a node to tell the lock's holder that somebody wants it.
func (x *Exclusive) Ask(n *admission.Member) (node.Question, error) {
	p, right := n.Pipe(), n.Current()
	if p == nil || right == nil {
		return nil, n.Why()
	}
	return n.Ask(p, "EVAL", protocol.AskCall{Key: x.key[0]}.Eval()...), nil
}
