package operate

import (
	"cmp"
	"context"
	"time"

	"github.com/redlock-go/redlock/internal/admission"
	"github.com/redlock-go/redlock/internal/life"
	"github.com/redlock-go/redlock/internal/node"
	"github.com/redlock-go/redlock/internal/protocol"
)

// Nodes are the nodes of a cluster, and how long their answers are awaited.
type Nodes struct {
	Members []*admission.Member
	Timeout time.Duration
}

// Inspect asks all nodes what stands there for a lock, by its key, and for the permits of the semaphore of this name.
// An answer counts if it is whole.
func (c *Nodes) Inspect(ctx context.Context, key string) []Answer {
	answers := make([]Answer, len(c.Members))
	replies, reasons := c.ask(ctx, func(record any) [][]any {
		return [][]any{protocol.InspectCall("", key, record).Eval(), protocol.SlotsCall("", key, record).Eval()}
	})
	for i, why := range reasons {
		a := &answers[i]
		if a.Err = why; why != nil {
			continue
		}
		lock, slots := replies[i][0], replies[i][1]
		if a.Inspection, a.Err = readLock(lock.Value, lock.Err); a.Err == nil {
			a.Err = addSlots(&a.Inspection, slots.Value, slots.Err)
		}
	}
	return answers
}

// Ask asks all nodes to tell the holder of a lock that others want it. It returns for each node why it has not taken
// the request; nil if it has.
func (c *Nodes) Ask(ctx context.Context, key string) []error {
	replies, reasons := c.ask(ctx, func(any) [][]any { return [][]any{protocol.AskCall{Key: key}.Eval()} })
	for i, why := range reasons {
		if why == nil {
			reasons[i] = node.Advise(replies[i][0].Err)
		}
	}
	return reasons
}

// WakeWaiters wakes, at all nodes, the first waiter of the semaphore of which the lock is a slot: no
// release of permits has made the slot free. It does nothing for the lock of another name. It awaits the
// answers; a waiter that is not woken looks by itself.
func (c *Nodes) WakeWaiters(ctx context.Context, key string) {
	if semaphore, _, is := protocol.SemaphoreOf(key); is {
		c.ask(ctx, func(any) [][]any { return [][]any{protocol.WakeCall{Semaphore: semaphore}.Eval()} })
	}
}

// ask puts questions to all nodes that may vote: calls of EVAL, whose arguments questions returns for a node's record.
// It returns each node's replies, or why they are not all there. ctx, the caller's, ends it before the timeout.
func (c *Nodes) ask(ctx context.Context, questions func(record any) [][]any) (replies [][]node.Reply, reasons []error) {
	bounded, cancel := context.WithTimeout(ctx, c.Timeout)
	defer cancel()
	asked := make([][]node.Question, len(c.Members))
	replies, reasons = make([][]node.Reply, len(asked)), make([]error, len(asked))
	for i, n := range c.Members {
		p, right := n.Pipe(), n.Current()
		if p == nil || right == nil {
			reasons[i] = n.Why() // with its advice
			continue
		}
		for _, args := range questions(right.Record) {
			asked[i] = append(asked[i], n.Ask(p, "EVAL", args...))
		}
	}
	for i := range asked {
		for _, q := range asked[i] {
			r, came := q.Wait(bounded)
			if !came {
				reasons[i] = cmp.Or(life.EndOf(ctx), ErrNoAnswer)
				break
			}
			replies[i] = append(replies[i], r)
		}
	}
	return replies, reasons
}
