package node

import (
	"context"
	"fmt"

	"github.com/redlock-go/redlock/internal/pipe"
)

// Question is a command that was queued, and receives its answer.
type Question chan Reply

// Reply is a server's reply, or what came in its place.
type Reply struct {
	Value any
	Err   error
}

// Receive implements pipe.Receiver.
func (q Question) Receive(value any, err error) { q <- Reply{value, err} }

// Ask sends the server a command over p, and does not wait.
func (n *Node) Ask(p *pipe.Pipe, command string, args ...any) Question {
	q := make(Question, 1)
	n.put(p, q, &pipe.Call{Command: command, Args: args, To: q})
	return q
}

// Look asks the server, over p, to do what a lock needs, and does not wait.
func (n *Node) Look(p *pipe.Pipe) Question {
	q := make(Question, 1)
	call := n.NewLook(q)
	n.put(p, q, &call)
	return q
}

// put queues the call of a question.
func (n *Node) put(p *pipe.Pipe, q Question, c *pipe.Call) {
	flush, _, err := p.Queue(c, n.cfg.Clock(), nil)
	if flush {
		p.Flush()
	}
	if err != nil {
		q <- Reply{nil, err}
	}
}

// told is a command that was sent, and what takes its answer.
type told func(value any, err error)

// Receive implements pipe.Receiver.
func (f told) Receive(value any, err error) { f(value, err) }

// Tell sends the server a command if it is connected, and does not wait. then takes the answer, if one comes; it must not
// block.
func (n *Node) Tell(command string, then func(value any, err error), args ...any) {
	if p := n.queue(command, then, args); p != nil {
		p.Flush()
	}
}

// Publish sends a message by the server if it is connected. A goroutine of its own writes it, since a write that fails
// ends other calls: so the caller may hold their locks.
func (n *Node) Publish(channel, text string) {
	if p := n.queue("PUBLISH", func(any, error) {}, []any{channel, text}); p != nil {
		go p.Flush() // ends with the write, or with the connection
	}
}

// queue queues a command if the server is connected. It returns the connection if the caller must flush it.
func (n *Node) queue(command string, then told, args []any) *pipe.Pipe {
	p := n.Pipe()
	if p == nil {
		return nil
	}
	if flush, _, _ := p.Queue(&pipe.Call{Command: command, Args: args, To: then}, n.cfg.Clock(), nil); !flush {
		return nil
	}
	return p
}

// Wait waits for the answer until ctx ends, and reports whether it came. An answer that
// came before counts also after that.
func (q Question) Wait(ctx context.Context) (r Reply, came bool) {
	select {
	case <-ctx.Done():
	case r = <-q:
		return r, true
	}
	select {
	case r = <-q:
		return r, true
	default:
		return Reply{}, false
	}
}

// Await waits for the answer to a question, until ctx ends.
func (n *Node) Await(ctx context.Context, q Question) (any, error) {
	if r, came := q.Wait(ctx); came {
		return r.Value, r.Err
	}
	return nil, fmt.Errorf("%s: no answer within %v", n.Name, n.cfg.DeadAfter)
}

// Request sends the server a command over p, and waits for the answer.
func (n *Node) Request(p *pipe.Pipe, command string, args ...any) (any, error) {
	return n.AwaitInTime(n.Ask(p, command, args...))
}

// AwaitInTime waits for the answer to a question, for as long as an answer may be overdue.
func (n *Node) AwaitInTime(q Question) (any, error) {
	ctx, stop := context.WithTimeout(context.Background(), n.cfg.DeadAfter)
	defer stop()
	return n.Await(ctx, q)
}
