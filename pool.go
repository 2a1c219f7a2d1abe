package redlock

import (
	"context"
	"net"
	"strings"

	"github.com/gomodule/redigo/redis"

	"github.com/redlock-go/redlock/internal/admission"
	"github.com/redlock-go/redlock/internal/endpoint"
	"github.com/redlock-go/redlock/internal/node"
)

// Pool is a source of connections to one master; a redigo *redis.Pool is one.
// The client takes one connection and keeps it, so that many goroutines share
// it; and a second one from the first Lock on that has to wait, or from the first call WithWanted. The connections must implement redis.ConnWithTimeout and
// redis.ConnWithContext, as redigo's do. Their own timeouts are not needed.
//
// A pool that implements fmt.Stringer is named so in errors and logs. While GetContext returns an error that is
// ErrConfig, the node is unfit: it does not vote, and errors and the log say why.
type Pool interface {
	GetContext(ctx context.Context) (redis.Conn, error)
}

// DialPool returns a pool of the server that dial connects to: over TLS, a tunnel, a cloud's connector, or as
// another Redis client does. dial should end with its ctx, which lasts for at most four node timeouts or a second,
// whichever is longer; it is called for each connection, from one goroutine at a time and two in all. The client owns the connections.
//
// The client knows what went wrong from the errors of dial and of the options' functions, and tries again after
// a pause of at most half a second. Where the error is ErrConfig, the node is unfit until such a call succeeds. New
// returns ErrConfig when dial is nil or an option is bad.
func DialPool(dial func(ctx context.Context) (net.Conn, error), opts ...DialOption) Pool {
	p := &dialPool{connector: &endpoint.Connector{Dial: dial}}
	if dial == nil {
		p.err = configError("DialPool: the dial function is nil")
	}
	for _, o := range opts {
		if o != nil && p.err == nil {
			p.err = o(p)
		}
	}
	return p
}

// DialOption changes a setting of DialPool. A nil DialOption changes nothing.
type DialOption func(*dialPool) error

// DialCredentials sets the function that returns the user and the password for a new connection. The client calls it for each
// connection, so that credentials may change; connections that are open stay as they are. If f fails, the connection fails as if dial had. With an empty user, only the password is sent; with neither, nothing is.
func DialCredentials(f func(ctx context.Context) (user, password string, err error)) DialOption {
	return func(p *dialPool) error {
		if f == nil {
			return configError("DialCredentials: the function is nil")
		}
		p.connector.Credentials = f
		return nil
	}
}

// DialDatabase sets the number of the database. Default 0.
func DialDatabase(n int) DialOption {
	return func(p *dialPool) error {
		if n < 0 {
			return configError("DialDatabase(%d): the number must not be negative", n)
		}
		p.connector.Database = n
		return nil
	}
}

// DialClientName sets the name that CLIENT LIST at the server shows. Default: none. A server that forbids
// CLIENT SETNAME is used without.
func DialClientName(s string) DialOption {
	return func(p *dialPool) error {
		if strings.ContainsFunc(s, func(r rune) bool { return r <= ' ' || r > '~' }) {
			return configError("DialClientName(%q): the server allows only printable ASCII without spaces", s)
		}
		p.connector.ClientName = s
		return nil
	}
}

// DialAddr sets the node's name in errors and logs. Default: none; then these name the node by its place in the list alone.
func DialAddr(s string) DialOption {
	return func(p *dialPool) error {
		p.name = s
		return nil
	}
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

// NodeStats is Stats' part of one node. Each vote in a ballot of any kind is counted
// once as Granted, Refused, Unknown or NotSent.
type NodeStats struct {
	Index int    // the node's place in the list given to New or Open
	Node  string // the node's name in errors and logs

	// State, now: "up", it votes; "stalled", it would, but its answers are overdue;
	// "quarantined", it may not vote for new leases yet; "down"; or "unfit", it does
	// not vote until a person acts.
	State string
	Err   error // why it is not up; nil for "up" and "stalled"

	Granted uint64 // votes: it did what was asked
	Refused uint64 // votes: it answered and did not
	Unknown uint64 // votes: it did not answer in time
	NotSent uint64 // votes: it was not asked, or did not execute it
	Late    uint64 // answers that came after all, to votes counted as Unknown

	Connects   uint64 // connections made on which it was asked to vote
	Undos      int    // releases and rollbacks that it has not confirmed yet
	Unanswered int    // calls under way to it now
}

// statsOf returns what is known of a node.
func (c *Client) statsOf(n *admission.Member) NodeStats {
	votes := &n.Counters.Votes
	s := NodeStats{
		Index:    n.Index,
		Node:     n.Name,
		Granted:  votes[Granted].Load(),
		Refused:  votes[Refused].Load(),
		Unknown:  votes[Unknown].Load(),
		NotSent:  votes[NotSent].Load(),
		Late:     n.Counters.Late.Load(),
		Connects: n.Counters.Connects.Load(),
		Undos:    n.Undos(),
	}
	p, right := n.Pipe(), n.Current()
	if p != nil {
		s.Unanswered = p.Unanswered()
	}
	switch {
	case p == nil || right == nil:
		s.State, s.Err = "down", n.Why()
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
