package node

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/redlock-go/redlock/internal/pipe"
	"github.com/redlock-go/redlock/internal/protocol"
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
	(&connector{node: n}).run(ctx, first)
}

// connector makes the node's connections, one after the other. It runs in the goroutine of
// Node.Run.
type connector struct {
	node   *Node
	server identity // of the last handshake
}

func (c *connector) run(ctx context.Context, first chan<- bool) {
	n := c.node
	report := sync.OnceFunc(func() { first <- n.link.pipe.Load() != nil })
	defer report()
	pause := firstPause
	for ctx.Err() == nil {
		p, err := c.connect(ctx, report)
		if err == nil {
			n.Counters.Connects.Add(1)
			began := n.cfg.Clock()
			err = (&session{n, p}).attend(ctx, c.server.runID, report)
			if n.cfg.Clock()-began > maxPause {
				pause = firstPause
			}
		}
		if ctx.Err() != nil {
			err = n.cfg.end(ctx)
		}
		c.setDown(err)
		report() // after setDown: callers that await the first attempt ask why it failed
		if ctx.Err() == nil {
			n.Status.Report(Standing{State: Down, Cause: err})
		}
		select {
		case <-ctx.Done():
		case <-time.After(pause/2 + n.cfg.Random.Below(pause/2, n.Name)):
		}
		pause = min(2*pause, maxPause)
	}
}

// connect dials, shakes hands and starts the pipe. It calls late when dialling takes longer
// than DeadAfter, and goes on.
func (c *connector) connect(ctx context.Context, late func()) (*pipe.Pipe, error) {
	n := c.node
	conn, err := dial(ctx, n.pool, n.cfg.DeadAfter, func() {
		err := fmt.Errorf("cannot connect: no connection within %v", n.cfg.DeadAfter)
		c.setDown(err)
		n.Status.Report(Standing{State: Down, Cause: err})
		late()
	})
	switch {
	case err != nil && n.cfg.Misconfigured != nil && errors.Is(err, n.cfg.Misconfigured):
		return nil, n.Status.Unfit(err.Error())
	case err != nil:
		return nil, fmt.Errorf("cannot connect: %w", n.doubt(err))
	}
	families := n.scripts.families()
	id, err := handshake{n, conn, families}.shakeHands(ctx)
	if err != nil {
		_ = conn.Close()
		return nil, err
	}
	p := pipe.New(conn)
	prelude := n.old.killCalls(c.server, id, n.Counters.Connects.Load() > 0)
	c.server = id
	n.setGet.Store(id.major >= 7)
	if err := c.use(p, families, prelude...); err != nil {
		p.Kill(err)
		<-p.Done()
		return nil, fmt.Errorf("disconnected: %w", err)
	}
	return p, nil
}

// use makes p the node's connection, over which the scripts of these families were loaded. The undos, and the scripts
// of locks that were made meanwhile, are queued ahead of every attempt.
func (c *connector) use(p *pipe.Pipe, loaded protocol.Families, prelude ...*pipe.Call) error {
	n := c.node
	n.link.mu.Lock()
	defer n.link.mu.Unlock()
	for _, call := range prelude {
		flush, _, err := p.Queue(call, n.cfg.Clock(), nil)
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
	flush, err := n.scripts.queue(p, n.cfg.Clock, n.scripts.families()&^loaded, false)
	if flush {
		go p.Flush()
	}
	if err != nil {
		return err
	}
	n.scripts.loading.Store(false)
	n.link.pipe.Store(p)
	n.link.down = nil
	return nil
}

// setDown records that the node has no connection, and why. That ends its right to vote.
func (c *connector) setDown(err error) {
	c.node.link.setDown(err)
	c.node.admitter.Disconnected()
}
