package lock

import (
	"context"
	"fmt"
	"strconv"
	"time"

	"github.com/gomodule/redigo/redis"

	"github.com/redlock-go/redlock/internal/admission"
	"github.com/redlock-go/redlock/internal/node"
	"github.com/redlock-go/redlock/internal/protocol"
)

// Slot is what stands at a node for a slot of a semaphore.
type Slot struct {
	Number    int
	Value     string        // of its key, as Inspection has it
	Remaining time.Duration // waitqueue.Endless if the key has no end
	Count     int64         // of grants
}

// InspectSlots asks a node what stands there for the semaphore of the lock's name.
// Inspection.AddSlots reads the reply.
func (x *Exclusive) InspectSlots(n *admission.Member) (node.Question, error) {
	p, right := n.Pipe(), n.Current()
	if p == nil || right == nil {
		return nil, n.Why()
	}
	queue, _, base := protocol.SlotKeys("", x.key[0])
	return n.Ask(p, "EVAL", protocol.InspectSlots.Text, 2, queue, right.Record, base, MaxPermits, protocol.StripeArg(base+"0")), nil
}

// AddSlots adds what the reply of inspectslots.lua shows. It returns the error that came in its
// place.
func (i *Inspection) AddSlots(reply any, err error) error {
	parts, err := redis.Values(reply, node.Advise(err))
	if err != nil {
		return err
	}
	var queue, slots []string
	if _, err := redis.Scan(parts, &queue, &slots); err != nil {
		return fmt.Errorf("unexpected reply to inspectslots: %w", err)
	}
	for ; len(queue) >= 2; queue = queue[2:] {
		i.Queue = append(i.Queue, Ticket{queue[0], queue[1]})
	}
	for ; len(slots) >= 4; slots = slots[4:] {
		number, err := strconv.Atoi(slots[0])
		left, errLeft := strconv.ParseInt(slots[2], 10, 64)
		if err != nil || errLeft != nil || number < 0 || number >= MaxPermits {
			return fmt.Errorf("unexpected reply to inspectslots: slot %.20q, %.20q ms", slots[0], slots[2])
		}
		s := Slot{Number: number, Value: foundHolder(slots[1], left), Remaining: remaining(left)}
		s.Count, _ = strconv.ParseInt(slots[3], 10, 64)
		i.Slots = append(i.Slots, s)
	}
	return nil
}

// WakeWaiters wakes, at all nodes, the first waiter of the semaphore of which the lock is a slot: no
// release of permits has made the slot free. It does nothing for the lock of another name. It awaits the
// answers, until ctx ends; a waiter that is not woken looks by itself.
func (x *Exclusive) WakeWaiters(ctx context.Context) {
	semaphore, _, is := protocol.SemaphoreOf(x.key[0])
	if !is {
		return
	}
	queue, turn, base := protocol.SlotKeys("", semaphore)
	var asked []node.Question
	for _, n := range x.engine.Cluster.Nodes {
		if p := n.Pipe(); p != nil {
			asked = append(asked, n.Ask(p, "EVAL", protocol.Wake.Text, 2, queue, turn, base, MaxPermits))
		}
	}
	for _, q := range asked {
		q.Wait(ctx)
	}
}
