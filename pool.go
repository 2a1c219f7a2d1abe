package redlock

import (
	"context"
	"errors"
	"fmt"
	"net"
	"strings"
	"sync"
	"time"

	"github.com/gomodule/redigo/redis"

	"github.com/redlock-go/redlock/internal/admission"
	"github.com/redlock-go/redlock/internal/endpoint"
	"github.com/redlock-go/redlock/internal/node"
	"github.com/redlock-go/redlock/internal/quorum"
)

// Pool is a source of connections to one master; a redigo *redis.Pool is one. The client keeps at
// most two connections. They must implement redis.ConnWithTimeout and redis.ConnWithContext. Errors
// and logs name a pool by its fmt.Stringer. While GetContext returns ErrConfig, the node is unfit.
type Pool interface {
	GetContext(ctx context.Context) (redis.Conn, error)
}

// DialPool returns a pool of the server that dial connects to. dial should end with its ctx, which
// lasts for at most four node timeouts or a second, whichever is longer. The client owns the
// connections, which need no deadlines. While dial returns ErrConfig, the node is unfit. New returns ErrConfig when
// dial is nil or cfg is bad.
func DialPool(dial func(ctx context.Context) (net.Conn, error), cfg DialConfig) Pool {
	p := &dialPool{name: cfg.Addr, connector: &endpoint.Connector{Dial: dial, Credentials: cfg.Credentials,
		Database: cfg.Database, ClientName: cfg.ClientName}}
	switch {
	case dial == nil:
		p.err = configError("DialPool: the dial function is nil")
	case cfg.Database < 0:
		p.err = configError("DialConfig: the number of the database, %d, is negative", cfg.Database)
	case strings.ContainsFunc(cfg.ClientName, func(r rune) bool { return r <= ' ' || r > '~' }):
		p.err = configError("DialConfig: the client name %q: the server allows only printable ASCII without spaces",
			cfg.ClientName)
	}
	return p
}

// DialConfig has the settings of a DialPool. The zero value is for a server without a password.
type DialConfig struct {
	// Addr is the node's name in errors and logs, without user and password; "": its place in the list.
	Addr string

	Database int // the database's number

	// ClientName is what CLIENT LIST shows; "": nothing.
	ClientName string

	// Credentials returns the user, which may be empty, and the password for each new connection; nil: no login.
	// Its error counts as an error of dial.
	Credentials func(ctx context.Context) (user, password string, err error)
}

// dialPool makes connections, and keeps none: the client has its own, and keeps it.
type dialPool struct {
	connector *endpoint.Connector
	name      string
	err       error // what is wrong with the pool, if anything is
}

func (p *dialPool) GetContext(ctx context.Context) (redis.Conn, error) {
	if p.err != nil {
		return nil, p.err
	}
	return p.connector.Connect(ctx)
}

func (p *dialPool) String() string { return p.name }

// memberPool is a pool of WithMembers. It is opened when it is used first, and again as long as that fails.
type memberPool struct {
	addr string
	open func(addr string) (Pool, error)

	mu   sync.Mutex // protects pool
	pool Pool
}

func (p *memberPool) GetContext(ctx context.Context) (redis.Conn, error) {
	pool, err := p.opened()
	if err != nil {
		return nil, fmt.Errorf("the function of WithMembers: %w", err)
	}
	return pool.GetContext(ctx)
}

func (p *memberPool) opened() (Pool, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.pool != nil {
		return p.pool, nil
	}
	pool, err := p.open(p.addr)
	if err == nil && isNil(pool) {
		err = errors.New("it returned no pool")
	}
	if err == nil {
		p.pool = pool
	}
	return pool, err
}

// NodeStats is the part of Stats for one node. Each vote is counted once, by its Outcome.
type NodeStats struct {
	Index  int    // place in the list given to New or Open, or behind it
	Node   string // name in errors and logs
	Master string // its name in Client.Members, if any

	// State is "up"; "stalled": answers are overdue; "refusing" what locks need; "quarantined": no vote
	// for new leases yet; "down"; or "unfit": no vote until a person acts.
	State string
	Err   error     // why it is not up; nil for "up" and "stalled"
	Since time.Time // of "refusing"

	Granted uint64 // votes: it did what was asked
	Refused uint64 // votes: it answered and did not
	Unknown uint64 // votes: no answer in time
	NotSent uint64 // votes: not asked, or not executed
	Late    uint64 // late answers to Unknown votes

	Connects   uint64 // connections on which it was asked to vote
	Undos      int    // unconfirmed releases and rollbacks
	Unanswered int    // calls under way
}

// statsOf returns what is known of a node.
func (c *Client) statsOf(n *admission.Member) NodeStats {
	votes := &n.Counters.Votes
	s := NodeStats{
		Index:    n.Index,
		Node:     n.Name,
		Granted:  votes[quorum.Confirmed].Load(),
		Refused:  votes[quorum.Refused].Load(),
		Unknown:  votes[quorum.Unknown].Load(),
		NotSent:  votes[quorum.NotSent].Load(),
		Late:     n.Counters.Late.Load(),
		Connects: n.Counters.Connects.Load(),
		Undos:    n.Undos(),
	}
	p, right, refusal := n.Pipe(), n.Current(), n.Status.Refusal()
	if p != nil {
		s.Unanswered = p.Unanswered()
	}
	switch {
	case p == nil || right == nil:
		s.State, s.Err = "down", n.Why()
	case refusal != nil:
		s.State, s.Err = "refusing", refusal.Err
		s.Since = time.Now().Add(refusal.Since - c.opts.clock())
	case !right.Votes:
		s.State, s.Err = "quarantined", right.Why()
	case p.Silence(c.opts.clock()) > c.opts.voteTimeout():
		s.State = "stalled"
	default:
		s.State = "up"
	}
	if node.IsPermanent(s.Err) {
		s.State = "unfit"
	}
	return s
}
