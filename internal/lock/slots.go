package lock

import (
	"context"

	"github.com/redlock-go/redlock/internal/admission"
	"github.com/redlock-go/redlock/internal/node"
	"github.com/redlock-go/redlock/internal/protocol"
)

// InspectSlots asks a node what stands there for the semaphore of the lock's name. ReadSlots reads the reply.
func (x *Exclusive) InspectSlots(n *admission.Member) (node.Question, error) {
	p, right := n.Pipe(), n.Current()
	if p == nil || right == nil {
		return nil, n.Why()
	}
	return n.Ask(p, "EVAL", protocol.SlotsCall("", x.key[0], right.Record).Eval()...), nil
}

// SlotInspections returns the commands that ask a node, by its record, what stands there for the semaphores of several
// names. They must be sent in this order, as those of Inspections. ReadSlots reads the replies.
func SlotInspections(prefix string, names []string, record any) []node.Command {
	return eachName(names, func(name string) protocol.Call { return protocol.SlotsCall(prefix, name, record) })
}

// ReadSlots reads the answer to InspectSlots, or the error that came in its place. A user of mutexes alone may have
// no right to look at semaphores: to it there are none.
func ReadSlots(reply any, err error) (found protocol.Inspection, _ error) {
	err = AddSlots(&found, reply, err)
	return found, err
}

// AddSlots is ReadSlots for what was found before.
func AddSlots(to *protocol.Inspection, reply any, err error) error {
	if node.IsCode(err, "NOPERM") {
		return nil
	}
	return to.AddSlots(reply, node.Advise(err))
}

// WakeWaiters wakes, at all nodes, the first waiter of the semaphore of which the lock is a slot: no
// release of permits has made the slot free. It does nothing for the lock of another name. It awaits the
// answers, until ctx ends; a waiter that is not woken looks by itself.
func (x *Exclusive) WakeWaiters(ctx context.Context) {
	semaphore, _, is := protocol.SemaphoreOf(x.key[0])
	if !is {
		return
	}
	var asked []node.Question
	for _, n := range x.engine.Cluster.Nodes {
		if p := n.Pipe(); p != nil {
			asked = append(asked, n.Ask(p, "EVAL", protocol.WakeCall{Semaphore: semaphore}.Eval()...))
		}
	}
	for _, q := range asked {
		q.Wait(ctx)
	}
}
