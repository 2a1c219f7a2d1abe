package node

import (
	"context"
	"sync/atomic"

	"github.com/redlock-go/redlock/internal/pipe"
)

// Command is a command's name and arguments.
type Command struct {
	Name string
	Args []any
}

// Batch is several commands that were queued one immediately after the other, and receives
// their answers.
type Batch struct {
	parts []part
	left  atomic.Int64  // answers that have not come
	done  chan struct{} // closed when all have come
}

// part receives the answer to one command of a batch.
type part struct {
	batch *Batch
	reply Reply // set before left is decremented
}

// Receive implements pipe.Receiver.
func (p *part) Receive(value any, err error) {
	p.reply = Reply{value, err}
	if p.batch.left.Add(-1) == 0 {
		close(p.batch.done)
	}
}

// AskAll sends the server commands over p, of which there must be one at least, and does not
// wait.
func (n *Node) AskAll(p *pipe.Pipe, commands []Command) *Batch {
	b := &Batch{parts: make([]part, len(commands)), done: make(chan struct{})}
	b.left.Store(int64(len(commands)))
	calls := make([]pipe.Call, len(commands))
	for i, c := range commands {
		b.parts[i].batch = b
		calls[i] = pipe.Call{Command: c.Name, Args: c.Args, To: &b.parts[i]}
		if i > 0 {
			calls[i-1].Then = &calls[i]
		}
	}
	flush, _, err := p.Queue(&calls[0], n.cfg.Clock(), nil)
	if flush {
		p.Flush()
	}
	if err != nil {
		for i := range b.parts {
			b.parts[i].Receive(nil, err)
		}
	}
	return b
}

// Wait waits for all answers until ctx ends, and reports whether they came. Answers that came
// before count also after that.
func (b *Batch) Wait(ctx context.Context) (came bool) {
	select {
	case <-ctx.Done():
		return b.IsAnswered()
	case <-b.done:
		return true
	}
}

// IsAnswered reports whether all answers have come.
func (b *Batch) IsAnswered() bool { return b.left.Load() == 0 }

// Len returns the number of commands.
func (b *Batch) Len() int { return len(b.parts) }

// Reply returns the answer to the i-th command. All answers must have come.
func (b *Batch) Reply(i int) Reply { return b.parts[i].reply }
