// Package redlock locks a name over several independent Redis masters, after
// the Redlock algorithm (https://redis.io/docs/latest/develop/clients/patterns/distributed-locks/).
//
// A lock is held when a majority of the masters granted it and enough of its
// time-to-live is left. Any minority of the masters may be down, frozen, cut off
// or restarted, and locks go on working:
//
//	client, err := redlock.Open([]string{
//		"redis://10.0.0.1:6379", "redis://10.0.1.1:6379", "redis://10.0.2.1:6379",
//	})
//	...
//	lease, err := client.Mutex("invoice-42").Lock(ctx)
//	...
//	defer lease.Unlock(ctx)
//
// The verdict of a ballot falls as soon as it is certain, and what a failed
// attempt left at any node, even at one that answers much later, is undone.
package redlock

import (
	"context"
	"fmt"
	"io"
	"reflect"
	"strings"
	"sync"
	"time"

	"github.com/redlock-go/redlock/internal/admission"
	"github.com/redlock-go/redlock/internal/endpoint"
	"github.com/redlock-go/redlock/internal/node"
	"github.com/redlock-go/redlock/internal/notify"
	"github.com/redlock-go/redlock/internal/protocol"
	"github.com/redlock-go/redlock/internal/quorum"
)

// Client locks names over a fixed list of nodes. It is safe for concurrent use;
// a process needs one for each list. It ends with Close.
type Client struct {
	opts    options
	nodes   []*admission.Member
	cluster quorum.Cluster // its quorum is N/2+1 of the configured nodes, never of the reachable ones
	keeper  *keeper
	owned   []io.Closer // pools that Open made

	closing chan struct{}   // closed when Close begins
	settled chan struct{}   // closed when the first attempts to connect are over
	life    context.Context // ends with the client's goroutines
	end     context.CancelFunc
	line    *line
	counts  counters
	running sync.WaitGroup // the nodes' goroutines, the keeper's and the event queue's

	// Close closes closing under mu. enter looks at it, and adds to calls, under mu as
	// well: so nothing is added to calls while Close awaits them. Nobody holds mu for
	// longer than that.
	mu      sync.RWMutex
	calls   sync.WaitGroup // calls that ask the nodes
	waiting sync.WaitGroup // calls of Lock that queue; only a call counted in calls adds to it
	closed  sync.Once
}

// New makes a client over pools, one for each master; their order matters only
// in messages. It connects in the background and returns at once; the first
// call of a lock awaits the first connections. Pools stay the caller's: Close
// does not close them.
//
// It returns ErrConfig when there are no pools or more than 64, one is nil, or
// an option is bad.
func New(pools []Pool, opts ...Option) (*Client, error) {
	settings, err := defaultOptions().with(opts)
	if err != nil {
		return nil, err
	}
	if err := checkPools(pools); err != nil {
		return nil, err
	}
	return start(pools, settings), nil
}

// Open makes a client over the masters at urls, and the pools for them:
// redis://[user:password@]host[:port][/db], rediss:// for the same with TLS,
// valkey:// and valkeys:// with the meanings of these two, or
// unix://[user:password@]/path/to/socket[?db=n]. It connects in the background
// and returns at once.
//
// It returns ErrConfig, in addition to New's reasons, when a URL is bad, names
// several servers, or leads where another one does. The error repeats no part of a bad
// URL, since that may be a password.
func Open(urls []string, opts ...Option) (*Client, error) {
	settings, err := defaultOptions().with(opts)
	if err != nil {
		return nil, err
	}
	pools := make([]Pool, len(urls))
	owned := make([]io.Closer, len(urls))
	known := make(map[string]int)
	for i, raw := range urls {
		e, err := endpoint.Parse(raw)
		if err != nil {
			return nil, configError("URL %d of %d: %v", i+1, len(urls), err)
		}
		if other, twice := known[e.Address]; twice {
			return nil, configError("URL %d and URL %d both lead to %s: every node must be a server of its own", other+1, i+1, e.Address)
		}
		known[e.Address] = i
		p := newURLPool(e)
		pools[i], owned[i] = p, p
	}
	if err := checkPools(pools); err != nil {
		return nil, err
	}
	c := start(pools, settings)
	c.owned = owned
	return c, nil
}

func checkPools(pools []Pool) error {
	if len(pools) == 0 {
		return configError("no pools: at least one master is needed, and three to tolerate the loss of one")
	}
	if len(pools) > maxNodes {
		return configError("%d pools: at most %d are possible", len(pools), maxNodes)
	}
	for i, p := range pools {
		if isNil(p) {
			return configError("pool %d of %d is nil", i+1, len(pools))
		}
	}
	return nil
}

func start(pools []Pool, settings options) *Client {
	ctx, end := context.WithCancel(context.Background())
	c := &Client{
		opts:    settings,
		cluster: quorum.Cluster{Need: len(pools)/2 + 1, Clock: settings.clock},
		closing: make(chan struct{}),
		settled: make(chan struct{}),
		life:    ctx,
		end:     end,
	}
	c.line = newLine(c, len(pools))
	c.opts.events = notify.NewQueue(settings.logger.With("client", c.line.id), settings.trace != nil)
	c.opts.tracer = newTracer(settings.trace, c.opts.events)
	c.keeper = newKeeper(settings.clock)
	group := c.newGroup(pools)
	first := make(chan bool, len(pools))
	for _, n := range c.nodes {
		c.running.Go(func() { n.Run(ctx, first) })
	}
	c.running.Go(func() { c.keeper.run(ctx) })
	c.running.Go(func() { c.opts.events.Run(ctx) })
	c.running.Go(func() { c.settle(ctx, group, first) })
	return c
}

// newGroup makes the client's nodes, one for each pool. Nothing runs yet.
func (c *Client) newGroup(pools []Pool) *admission.Group {
	o := &c.opts
	cfg := &node.Config{Clock: o.clock, Random: o.random, Events: o.events, Identities: node.NewIdentities(),
		Closed: ErrClosed, DeadAfter: c.patience()}
	if o.tracer != nil {
		cfg.Observer = o.tracer
	}
	group := admission.NewGroup(admission.Terms{Guard: o.guard, Off: o.noGuard, TTL: o.ttl, MaxTTL: maxTTL,
		Nodes: len(pools), Quorum: c.cluster.Need}, cfg)
	for i, p := range pools {
		name := fmt.Sprintf("node %d", i)
		if s, ok := p.(fmt.Stringer); ok {
			name += " (" + s.String() + ")"
		}
		group.Add(node.New(i, name, p, cfg))
	}
	c.nodes, c.cluster.Nodes = group.Members, group.Members
	return group
}

// settle ends the time in which locks await connections: when every node has
// succeeded or failed once, or a node timeout after a quorum has succeeded. A
// frozen node among them costs the first caller that long, and nobody later. Then the
// quarantines that were found so far are logged together.
func (c *Client) settle(ctx context.Context, group *admission.Group, first <-chan bool) {
	defer close(c.settled)
	defer group.Settle()
	timeout := c.opts.voteTimeout()
	deadline := time.NewTimer(max(4*timeout, time.Second))
	defer deadline.Stop()
	connected := 0
	for range c.nodes {
		select {
		case ok := <-first:
			if ok {
				connected++
			}
			if ok && connected == c.cluster.Need {
				deadline.Reset(timeout)
			}
		case <-deadline.C:
			return
		case <-ctx.Done():
			return
		}
	}
}

// enter admits a call to the nodes: not after Close has begun, and not before the
// first connections. After a nil error the caller must call leave.
func (c *Client) enter(ctx context.Context) error {
	select {
	case <-c.settled:
	default:
		select {
		case <-c.settled:
		case <-c.closing:
			return ErrClosed
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
	c.mu.RLock()
	defer c.mu.RUnlock()
	select {
	case <-c.closing:
		return ErrClosed
	default:
		c.calls.Add(1)
		return nil
	}
}

// leave ends a call that enter admitted.
func (c *Client) leave() { c.calls.Done() }

// Ping tells whether a quorum of the nodes answers and may vote. If not, the
// error is a *QuorumError with each node's reason. It takes at most one node
// timeout, after the first connections.
func (c *Client) Ping(ctx context.Context) error {
	if err := c.enter(ctx); err != nil {
		return fmt.Errorf("redlock: ping: %w", err)
	}
	defer c.leave()
	m := &Mutex{client: c, opts: &c.opts} // no lock: its ballot only asks who answers
	b := m.newBallot(pinging, "", nil, c.opts.clock())
	for i := range b.Votes {
		v := &b.Votes[i]
		v.Right, v.Skip = v.Node.Right(0)
	}
	b.trace.setCall(ctx)
	b.Send(0, true)
	v, err := b.Await(ctx, c.opts.voteTimeout(), nil)
	switch {
	case err != nil:
		return fmt.Errorf("redlock: ping: %w", err)
	case v != quorum.Granted:
		return b.quorumError()
	}
	return nil
}

// Mutex names a lock. opts override the client's for this Mutex; bad ones are
// reported by its Lock and TryLock. It does not touch the nodes.
func (c *Client) Mutex(name string, opts ...Option) *Mutex {
	m := &Mutex{client: c, name: name, opts: &c.opts}
	if len(opts) > 0 {
		settings := c.opts
		settings.ofMutex = true
		settings, m.err = settings.with(opts)
		m.opts = &settings
	}
	if name == "" && m.err == nil {
		m.err = configError("the lock's name is empty")
	}
	if limit := c.patience(); m.opts.voteTimeout() > limit && m.err == nil {
		m.err = configError("the node timeout (%v) is longer than the client awaits any answer (%v): give WithNodeTimeout to New or Open",
			m.opts.voteTimeout(), limit)
	}
	if strings.HasPrefix(m.opts.prefix+name, protocol.Reserved) && m.err == nil {
		m.err = configError("the lock's key %q begins with %q, which is reserved", m.opts.prefix+name, protocol.Reserved)
	}
	m.key = m.opts.prefix + name
	m.keyArg = m.key
	m.keyArgs, m.lineArgs = []any{m.keyArg}, []any{protocol.Key("line", m.key)}
	m.ttlArg = m.opts.ttl.Milliseconds()
	m.stripe = protocol.StripeOf(m.key)
	m.least = m.opts.leastArg()
	return m
}

// patience is how long the client awaits an answer before it ends a connection.
func (c *Client) patience() time.Duration { return max(4*c.opts.voteTimeout(), time.Second) }

// isNil tells a nil pool, also one that is a nil pointer of some type.
func isNil(p Pool) bool {
	v := reflect.ValueOf(p)
	return !v.IsValid() || v.Kind() == reflect.Pointer && v.IsNil()
}
