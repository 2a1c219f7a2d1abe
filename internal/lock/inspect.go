package lock

import (
	"fmt"
	"strconv"
	"time"

	"github.com/gomodule/redigo/redis"

	"github.com/redlock-go/redlock/internal/admission"
	"github.com/redlock-go/redlock/internal/node"
	"github.com/redlock-go/redlock/internal/protocol"
)

// Inspection is what stands at a node for a lock.
type Inspection struct {
	Holder    string        // the key's value; "" without a key, and EmptyHolder for an empty value
	Remaining time.Duration // waitqueue.Endless if the key has no end
	Count     int64         // of grants
	Queue     []Ticket      // in turn
}

// Ticket is a waiter's place in a node's queue.
type Ticket struct{ Ticket, Label string }

// Inspect asks a node what stands there for the lock. ReadInspection reads the reply.
func (x *Exclusive) Inspect(n *admission.Member) (node.Question, error) {
	p, right := n.Pipe(), n.Current()
	if p == nil || right == nil {
		return nil, n.Why()
	}
	return n.Ask(p, "EVAL", protocol.Inspect.Text, 2, x.keyArg, right.Record, x.stripe), nil
}

// ReadInspection reads the reply of inspect.lua, or the error that came in its place.
func ReadInspection(reply any, err error) (Inspection, error) {
	parts, err := redis.Values(reply, node.Advise(err))
	if err != nil {
		return Inspection{}, err
	}
	var value, count string
	var ms int64
	var queue []string
	if _, err := redis.Scan(parts, &value, &ms, &count, &queue); err != nil {
		return Inspection{}, fmt.Errorf("unexpected reply to inspect: %w", err)
	}
	found := Inspection{Holder: foundHolder(value, ms), Remaining: remaining(ms)}
	found.Count, _ = strconv.ParseInt(count, 10, 64)
	for i := 0; i+1 < len(queue); i += 2 {
		found.Queue = append(found.Queue, Ticket{queue[i], queue[i+1]})
	}
	return found, nil
}
