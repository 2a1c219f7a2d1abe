package node

import (
	"context"
	"fmt"
	"time"

	"github.com/gomodule/redigo/redis"
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
		conn, err := pool.GetContext(dialCtx)
		if err == nil && conn == nil {
			err = &UnfitError{"the pool returned no connection and no error"}
		}
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

// shareable returns an error if a connection cannot be shared and cut.
func shareable(conn redis.Conn) error {
	_, timeouts := conn.(redis.ConnWithTimeout)
	_, contexts := conn.(redis.ConnWithContext)
	if !timeouts || !contexts {
		return fmt.Errorf("its connections (%T) must implement redis.ConnWithTimeout and redis.ConnWithContext, as redigo's do", conn)
	}
	return nil
}
