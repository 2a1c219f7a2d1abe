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
	"reflect"
	"sync"
	"time"

	"github.com/redlock-go/redlock/internal/admission"
	"github.com/redlock-go/redlock/internal/endpoint"
	"github.com/redlock-go/redlock/internal/lease"
	"github.com/redlock-go/redlock/internal/life"
	"github.com/redlock-go/redlock/internal/limiter"
	"github.com/redlock-go/redlock/internal/lock"
	"github.com/redlock-go/redlock/internal/node"
	"github.com/redlock-go/redlock/internal/notify"
	"github.com/redlock-go/redlock/internal/quorum"
)

// Client locks names over a fixed list of nodes. It is safe for concurrent use;
// a process needs one for each list. It ends with Close.
type Client struct {
	opts    options
	life    *life.Life
	cluster quorum.Cluster
	group   *admission.Group
	renewer *lease.Renewer
	locks   *lock.Engine
	events  *notify.Queue
	observe *observer
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
// unix://[user:password@]/path/to/socket[?db=n]. With TLS, a URL may end with
// ?ca=file&cert=file&key=file&servername=name: the certificate authorities to trust instead of the system's,
// this client's certificate and key, all in PEM, and the name in the server's certificate. The
// files are read now, and again at each connection. It connects in the background and returns at once.
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
		if err := e.Check(); err != nil {
			return nil, configError("URL %d of %d: %v", i+1, len(urls), err)
		}
		pools[i] = &dialPool{connector: e.Connector(), name: e.Address}
	}
	if err := checkPools(pools); err != nil {
		return nil, err
	}
	return start(pools, settings), nil
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
		if p, ok := p.(*dialPool); ok && p.err != nil {
			return fmt.Errorf("%w (pool %d of %d)", p.err, i+1, len(pools))
		}
	}
	return nil
}

// start makes a client and its goroutines.
func start(pools []Pool, settings options) *Client {
	c := newClient(len(pools), settings)
	c.group = c.newGroup(pools)
	first := make(chan bool, len(pools))
	for _, n := range c.cluster.Nodes {
		c.life.Go(func() { n.Run(c.life.Context(), first) })
	}
	c.life.Go(func() { c.renewer.Run(c.life.Context()) })
	c.life.Go(func() { c.events.Run(c.life.Context()) })
	c.life.Go(func() { c.settle(c.life.Context(), first) })
	return c
}

// newClient makes a client that has no nodes yet. Nothing runs.
func newClient(nodes int, settings options) *Client {
	id := settings.random.ID("client")[:16] // names the client in logs, in tickets and at the nodes
	c := &Client{opts: settings, life: life.New(),
		cluster: quorum.Cluster{Need: majority(nodes), Clock: settings.clock}}
	c.events = notify.NewQueue(settings.logger.With("client", id), settings.trace != nil)
	c.observe = newObserver(settings.trace, c.events, settings.clock)
	c.renewer = lease.NewRenewer(&lease.Config{Clock: settings.clock, Events: c.events,
		Observer: c.observe, LostError: lostError})
	c.locks = &lock.Engine{ID: id, Clock: settings.clock, Random: settings.random, NodeTimeout: settings.voteTimeout(),
		Life: c.life, Cluster: &c.cluster, Renewer: c.renewer, Observer: c.observe, Attempts: limiter.New(settings.clock, c.life)}
	return c
}

// newGroup makes the client's nodes, one for each pool. Nothing runs yet.
func (c *Client) newGroup(pools []Pool) *admission.Group {
	o := &c.opts
	cfg := &node.Config{Clock: o.clock, Random: o.random, Events: c.events, Identities: node.NewIdentities(),
		Majority: node.NewMajority(len(pools), c.cluster.Need, o.clock, c.events), Closed: ErrClosed, Misconfigured: ErrConfig, DeadAfter: c.deadAfter()}
	if c.observe.hooks != nil {
		cfg.Observer = c.observe
	}
	group := admission.NewGroup(admission.Terms{Guard: o.guard, Off: o.noGuard, TTL: o.keyTTL(), MaxTTL: maxTTL,
		Nodes: len(pools), Quorum: c.cluster.Need}, cfg)
	for i, p := range pools {
		name := fmt.Sprintf("node %d", i)
		if s, ok := p.(fmt.Stringer); ok && s.String() != "" {
			name += " (" + s.String() + ")"
		}
		group.Add(node.New(i, name, p, cfg))
	}
	c.cluster.Nodes = group.Members
	return group
}

// settle ends the time in which locks await connections: when every node has
// succeeded or failed once, or a node timeout after a quorum has succeeded. A
// frozen node among them costs the first caller that long, and nobody later. Then the
// quarantines that were found so far are logged together.
func (c *Client) settle(ctx context.Context, first <-chan bool) {
	defer c.life.Settle()
	defer c.group.Settle()
	timeout := c.opts.voteTimeout()
	limit := max(4*timeout, time.Second)
	deadline := time.NewTimer(limit)
	defer deadline.Stop()
	connected := 0
	for range c.cluster.Nodes {
		select {
		case ok := <-first:
			if ok {
				connected++
			}
			if ok && connected == c.cluster.Need {
				limit = timeout
				deadline.Reset(limit)
			}
		case <-deadline.C:
			for _, n := range c.cluster.Nodes {
				n.NoteSilence(limit)
			}
			return
		case <-ctx.Done():
			return
		}
	}
}

// Ping reports whether a quorum of the nodes answers and may vote. If not, the
// error is a *QuorumError with each node's reason. It takes at most one node
// timeout, after the first connections.
func (c *Client) Ping(ctx context.Context) error {
	switch f := c.locks.Ping(ctx); {
	case f == nil:
		return nil
	case f.Cause != nil:
		return fmt.Errorf("redlock: ping: %w", f.Cause)
	default:
		return quorumError("", f.Refusal.Votes)
	}
}

// Close ends the client: calls that wait return ErrClosed, new ones fail with it, and
// leases that are held end with it, and their contexts; they are no longer renewed. All
// of them are released, however many they are.
//
// Close waits until the nodes have executed the releases. Mostly that takes one round
// trip. A connection carries some five hundred releases in a round trip, so with many
// leases Close takes as long as the slowest node that makes progress, but no longer than
// the longest ttl of the leases. Close gives up a node that answers nothing for a node
// timeout, so nodes that are frozen or die meanwhile cost about one node timeout in all;
// a node that is down costs none. Keys that such a node has not deleted end there with
// their ttl. Close also waits for a ForceUnlock that is under way, and for a node
// timeout at most until masters are admitted whose quarantine is over.
//
// A lease under which a Do is running is released when its fn returns, so that no other
// caller gets the lock before, or ends with its validity; its connections live until
// then. Close also releases a lease that was dropped without Unlock, if the garbage
// collector has not come first. Further calls do nothing.
func (c *Client) Close() error {
	c.closed.Do(func() {
		began := c.opts.clock()
		c.life.Close() // attempts that were under way are granted or rolled back now, and waiters have left the queue
		var idle, working []*lease.Lease
		ttl := c.opts.keyTTL()
		for _, l := range c.renewer.Close() {
			ttl = max(ttl, l.TTL())
			if l.Shut() {
				working = append(working, l)
			} else {
				idle = append(idle, l)
			}
		}
		d := c.locks.NewDrain(ttl)
		d.Release(idle)
		d.Finish()
		c.group.AwaitAdmissions(c.life.Context(), began+c.opts.voteTimeout()-c.opts.clock())
		if len(working) == 0 {
			c.life.End()
			return
		}
		go func() { // ends with the last Do, or its lease's validity
			for _, l := range working {
				l.AwaitEnd()
			}
			c.locks.NewDrain(ttl).Finish()
			c.life.End()
		}()
	})
	return nil
}

// deadAfter is how long the client awaits an answer before it ends a connection.
func (c *Client) deadAfter() time.Duration { return max(4*c.opts.voteTimeout(), time.Second) }

// isNil reports whether a pool is nil, also one that is a nil pointer of some type.
func isNil(p Pool) bool {
	v := reflect.ValueOf(p)
	return !v.IsValid() || v.Kind() == reflect.Pointer && v.IsNil()
}
