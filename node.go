package redlock

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/gomodule/redigo/redis"

	"github.com/redlock-go/redlock/internal/pipe"
)

const (
	// backlog is how many bytes may be unanswered at a node that has gone
	// quiet, before new attempts pass it by; busyBacklog goes for one that
	// answers all the while. dutyBacklog bounds releases: past it the
	// connection is dropped, and they become debts.
	backlog     = 256 << 10
	busyBacklog = 8 << 20
	dutyBacklog = 32 << 20

	// Between two dials the pause grows from the first to the second, with
	// jitter. The longest is short, so that a node is back soon after its
	// recovery.
	firstPause = 20 * time.Millisecond
	maxPause   = 500 * time.Millisecond
)

var errConnecting = errors.New("not connected yet")

// node is one master as the client sees it. Its goroutine, run, keeps a
// connection to it; everybody else only queues commands there.
type node struct {
	index int
	name  string
	pool  Pool
	opts  *options
	peers *peers

	patience time.Duration // an answer overdue for this long ends the connection; so does a handshake

	pipe atomic.Pointer[pipe.Pipe] // nil while the node may not vote; stored under mu

	mu       sync.Mutex       // protects what follows; pipes' locks may be taken under it
	down     error            // why pipe is nil
	debts    map[string]*debt // by owner
	indebted bool             // it was logged that debts are given up
	zombies  map[int64]bool   // old connections' ids at this run of the server, not known to be dead

	standing atomic.Pointer[standing] // nil while not connected
	stray    atomic.Pointer[any]      // the key of a record that was missing, and what was counted there; nil: none
	ttl      atomic.Int64             // the longest ttl that locks of this client want, in nanoseconds
	doubt    chan struct{}            // admission must be looked at again

	offset offset // of its clock

	loading atomic.Bool // scripts are being loaded again
	merges  atomic.Bool // the server understands SET with NX and GET together

	last  identity // who answered the last handshake; run's own
	told  string   // the last problem that was logged; run's own
	voted bool     // it was seen to vote: its memory is not new; run's own

	counts  *nodeCounters
	stalled atomic.Bool // told that ballots pass it by

	// What was told of its state; run's own.
	condition condition
	failures  int           // in a row
	worried   bool          // the log has it that it does not vote
	warned    time.Duration // when the log was told last that it is down
}

func newNode(index int, name string, pool Pool, opts *options, group *peers) *node {
	n := &node{
		index:    index,
		name:     name,
		pool:     pool,
		opts:     opts,
		peers:    group,
		patience: max(4*opts.voteTimeout(), time.Second),
		down:     errConnecting,
		debts:    make(map[string]*debt),
		doubt:    make(chan struct{}, 1),
		zombies:  make(map[int64]bool),
		counts:   &nodeCounters{},
	}
	n.ttl.Store(int64(opts.ttl))
	return n
}

var errReconnected = errors.New("it was connected anew just now, and may be another run of the server")

// queue puts a call into the node's queue. p is not nil when the caller must
// flush it; load is the number of calls unanswered there. With an error nothing
// was queued. by is the standing on which the call relies: it goes over no other
// connection than that one's. owed is for releases, which wait for a stalled
// node.
func (n *node) queue(c *pipe.Call, by *standing, now, timeout time.Duration, owed bool) (p *pipe.Pipe, load int, err error) {
	p = n.pipe.Load()
	if p == nil {
		return nil, 0, n.why()
	}
	if by != nil && by.pipe != p {
		return nil, 0, errReconnected
	}
	limit := pipe.Limit{Silence: timeout, Pause: timeout / 10, Bytes: backlog, Most: busyBacklog}
	if owed {
		limit = pipe.Limit{Silence: forever, Pause: forever, Most: dutyBacklog}
	}
	flush, load, err := p.Queue(c, now, &limit)
	if err != nil {
		if errors.Is(err, pipe.ErrStalled) && !owed {
			n.passedBy()
		}
		if owed {
			// Not here: breaking a pipe tells other ballots, and the caller has its
			// own ballot locked.
			go p.Kill(fmt.Errorf("a release could not be queued: %w", err))
		}
		return nil, 0, err
	}
	if !flush {
		p = nil
	}
	return p, load, nil
}

// why tells why the node has no connection to vote on. It is never nil: where one
// was made in this very moment, it was too late for the caller.
func (n *node) why() error {
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.down == nil {
		return errConnecting
	}
	return n.down
}

// heed acts on an error that the node answered with.
func (n *node) heed(err error) {
	var reply redis.Error
	if !errors.As(err, &reply) {
		return
	}
	switch code(reply) {
	case "NOSCRIPT":
		n.reload()
	case "ERR":
		if strings.Contains(string(reply), "syntax") {
			n.merges.Store(false) // its version promised too much
		}
	case "READONLY", "LOADING", "MASTERDOWN", "NOAUTH":
		// It is not the server that shook hands: ask it anew who it is. To others
		// on the connection this is no answer of the server's.
		n.reconnect(fmt.Errorf("it answered another call with %q", reply))
	}
}

// reconnect drops the node's connection; run makes a new one.
func (n *node) reconnect(why error) {
	if p := n.pipe.Load(); p != nil {
		p.Kill(why)
	}
}

// reload queues the scripts for loading, once for all who found them missing.
// Attempts that come later are behind it on the same connection.
func (n *node) reload() {
	p := n.pipe.Load()
	if p == nil || !n.loading.CompareAndSwap(false, true) {
		return
	}
	for i, s := range allScripts {
		call := &pipe.Call{Command: "SCRIPT", Args: []any{"LOAD", s.text}, To: &loaded{node: n, last: i == len(allScripts)-1}}
		flush, _, err := p.Queue(call, n.opts.clock(), nil)
		if err != nil {
			n.loading.Store(false)
			return
		}
		if flush {
			go p.Flush() // the caller is the reader of this very connection
		}
	}
}

// loaded receives the answer to SCRIPT LOAD. What is still wrong shows in the
// votes.
type loaded struct {
	node *node
	last bool
}

func (l *loaded) Receive(any, error) {
	if l.last {
		l.node.loading.Store(false)
	}
}

// run keeps the node connected until ctx ends. It tells first, once, whether
// the first attempt to connect succeeded.
func (n *node) run(ctx context.Context, first chan<- bool) {
	tell := sync.OnceFunc(func() { first <- n.pipe.Load() != nil })
	defer tell()
	pause := firstPause
	for ctx.Err() == nil {
		p, err := n.connect(ctx, tell)
		if err != nil {
			tell()
		}
		if err == nil {
			n.counts.connects.Add(1)
			began := n.opts.clock()
			err = n.attend(ctx, p, tell)
			if n.opts.clock()-began > maxPause {
				pause = firstPause
			}
		}
		n.setDown(err)
		if ctx.Err() == nil {
			n.isDown(err)
		}
		select {
		case <-ctx.Done():
		case <-time.After(pause/2 + n.opts.chance.below(pause/2, n.name)):
		}
		pause = min(2*pause, maxPause)
	}
}

// attend sees to the node's admission over a connection until it ends. It returns
// why it ended.
func (n *node) attend(ctx context.Context, p *pipe.Pipe, ready func()) error {
	stop := context.AfterFunc(ctx, func() { p.Kill(ErrClosed) })
	defer stop()
	watching := make(chan struct{})
	go func() { // not here: a look waits for answers, also for those of other nodes
		defer close(watching)
		n.watch(p)
	}()
	joining := n.newAdmission(p)
	look := time.NewTimer(joining.look(ctx))
	defer look.Stop()
	ready()
	for {
		select {
		case <-look.C:
		case <-n.doubt:
		case <-p.Done():
			<-watching
			return fmt.Errorf("disconnected: %w", p.Err())
		}
		select {
		case <-n.doubt: // one look is enough, if it was due as well
		default:
		}
		look.Reset(joining.look(ctx))
	}
}

// watch ends a connection when an answer is long overdue; it returns when the
// connection has ended.
func (n *node) watch(p *pipe.Pipe) {
	ticker := time.NewTicker(jitter(n.opts.chance, n.patience/4, n.name))
	defer ticker.Stop()
	looked := n.opts.clock()
	for {
		select {
		case <-p.Done():
			return
		case <-ticker.C:
			now := n.opts.clock()
			late := now-looked > n.patience/2
			looked = now
			// After a pause of this very process the answers wait in the socket:
			// the reader goes first.
			if s := p.Silence(now); s > n.patience && !late {
				p.Kill(fmt.Errorf("no answer for %v", s.Round(time.Millisecond)))
			}
			n.payAgain(p)
		}
	}
}

// admit makes p the node's connection. What is owed is queued ahead of every
// attempt.
func (n *node) admit(p *pipe.Pipe, prelude ...*pipe.Call) error {
	n.mu.Lock()
	defer n.mu.Unlock()
	for _, c := range prelude {
		flush, _, err := p.Queue(c, n.opts.clock(), nil)
		if flush {
			go p.Flush()
		}
		if err != nil {
			return err
		}
	}
	if err := n.payAll(p); err != nil {
		return err
	}
	n.loading.Store(false)
	n.pipe.Store(p)
	n.down = nil
	return nil
}

// setDown notes that the node has no connection, and why.
func (n *node) setDown(err error) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.pipe.Store(nil)
	n.standing.Store(nil)
	n.down = advise(err)
}
