package redlockgoredis

import (
	"context"

	redigo "github.com/gomodule/redigo/redis"
)

// refused is the pool of a client that cannot be a master.
type refused struct {
	name string
	err  error // wraps redlock.ErrConfig
}

func (r refused) GetContext(context.Context) (redigo.Conn, error) { return nil, r.err }

func (r refused) String() string { return r.name }
