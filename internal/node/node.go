package node

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync/atomic"
	"time"

	"github.com/gomodule/redigo/redis"

	"github.com/redlock-go/redlock/internal/notify"
	"github.com/redlock-go/redlock/internal/pipe"
	"github.com/redlock-go/redlock/internal/system"
)

// maxBacklog is how many bytes may be unanswered at a node. Above it attempts and renewals leave the node out; for a
// release the connection is dropped, and the releases become undos.
const maxBacklog = 32 << 20

// Pool makes connections to one server.
type Pool interface {
	GetContext(context.Context) (redis.Conn, error)
}

// Config is what all nodes of a client have in common.
type Config struct {
	Clock      system.Clock
	Wall       system.Wall
	Random     system.Random
	Events     *notify.Queue
	Observer   Observer // nil: none
	Identities *Identities
	Majority   *Majority
	Closed     error // why connections end when Run's context does, without a cause of its own

	// Misconfigured is the error of a pool that a person must mend; the node is unfit meanwhile.
	Misconfigured error

	// DeadAfter is how long an answer may be overdue before the connection is given up. It
	// bounds dials and handshakes too.
	DeadAfter time.Duration
}

// end returns why connections end with a context that has ended.
func (c *Config) end(ctx context.Context) error {
	if cause := context.Cause(ctx); cause != ctx.Err() {
		return cause
	}
	return c.Closed
}

// Admitter decides whether a node's server may vote. All methods are called from Run's
// goroutine.
type Admitter interface {
	// Connected begins the admission of a run of the server over a new connection. run is
	// "" if the server does not name its run.
	Connected(p *pipe.Pipe, run string)

	// Check does what is due, and returns when to call it again. It may take long.
	Check(ctx context.Context) time.Duration

	// Recheck returns a channel that gets a value when Check is due now.
	Recheck() <-chan struct{}

	// Disconnected ends the right to vote: there is no connection any more.
	Disconnected()
}

// Node is one master as the client sees it. Run keeps a connection to it; other goroutines
// only queue commands there.
type Node struct {
	Index    int
	Name     string
	Counters *Counters
	Status   Status

	cfg      *Config
	pool     Pool
	admitter Admitter

	link  link
	undos undoLog
	old   oldConnections

	offset  offset // of the server's clock
	scripts scriptLoader
	setGet  atomic.Bool // the server understands SET with NX and GET together
	left    bool        // its server is no master any more. Protected by Identities.mu
}

// Counters count a node's votes by outcome, votes that came too late, and connections.
// They have cache lines of their own: the reader of the node's connection counts, while
// all callers read the node's other fields.
type Counters struct {
	Votes    [4]atomic.Uint64
	Late     atomic.Uint64
	Connects atomic.Uint64
	_        [2]uint64 // to 64 bytes
}

// New makes a node. Its admitter must be set before Run.
func New(index int, name string, pool Pool, cfg *Config) *Node {
	n := &Node{
		Index:    index,
		Name:     name,
		Counters: &Counters{},
		cfg:      cfg,
		pool:     pool,
	}
	n.Status.index, n.Status.name, n.Status.cfg = index, name, cfg
	n.link.down = errConnecting
	n.undos = undoLog{name: name, cfg: cfg, link: &n.link, byOwner: make(map[string]*Undo)}
	n.old = oldConnections{name: name, cfg: cfg, link: &n.link, ids: make(map[int64]bool)}
	return n
}

// NoteSilence has calls fail with the reason that the node does not answer within d, if the first attempt to connect
// has neither succeeded nor failed.
func (n *Node) NoteSilence(d time.Duration) { n.link.noteSilence(d) }

// Use sets the admitter. From then on the Majority counts the node.
func (n *Node) Use(a Admitter) {
	n.admitter = a
	n.cfg.Majority.add(&n.Status)
}

// Leave ends a node whose server is no master any more, after the ctx of its Run: the Majority does not count it.
func (n *Node) Leave() {
	n.cfg.Majority.remove(&n.Status)
	n.cfg.Identities.leave(n)
}

// Pipe returns the node's connection; nil if there is none.
func (n *Node) Pipe() *pipe.Pipe { return n.link.pipe.Load() }

// UnderstandsSetGet reports whether the server understands SET with NX and GET together.
func (n *Node) UnderstandsSetGet() bool { return n.setGet.Load() }

// Queue puts a call into the node's queue. p is not nil when the caller must flush it;
// load is the number of commands unanswered there. With an error nothing was queued. If on is
// not nil, the call relies on that connection, and goes over no other. A call leaves out a node that
// has been silent for timeout, unless it must be sent: a release waits for a stalled node.
func (n *Node) Queue(c *pipe.Call, on *pipe.Pipe, now, timeout time.Duration,
	must bool) (p *pipe.Pipe, load int, err error) {
	p = n.link.pipe.Load()
	if p == nil {
		return nil, 0, n.Why()
	}
	if on != nil && on != p {
		return nil, 0, ErrReconnected
	}
	limit := pipe.Limit{Silence: timeout, Bytes: maxBacklog}
	if must {
		limit.Silence = system.Forever
	}
	flush, load, err := p.Queue(c, now, &limit)
	if err != nil {
		switch {
		case must:
			// Not here: breaking a pipe informs other ballots, and the caller has its own
			// ballot locked.
			go p.Kill(fmt.Errorf("a release could not be queued: %w", err))
		case errors.Is(err, pipe.ErrStalled):
			n.ReportStalled()
		}
		return nil, 0, err
	}
	if !flush {
		p = nil
	}
	return p, load, nil
}

// Why returns why the node has no connection to vote on. It is never nil: a connection
// that is made just now comes too late for the caller.
func (n *Node) Why() error { return n.link.why() }

// HandleError acts on an error that came in the place of an answer.
func (n *Node) HandleError(err error) {
	var reply redis.Error
	if !errors.As(err, &reply) {
		return
	}
	switch c := code(reply); {
	case c == "NOSCRIPT":
		if p := n.link.pipe.Load(); p != nil {
			n.scripts.reload(p, n.cfg.Clock)
		}
	case c == "ERR":
		if strings.Contains(string(reply), "syntax") {
			n.setGet.Store(false) // the server rejects it, though its version should know it
		}
	case isOfOtherServer(c):
		// A new handshake identifies it. The other calls on this connection count as unanswered.
		n.Reconnect(fmt.Errorf("it answered another call with an error: %w", reply))
	case IsRefusal(err) && !LacksCommand(err):
		n.Status.Refuse(err)
	}
}

// Reconnect drops the node's connection; Run makes a new one.
func (n *Node) Reconnect(why error) {
	if p := n.link.pipe.Load(); p != nil {
		p.Kill(why)
	}
}
