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
	Readers   []Share       // those that hold the lock for longest
	Time      time.Duration // the server's clock, since 1970
	Slots     []Slot        // of the semaphore of this name, those that have a key
}

// Share is a reader that holds the lock at a node.
type Share struct {
	Owner     string
	Remaining time.Duration
}

// Ticket is a waiter's place in a node's queue.
type Ticket struct{ Ticket, Label string }

// Inspect asks a node what stands there for the lock. ReadInspection reads the reply.
func (x *Exclusive) Inspect(n *admission.Member) (node.Question, error) {
	p, right := n.Pipe(), n.Current()
	if p == nil || right == nil {
		return nil, n.Why()
	}
	return n.Ask(p, "EVAL", protocol.Inspect.Text, 4, x.keyArg, right.Record, x.queueArgs[0], x.readersArg, x.stripe), nil
}

// Inspections returns the commands that ask a node, by its record, what stands there for each of
// several names. They must be sent in this order: the first one has the script's text, and the
// others its hash.
func Inspections(prefix string, names []string, record any) []node.Command {
	all := make([]node.Command, len(names))
	for i, name := range names {
		queue, readers, key := protocol.KeysBeside(prefix, name)
		command, script := "EVALSHA", protocol.Inspect.SHA
		if i == 0 {
			command, script = "EVAL", protocol.Inspect.Text
		}
		all[i] = node.Command{Name: command, Args: []any{script, 4, key, record, queue, readers, protocol.StripeArg(key)}}
	}
	return all
}

// ReadInspection reads the reply of inspect.lua, or the error that came in its place.
func ReadInspection(reply any, err error) (Inspection, error) {
	parts, err := redis.Values(reply, node.Advise(err))
	if err != nil {
		return Inspection{}, err
	}
	var value, count string
	var ms, now int64
	var queue, shares []string
	if _, err := redis.Scan(parts, &value, &ms, &count, &queue, &shares, &now); err != nil {
		return Inspection{}, fmt.Errorf("unexpected reply to inspect: %w", err)
	}
	found := Inspection{Holder: foundHolder(value, ms), Remaining: remaining(ms), Time: remaining(now)}
	for i := 0; i+1 < len(shares); i += 2 {
		left, _ := strconv.ParseInt(shares[i+1], 10, 64)
		found.Readers = append(found.Readers, Share{shares[i], remaining(left)})
	}
	found.Count, _ = strconv.ParseInt(count, 10, 64)
	for i := 0; i+1 < len(queue); i += 2 {
		found.Queue = append(found.Queue, Ticket{queue[i], queue[i+1]})
	}
	return found, nil
}
