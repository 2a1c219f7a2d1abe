package node

import (
	"context"
	"fmt"
	"time"

	"github.com/gomodule/redigo/redis"

	"github.com/redlock-go/redlock/internal/loginreply"
)

// dial gets a connection from the pool. A pool may have no timeouts and may ignore ctx:
// then dialling can hang with the server, and there is never more than one such dial. dial
// calls late when it takes longer than deadAfter, and goes on.
func dial(ctx context.Context, pool Pool, deadAfter time.Duration, late func()) (redis.Conn, error) {
	type dialled struct {
		conn redis.Conn
		err  error
	}
	dialCtx, cancel := context.WithTimeout(ctx, deadAfter)
	defer cancel()
	result := make(chan dialled, 1)
	go func() {
		conn, err := get(dialCtx, pool)
		result <- dialled{conn, err}
	}()
	select {
	case d := <-result:
		return d.conn, d.err
	case <-dialCtx.Done():
	}
	late()
	select {
	case d := <-result:
		return d.conn, d.err
	case <-ctx.Done():
		go func() { // ends when the pool's dial does
			if d := <-result; d.err == nil {
				_ = d.conn.Close()
			}
		}()
		return nil, context.Cause(ctx)
	}
}

// get gets a connection from the pool. A pool that logs in reads replies, at which other libraries' readers can
// panic: that is an error here, as in pipe.Receive.
func get(ctx context.Context, pool Pool) (conn redis.Conn, err error) {
	defer func() {
		if why := recover(); why != nil {
			conn, err = nil, fmt.Errorf("the pool (%T) panics: %v", pool, why)
		}
	}()
	conn, err = pool.GetContext(ctx)
	if err != nil {
		return nil, loginreply.Foreign(err)
	}
	if conn == nil {
		err = &UnfitError{"the pool returned no connection and no error"}
	}
	return conn, err
}

// shareable returns an error if a connection cannot be shared and cut.
func shareable(conn redis.Conn) error {
	_, timeouts := conn.(redis.ConnWithTimeout)
	_, contexts := conn.(redis.ConnWithContext)
	if !timeouts || !contexts {
		return fmt.Errorf("its connections (%T) must implement redis.ConnWithTimeout and "+
			"redis.ConnWithContext, as redigo's do", conn)
	}
	return nil
}
