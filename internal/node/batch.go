package node

import (
	"context"

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
	commands []Command
	replies  []Reply       // by the goroutine that delivers them, until done is closed
	done     chan struct{} // closed when all have come
}

// Receive implements pipe.Receiver.
func (b *Batch) Receive(value any, err error) {
	b.replies = append(b.replies, Reply{value, err})
	if len(b.replies) == len(b.commands) {
		close(b.done)
	}
}

// Send implements pipe.Series.
func (b *Batch) Send(to pipe.Sender) error {
	for _, c := range b.commands {
		if err := to.Send(c.Name, c.Args...); err != nil {
			return err
		}
	}
	return nil
}

// Size implements pipe.Series.
func (b *Batch) Size() (bytes int) {
	for _, c := range b.commands {
		bytes += pipe.Size(c.Name, c.Args)
	}
	return bytes
}

// AskAll sends the server commands over p, of which there must be one at least, and does not
// wait.
func (n *Node) AskAll(p *pipe.Pipe, commands []Command) *Batch {
	b := &Batch{commands: commands, replies: make([]Reply, 0, len(commands)), done: make(chan struct{})}
	flush, _, err := p.Queue(&pipe.Call{To: b, Series: int16(len(commands))}, n.cfg.Clock(), nil)
	if flush {
		p.Flush()
	}
	if err != nil {
		for range commands {
			b.Receive(nil, err)
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
func (b *Batch) IsAnswered() bool {
	select {
	case <-b.done:
		return true
	default:
		return false
	}
}

// Len returns the number of commands.
func (b *Batch) Len() int { return len(b.commands) }

// Reply returns the answer to the i-th command. All answers must have come.
func (b *Batch) Reply(i int) Reply { return b.replies[i] }
