package node

import (
	"context"
	"fmt"
	"sync"
	"time"

	"github.com/redlock-go/redlock/internal/pipe"
	"github.com/redlock-go/redlock/internal/system"
)

// Between two dials the pause grows from firstPause to maxPause, with jitter. maxPause is
// short, so that a node is back soon after its recovery.
const (
	firstPause = 20 * time.Millisecond
	maxPause   = 500 * time.Millisecond
)

// Run keeps the node connected until ctx ends. It sends to first, once, whether the first
// attempt to connect succeeded.
func (n *Node) Run(ctx context.Context, first chan<- bool) {
	report := sync.OnceFunc(func() { first <- n.link.pipe.Load() != nil })
	defer report()
	pause := firstPause
	for ctx.Err() == nil {
		p, err := n.connect(ctx, report)
		if err == nil {
			n.Counters.Connects.Add(1)
			began := n.cfg.Clock()
			err = n.attend(ctx, p, report)
			if n.cfg.Clock()-began > maxPause {
				pause = firstPause
			}
		}
		n.setDown(err)
		report() // callers that waited for the first attempt find why it failed
		if ctx.Err() == nil {
			n.Status.ReportDown(err)
		}
		select {
		case <-ctx.Done():
		case <-time.After(pause/2 + n.cfg.Random.Below(pause/2, n.Name)):
		}
		pause = min(2*pause, maxPause)
	}
}

// attend sees to the node's admission over a connection until it ends. It returns why it
// ended.
func (n *Node) attend(ctx context.Context, p *pipe.Pipe, ready func()) error {
	stop := context.AfterFunc(ctx, func() { p.Kill(n.cfg.Closed) })
	defer stop()
	watching := make(chan struct{})
	go func() { // not here: a check waits for answers, also for those of other nodes
		defer close(watching)
		n.watch(p)
	}()
	n.admitter.Connected(p, n.server.last.runID)
	n.recheckIsDone() // what the connection before raised needs no check of its own
	check := time.NewTimer(n.admitter.Check(ctx))
	defer check.Stop()
	ready()
	for {
		select {
		case <-check.C:
		case <-n.admitter.Recheck():
		case <-p.Done():
			<-watching
			return fmt.Errorf("disconnected: %w", p.Err())
		}
		n.recheckIsDone() // one check is enough, if the timer was due as well
		check.Reset(n.admitter.Check(ctx))
	}
}

// recheckIsDone empties the admitter's channel, since a check follows.
func (n *Node) recheckIsDone() {
	select {
	case <-n.admitter.Recheck():
	default:
	}
}

// watch ends a connection when an answer is long overdue; it returns when the connection
// has ended.
func (n *Node) watch(p *pipe.Pipe) {
	ticker := time.NewTicker(system.Jitter(n.cfg.Random, n.cfg.DeadAfter/4, n.Name))
	defer ticker.Stop()
	looked := n.cfg.Clock()
	for {
		select {
		case <-p.Done():
			return
		case <-ticker.C:
			now := n.cfg.Clock()
			late := now-looked > n.cfg.DeadAfter/2
			looked = now
			// After a pause of this very process the answers are still in the socket: the
			// reader goes first.
			if s := p.Silence(now); s > n.cfg.DeadAfter && !late {
				p.Kill(fmt.Errorf("no answer for %v", s.Round(time.Millisecond)))
			}
			n.undos.retry(p)
		}
	}
}

// use makes p the node's connection. The undos are queued ahead of every attempt.
func (n *Node) use(p *pipe.Pipe, prelude ...*pipe.Call) error {
	n.link.mu.Lock()
	defer n.link.mu.Unlock()
	for _, c := range prelude {
		flush, _, err := p.Queue(c, n.cfg.Clock(), nil)
		if flush {
			go p.Flush()
		}
		if err != nil {
			return err
		}
	}
	if err := n.undos.sendAll(p); err != nil {
		return err
	}
	n.server.loading.Store(false)
	n.link.pipe.Store(p)
	n.link.down = nil
	return nil
}

// setDown records that the node has no connection, and why.
func (n *Node) setDown(err error) {
	n.link.setDown(err)
	n.admitter.Disconnected()
}
