// Package redlock locks names over several independent Redis masters, after the Redlock algorithm
// (https://redis.io/docs/latest/develop/clients/patterns/distributed-locks/).
//
// A lock is held when a majority of the masters granted it and enough of its time-to-live is left.
// Any minority of the masters may be down, frozen, cut off or restarted, and locks go on working:
//
//	client, err := redlock.Open([]string{
//		"redis://10.0.0.1:6379", "redis://10.0.1.1:6379", "redis://10.0.2.1:6379",
//	})
//	...
//	err = client.Mutex("invoice-42").Do(ctx, func(ctx context.Context, lease *redlock.Lease) error {
//		return pay(ctx, lease.Token())
//	})
//
// # A tour
//
// [Open], or [New] with the pools of another Redis package, makes a [Client]: one for each process.
// [Client.Mutex], [Client.RWMutex], [Client.Multi] and [Client.Semaphore] name a lock, and ask no master.
// Their Do, Lock and TryLock return when they have a [Lease], or an error: [ErrHeld] if another caller
// has the lock, [ErrNoQuorum] if too few masters voted, [ErrConfig] if the call can never succeed.
//
// A Lease renews itself. [Lease.Done] closes, and the context of Do ends, before another caller can hold
// the lock; [LostError] says why. [Lease.Token] grows with each lease: the resource refuses an older one.
//
// [Mutex.Lead] elects a leader, and [Mutex.Observe] follows it. [Client.WaitReady] awaits the masters at
// a start. [WithTrace] and [Client.Stats] show what happens. Package redlocktest has masters for tests.
package redlock

import (
	"context"
	"errors"
	"fmt"
	"reflect"
	"slices"
	"sync/atomic"
	"time"

	"github.com/redlock-go/redlock/internal/admission"
	"github.com/redlock-go/redlock/internal/endpoint"
	"github.com/redlock-go/redlock/internal/lease"
	"github.com/redlock-go/redlock/internal/life"
	"github.com/redlock-go/redlock/internal/limiter"
	"github.com/redlock-go/redlock/internal/lock"
	"github.com/redlock-go/redlock/internal/node"
	"github.com/redlock-go/redlock/internal/notify"
	"github.com/redlock-go/redlock/internal/protocol"
	"github.com/redlock-go/redlock/internal/quorum"
)

// Client locks names over the masters of one list. It is safe for concurrent use, until Close.
type Client struct {
	opts    options
	life    *life.Life
	cluster quorum.Cluster
	group   *admission.Group
	votes   *node.Majority // whether so many nodes vote
	renewer *lease.Renewer
	locks   *lock.Engine
	events  *notify.Queue
	observe *observer
	closing atomic.Bool   // Close has been called
	closed  chan struct{} // closed when Close has released the leases

	endEvents func() // ends the delivery of events, and waits for it
	forget    func() // takes the client out of openClients
}

// New returns a client over pools, one for each master. It connects in the background. Close does
// not close the pools. It returns ErrConfig for no pools, more than 64, a nil pool or a bad option.
func New(pools []Pool, opts ...ClientOption) (*Client, error) {
	settings, err := optionsWith(defaultOptions(), opts)
	if err != nil {
		return nil, err
	}
	if err := checkPools(pools); err != nil {
		return nil, err
	}
	return start(pools, settings), nil
}

// Open returns a client over the masters at urls: redis://[user:password@]host[:port][/db],
// rediss:// for TLS, valkey:// and valkeys:// likewise, or
// unix://[user:password@]/path/to/socket[?db=n]. With TLS, a URL may end with
// ?ca=file&cert=file&key=file&servername=name. Instead of a password, each may have
// passwordfile=file there, read at each connection.
//
// It returns ErrConfig as New, and for a bad URL, of which the error repeats no part, or one given twice.
func Open(urls []string, opts ...ClientOption) (*Client, error) {
	settings, err := optionsWith(defaultOptions(), opts)
	if err != nil {
		return nil, err
	}
	pools := make([]Pool, len(urls))
	known := make(map[string]int)
	var first endpoint.Endpoint
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
		if i == 0 {
			first = e
		}
	}
	if err := checkPools(pools); err != nil {
		return nil, err
	}
	if settings.members == nil {
		settings.members = func(list []string, master string) (Pool, error) { return openLike(first, known, list, master) }
	}
	return start(pools, settings), nil
}

// openLike returns a pool of a master of a list, with the user, the TLS and the database of another one's URL. known are the
// addresses so far: a list without any of them has addresses of another kind. It is never called twice at once.
func openLike(other endpoint.Endpoint, known map[string]int, list []string, master string) (Pool, error) {
	if !slices.ContainsFunc(list, func(name string) bool { _, named := known[name]; return named }) {
		return nil, errors.New("the list has other addresses than this client's URLs: use WithMembers")
	}
	known[master] = len(known) // the next list may have this one, and none of the URLs
	other.Address = master
	return &dialPool{connector: other.Connector(), name: master}, nil
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
	c := newClient(settings)
	c.group = c.newGroup(pools)
	first := make(chan bool, len(pools))
	for _, n := range c.cluster.Nodes() {
		c.life.Go(func() { n.Run(c.life.Context(), first) })
	}
	c.life.Go(func() { c.renewer.Run(c.life.Context()) })
	c.endEvents = c.deliverEvents()
	c.forget = openClients.add(pools, c.events)
	c.life.Go(func() { c.settle(c.life.Context(), first) })
	return c
}

// deliverEvents starts the goroutine that calls the logger and the hooks. end has it deliver what was sent, and waits
// for a node timeout at most: a hook may call Close, or block. The goroutine ends when they return.
func (c *Client) deliverEvents() (end func()) {
	ctx, cancel := context.WithCancel(context.Background())
	delivered := make(chan struct{})
	go func() {
		defer close(delivered)
		c.events.Run(ctx)
	}()
	return func() {
		cancel()
		limit := time.NewTimer(c.opts.voteTimeout())
		defer limit.Stop()
		select {
		case <-delivered:
		case <-limit.C:
		}
	}
}

// newClient makes a client that has no nodes yet. Nothing runs.
func newClient(settings options) *Client {
	id := settings.random.ID("client").String()[:16] // names the client in logs, in tickets and at the nodes
	c := &Client{opts: settings, life: life.New(), closed: make(chan struct{}),
		cluster: quorum.Cluster{Clock: settings.clock}}
	c.events = notify.NewQueue(settings.logger.With("client", id), settings.trace != nil)
	c.observe = newObserver(settings.trace, c.events, settings.clock)
	c.renewer = lease.NewRenewer(&lease.Config{Clock: settings.clock, Events: c.events,
		Observer: c.observe, LostError: lostError})
	c.locks = &lock.Engine{ID: id, Clock: settings.clock, Wall: settings.wall, Random: settings.random, NodeTimeout: settings.voteTimeout(),
		Life: c.life, Cluster: &c.cluster, Renewer: c.renewer, Observer: c.observe,
		Attempts: limiter.New(settings.clock, c.life, c.cluster.IsUnfit)}
	return c
}

// newGroup makes the client's nodes, one for each pool. Nothing runs yet.
func (c *Client) newGroup(pools []Pool) *admission.Group {
	o, need := &c.opts, protocol.Majority(len(pools))
	cfg := &node.Config{Clock: o.clock, Wall: o.wall, Random: o.random, Events: c.events, Identities: node.NewIdentities(),
		Majority: node.NewMajority(need, o.clock, c.events), Closed: ErrClosed, Misconfigured: ErrConfig, DeadAfter: c.deadAfter()}
	c.votes = cfg.Majority
	if c.observe.hooks != nil {
		cfg.Observer = c.observe
	}
	group := admission.NewGroup(admission.Terms{Client: c.locks.ID, Guard: o.guard, Off: o.noGuard, TTL: o.keyTTL(), MaxTTL: maxTTL, ReadsOnly: o.readsOnly,
		Nodes: len(pools), Quorum: need, Life: c.life.Context(), Open: c.openMaster, Changed: c.observe.changed, Moved: c.moved}, cfg)
	c.cluster.Roster = &group.Roster
	masters := make(map[string]bool)
	for i, p := range pools {
		name, master := fmt.Sprintf("node %d", i), ""
		if s, ok := p.(fmt.Stringer); ok && s.String() != "" {
			address := endpoint.WithoutUser(s.String())
			name += " (" + address + ")"
			master = protocol.MasterName(address)
		}
		if master == "" || masters[master] {
			master = fmt.Sprintf("#%d", i)
		}
		masters[master] = true
		group.Add(node.New(i, name, p, cfg), master)
	}
	return group
}

// openMaster returns a pool of a master of the list that the client was not given.
func (c *Client) openMaster(list []string, master string) (node.Pool, error) {
	if c.opts.members == nil {
		return nil, errors.New("the client was made by New without WithMembers")
	}
	return c.opts.members(list, master)
}

// moved comes when the client has taken another list of masters. joined are nodes that its settings do not name.
func (c *Client) moved(joined []*admission.Member) {
	for _, m := range joined {
		c.locks.Join(m)
		c.life.Go(func() { m.Run(m.Life(), make(chan bool, 1)) })
	}
	c.locks.Moved()
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
	for range c.cluster.Nodes() {
		select {
		case ok := <-first:
			if ok {
				connected++
			}
			if ok && connected == c.cluster.Need() {
				limit = timeout
				deadline.Reset(limit)
			}
		case <-deadline.C:
			for _, n := range c.cluster.Nodes() {
				n.NoteSilence(limit)
			}
			return
		case <-ctx.Done():
			return
		}
	}
}

// Ping returns nil if a quorum of the nodes may vote and does what locks need; else a *QuorumError. It
// takes at most one node timeout, after the first connections.
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

// WaitReady returns nil as soon as Ping does.
//
// Errors: ctx's Err and cause, joined with the last *QuorumError; ErrNoQuorum after 0.1 s if waiting
// cannot help; ErrClosed.
func (c *Client) WaitReady(ctx context.Context) error {
	var last error
	for {
		ready := c.votes.Awaited() // before the question: a majority that votes meanwhile is noticed
		f := c.locks.Ping(ctx)
		switch {
		case f == nil:
			return nil
		case f.Cause != nil:
			return &waitError{op: "wait", cause: f.Cause, last: last}
		}
		last = quorumError("", f.Refusal.Votes)
		if f.Refusal.Votes.IsHopeless() {
			_ = c.life.Pause(ctx, limiter.FailurePause) // a loop around this call must not spin
			return last
		}
		if err := c.life.Await(ctx, ready, c.opts.voteTimeout()); err != nil {
			return &waitError{op: "wait", cause: err, last: last}
		}
	}
}

// Close ends the client, and releases its leases; that of a running Do when fn returns. Other calls
// return ErrClosed. Close awaits the nodes that answer, and gives up one that is silent for a node
// timeout. It awaits the logger and the hooks for one more. It returns nil.
func (c *Client) Close() error {
	if c.closing.Swap(true) {
		<-c.closed
		return nil
	}
	defer close(c.closed)
	began := c.opts.clock()
	c.forget()
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
	d := c.newDrain(ttl)
	d.Release(idle)
	d.Finish()
	c.group.AwaitAdmissions(c.life.Context(), began, c.opts.voteTimeout(), began+c.deadAfter())
	if len(working) == 0 {
		c.end()
		return nil
	}
	go func() { // ends with the last Do, or its lease's validity
		for _, l := range working {
			l.AwaitEnd()
		}
		c.newDrain(ttl).Finish()
		c.end()
	}()
	return nil
}

// end ends the client's goroutines. The last events are those of these.
func (c *Client) end() {
	c.life.End()
	c.endEvents()
}

// newDrain returns a Drain for keys that last for ttl, at most.
func (c *Client) newDrain(ttl time.Duration) *lease.Drain {
	return lease.NewDrain(c.cluster.Nodes(), c.opts.clock, c.opts.voteTimeout(), ttl)
}

// deadAfter is how long the client awaits an answer before it ends a connection.
func (c *Client) deadAfter() time.Duration { return max(4*c.opts.voteTimeout(), time.Second) }

// isNil reports whether a pool is nil, also one that is a nil pointer of some type.
func isNil(p Pool) bool {
	v := reflect.ValueOf(p)
	return !v.IsValid() || v.Kind() == reflect.Pointer && v.IsNil()
}
