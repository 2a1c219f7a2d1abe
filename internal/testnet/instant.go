package testnet

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/gomodule/redigo/redis"
)

// Nodes that answer at once and do nothing, so that what is measured is what the
// library itself costs.

type InstantPool struct{}

func (InstantPool) GetContext(context.Context) (redis.Conn, error) {
	return &instantConn{replies: make(chan any, 1<<10), ended: make(chan struct{})}, nil
}

type instantConn struct {
	replies chan any
	ended   chan struct{}
	once    sync.Once
	owner   any // of the last SET; only Send's
}

var errInstantEnded = errors.New("closed")

// Send has the answer at once: one is a grant, a renewal and a release.
func (c *instantConn) Send(command string, args ...any) error {
	var answer any = int64(1)
	switch command {
	case "INFO":
		answer = []byte(fmt.Sprintf("run_id:%p\r\nrole:master\r\n", c))
	case "TIME":
		answer = []any{[]byte("1700000000"), []byte("0")}
	case "PING":
		answer = "PONG"
	case "SET":
		c.owner, answer = []byte(args[1].(string)), "OK"
	case "GET":
		answer = c.owner
	case "ZCARD":
		answer = int64(0)
	}
	c.replies <- answer
	return nil
}

func (c *instantConn) Flush() error { return nil }

func (c *instantConn) ReceiveWithTimeout(time.Duration) (any, error) {
	select {
	case answer := <-c.replies:
		return answer, nil
	case <-c.ended:
		return nil, errInstantEnded
	}
}

func (c *instantConn) ReceiveContext(ctx context.Context) (any, error) {
	if ctx.Err() != nil {
		_ = c.Close()
		return nil, ctx.Err()
	}
	return c.ReceiveWithTimeout(0)
}

func (c *instantConn) Close() error {
	c.once.Do(func() { close(c.ended) })
	return nil
}

func (c *instantConn) Err() error            { return nil }
func (c *instantConn) Receive() (any, error) { return c.ReceiveWithTimeout(0) }

func (c *instantConn) Do(string, ...any) (any, error) { return nil, errInstantEnded }

func (c *instantConn) DoContext(context.Context, string, ...any) (any, error) {
	return nil, errInstantEnded
}

func (c *instantConn) DoWithTimeout(time.Duration, string, ...any) (any, error) {
	return nil, errInstantEnded
}
