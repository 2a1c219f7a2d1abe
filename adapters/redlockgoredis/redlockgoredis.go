// Package redlockgoredis makes pools for redlock of go-redis clients: redlock.New(redlockgoredis.Pools(a, b, c)).
//
// A pool uses the client's dialer, TLS, credentials, database and client name. It does not use the client's connections:
// it makes one to each server, and a second one when a lock has to wait. The client stays the caller's, and may be used beside.
// Hooks and limiters of the client do not see what redlock sends. The package starts no goroutines.
package redlockgoredis

import (
	"context"
	"fmt"
	"net"

	"github.com/redis/go-redis/v9"

	"github.com/redlock-go/redlock"
)

// Pools returns a pool for each client, for redlock.New. A client that Pool refuses becomes a pool whose node does
// not vote: the log, and the errors of locks, say why. A nil client becomes a nil pool, which redlock.New refuses.
func Pools(clients ...*redis.Client) []redlock.Pool {
	pools := make([]redlock.Pool, len(clients))
	for i, c := range clients {
		if c == nil {
			continue
		}
		p, err := newPool(c, settings{})
		if err != nil {
			p = refused{name: c.Options().Addr, err: err}
		}
		pools[i] = p
	}
	return pools
}

// Pool returns a pool for one client. It returns redlock.ErrConfig for a client that cannot be one independent master:
// a ClusterClient, a Ring, a client of Sentinel (unless AllowFailover is given), or a Client with an OnConnect function, which
// is not called for redlock's connections. A nil Option changes nothing.
//
// Pool does not connect. While the client's dialer or its credentials fail, the node is down, and the log and the errors of
// locks say why. A StreamingCredentialsProvider gets no context: while its Subscribe hangs, the node is down.
func Pool(client redis.UniversalClient, opts ...Option) (redlock.Pool, error) {
	var s settings
	for _, o := range opts {
		if o != nil {
			o(&s)
		}
	}
	switch c := client.(type) {
	case *redis.Client:
		if c != nil {
			return newPool(c, s)
		}
		return nil, refuse("the client is nil")
	case *redis.ClusterClient:
		return nil, refuse("a ClusterClient spreads keys over servers that replicate each other: give redlock independent masters, each with a redis.Client of its own")
	case *redis.Ring:
		return nil, refuse("a Ring spreads keys over several servers: give redlock each of them, with a redis.Client of its own")
	}
	return nil, refuse("%T is not a *redis.Client", client)
}

// Option changes how Pool treats a client.
type Option func(*settings)

type settings struct {
	failover bool
}

// AllowFailover accepts a client of Sentinel. A failover makes another server the master, which may not know the
// locks that were granted last. So the node does not vote after a failover until every lease has ended that it may have
// forgotten, which takes the longest ttl; and while the old master goes on without noticing, two masters may vote for this node.
// Use it for a minority of the nodes, with min-replicas-to-write at the servers. Independent masters need neither Sentinel nor this.
func AllowFailover() Option { return func(s *settings) { s.failover = true } }

// failoverAddr is what go-redis calls the server of a client of Sentinel.
const failoverAddr = "FailoverClient"

func newPool(c *redis.Client, s settings) (redlock.Pool, error) {
	o := c.Options()
	switch {
	case o.Addr == failoverAddr && !s.failover:
		return nil, refuse("a client of Sentinel may change its master, and the new one forgets locks: give redlock independent masters, or see AllowFailover")
	case o.OnConnect != nil:
		return nil, refuse("the client of %s has an OnConnect function, which is not called for redlock's connections: make a client without it", o.Addr)
	}
	p := pool{o}
	if o.StreamingCredentialsProvider != nil {
		return &rotatingPool{p, o.StreamingCredentialsProvider}, nil
	}
	return p.withCredentials(credentials(o)), nil
}

// pool is what pools of all clients have in common.
type pool struct{ options *redis.Options }

// withCredentials returns a pool whose connections log in with what source returns.
func (p *pool) withCredentials(source func(context.Context) (user, password string, err error)) redlock.Pool {
	return redlock.DialPool(p.dial, redlock.DialConfig{Addr: p.options.Addr, Database: p.options.DB,
		ClientName: p.options.ClientName, Credentials: source})
}

func (p *pool) dial(ctx context.Context) (net.Conn, error) {
	return p.options.Dialer(ctx, p.options.Network, p.options.Addr)
}

func (p *pool) String() string { return p.options.Addr }

// credentials returns the function that says who logs in: the first of go-redis' ways that is set, in its order.
func credentials(o *redis.Options) func(context.Context) (user, password string, err error) {
	switch {
	case o.CredentialsProviderContext != nil:
		return o.CredentialsProviderContext
	case o.CredentialsProvider != nil:
		return func(context.Context) (user, password string, err error) {
			user, password = o.CredentialsProvider()
			return user, password, nil
		}
	}
	return func(context.Context) (user, password string, err error) { return o.Username, o.Password, nil }
}

// refuse returns an error about a client.
func refuse(format string, args ...any) error {
	return fmt.Errorf("%w: redlockgoredis: %s", redlock.ErrConfig, fmt.Sprintf(format, args...))
}
