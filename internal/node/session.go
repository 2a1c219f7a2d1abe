package node

import (
	"context"
	"fmt"
	"time"

	"github.com/redlock-go/redlock/internal/pipe"
	"github.com/redlock-go/redlock/internal/system"
)

// session is one connection of the node, from its handshake to its end.
type session struct {
	node *Node
	pipe *pipe.Pipe
}

// attend checks the admission of this run of the server until the connection ends, and
// returns why it ended. It calls ready after the first check.
func (s *session) attend(ctx context.Context, run string, ready func()) error {
	n, p := s.node, s.pipe
	stop := context.AfterFunc(ctx, func() { p.Kill(n.cfg.end(ctx)) })
	defer stop()
	watching := make(chan struct{})
	go func() { // in a goroutine of its own: a check waits for answers, also for those of other nodes
		defer close(watching)
		s.watch()
	}()
	n.admitter.Connected(p, run)
	s.discardRecheck() // one for the connection before needs no check of its own
	check := time.NewTimer(n.admitter.Check(ctx))
	defer check.Stop()
	ready()
	for {
		select {
		case <-check.C:
		case <-n.admitter.Recheck():
		case <-p.Done():
		}
		if p.Err() != nil || ctx.Err() != nil { // also if a check is due: it could ask nothing
			<-watching
			return fmt.Errorf("disconnected: %w", p.Err())
		}
		s.discardRecheck() // one check is enough, if the timer was due as well
		check.Reset(n.admitter.Check(ctx))
	}
}

// discardRecheck empties the admitter's channel, since a check follows.
func (s *session) discardRecheck() {
	select {
	case <-s.node.admitter.Recheck():
	default:
	}
}

// watch ends a connection when an answer is long overdue; it returns when the connection
// has ended.
func (s *session) watch() {
	n, p := s.node, s.pipe
	ticker := time.NewTicker(system.Jitter(n.cfg.Random, n.cfg.DeadAfter/4, n.Name))
	defer ticker.Stop()
	lastTick := n.cfg.Clock()
	for {
		select {
		case <-p.Done():
			return
		case <-ticker.C:
			now := n.cfg.Clock()
			late := now-lastTick > n.cfg.DeadAfter/2
			lastTick = now
			// After a pause of this process the answers may still be in the socket: the
			// reader goes first.
			if silence := p.Silence(now); silence > n.cfg.DeadAfter && !late {
				p.Kill(fmt.Errorf("no answer for %v", silence.Round(time.Millisecond)))
			}
			n.undos.retry(p)
		}
	}
}
