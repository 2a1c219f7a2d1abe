package testnet

import (
	"context"
	"math/rand/v2"
	"strings"
	"sync"

	"github.com/gomodule/redigo/redis"
	"github.com/stretchr/testify/require"

	"github.com/redlock-go/redlock"
)

// LoseCalls drops a share of what the nodes send on the connections for calls.
func (w *Net) LoseCalls(share float64) {
	for _, n := range w.Nodes {
		n.Set(func(n *Node) {
			n.Lose = func(data []byte) bool {
				return strings.Contains(string(data), "$7\r\nmessage") && rand.Float64() < share
			}
		})
	}
}

// Cuttable is a pool of one client, which can be cut off alone.
type Cuttable struct {
	*Node
	Mu    sync.Mutex // protects what follows
	Links []*link
	Cut   bool
}

func (p *Cuttable) GetContext(ctx context.Context) (redis.Conn, error) {
	p.Mu.Lock()
	defer p.Mu.Unlock()
	conn, err := p.Node.GetContext(ctx)
	if err == nil {
		p.Node.Set(func(n *Node) {
			l := n.Links[len(n.Links)-1]
			l.Held = p.Cut
			p.Links = append(p.Links, l)
		})
	}
	return conn, err
}

// Hold cuts the client off from the node, or connects it again. What was sent meanwhile on connections
// that are still open arrives then.
func (p *Cuttable) Hold(cut bool) {
	p.Mu.Lock()
	defer p.Mu.Unlock()
	p.Cut = cut
	p.Node.Set(func(*Node) {
		for _, l := range p.Links {
			l.Held = cut
		}
	})
}

// Hold cuts clients off at these of their pools, as if their processes had died, or connects them
// again. A test that has cut a client off must connect it before it ends.
func Hold(pools []*Cuttable, cut bool) {
	for _, p := range pools {
		p.Hold(cut)
	}
}

// CuttableClient makes a client that can be cut off alone. Nodes need no admission unless an option says so.
func (w *Net) CuttableClient(opts ...redlock.ClientOption) (*redlock.Client, []*Cuttable) {
	w.T.Helper()
	c, mine := w.CuttableClientOf(w.Nodes, opts...)
	require.NoError(w.T, c.Ping(w.T.Context()))
	return c, mine
}

// CuttableClientOf makes such a client of some of the nodes, and does not await its connections.
func (w *Net) CuttableClientOf(nodes Nodes, opts ...redlock.ClientOption) (*redlock.Client, []*Cuttable) {
	w.T.Helper()
	mine := make([]*Cuttable, len(nodes))
	pools := make([]redlock.Pool, len(nodes))
	for i, n := range nodes {
		mine[i] = &Cuttable{Node: n}
		pools[i] = mine[i]
	}
	c, err := redlock.New(pools, append([]redlock.ClientOption{redlock.WithLogger(nil), redlock.WithRestartGuard(0), WithClock(w.Clock.Now)}, opts...)...)
	require.NoError(w.T, err)
	w.Add(c)
	return c, mine
}

// Kill ends a client at these of its pools as the kernel does for a process that is killed: the nodes see the end of its
// connections. A test that has killed a client must call Hold before it ends, so that the client can be closed.
func Kill(pools []*Cuttable) {
	for _, p := range pools {
		p.Mu.Lock()
		p.Cut = true
		p.Node.Set(func(*Node) {
			for _, l := range p.Links {
				l.Cut = true
				_ = l.Near.Close()
			}
		})
		p.Mu.Unlock()
	}
}

// BreakLast breaks the connection that was made last.
func (p *Cuttable) BreakLast() {
	p.Mu.Lock()
	defer p.Mu.Unlock()
	l := p.Links[len(p.Links)-1]
	p.Node.Set(func(*Node) {
		l.Cut = true
		_ = l.Near.Close()
	})
}
