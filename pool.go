package redlock

import (
	"context"

	"github.com/gomodule/redigo/redis"

	"github.com/redlock-go/redlock/internal/endpoint"
)

// Pool is a source of connections to one master; a redigo *redis.Pool is one.
// The client takes one connection and keeps it, so that many goroutines share
// it; and a second one from the first Lock on that has to wait. The connections must implement redis.ConnWithTimeout and
// redis.ConnWithContext, as redigo's do. Their own timeouts are not needed.
//
// A pool that implements fmt.Stringer is named so in errors and logs.
type Pool interface {
	GetContext(ctx context.Context) (redis.Conn, error)
}

// urlPool is the pool that Open makes of a URL. It keeps no idle connections:
// the client has its own, and keeps it.
type urlPool struct {
	redis.Pool
	address string
}

func (p *urlPool) String() string { return p.address }

// newURLPool makes a pool for an endpoint.
func newURLPool(e endpoint.Endpoint) *urlPool {
	return &urlPool{address: e.Address, Pool: redis.Pool{DialContext: e.Dial}}
}
