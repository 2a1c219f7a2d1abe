package redlockgoredis

import (
	"context"
	"time"

	redigo "github.com/gomodule/redigo/redis"
)

// Receive implements redis.Conn of redigo.
func (c *rotatingConn) Receive() (any, error) { return c.receive(c.shared.Receive) }

// ReceiveWithTimeout implements redis.ConnWithTimeout of redigo.
func (c *rotatingConn) ReceiveWithTimeout(timeout time.Duration) (any, error) {
	return c.receive(func() (any, error) { return c.shared.ReceiveWithTimeout(timeout) })
}

// ReceiveContext implements redis.ConnWithContext of redigo.
func (c *rotatingConn) ReceiveContext(ctx context.Context) (any, error) {
	return c.receive(func() (any, error) { return c.shared.ReceiveContext(ctx) })
}

// receive returns the next answer that is not a login's.
func (c *rotatingConn) receive(next func() (any, error)) (any, error) {
	for {
		answer, err := next()
		_, refused := err.(redigo.Error)
		if err != nil && !refused {
			return nil, err // the connection is broken
		}
		if !c.wasLogin(refused) {
			return answer, err
		}
	}
}

// wasLogin reports whether the answer that was just received is a login's. After a refusal it
// plans another one, unless newer credentials have come.
func (c *rotatingConn) wasLogin(refused bool) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	at := c.received
	c.received++
	if len(c.logins) == 0 || c.logins[0].at != at {
		return false
	}
	l := c.logins[0]
	c.logins = c.logins[1:]
	if refused && c.next == nil && len(c.logins) == 0 {
		l.notBefore = time.Now().Add(retryLogin)
		c.next = &l
	}
	return true
}

// Do implements redis.Conn of redigo.
func (c *rotatingConn) Do(command string, args ...any) (any, error) {
	defer c.receivedAll()
	return c.shared.Do(command, args...)
}

// DoWithTimeout implements redis.ConnWithTimeout of redigo.
func (c *rotatingConn) DoWithTimeout(timeout time.Duration, command string, args ...any) (any, error) {
	defer c.receivedAll()
	return c.shared.DoWithTimeout(timeout, command, args...)
}

// DoContext implements redis.ConnWithContext of redigo.
func (c *rotatingConn) DoContext(ctx context.Context, command string, args ...any) (any, error) {
	defer c.receivedAll()
	return c.shared.DoContext(ctx, command, args...)
}

// receivedAll records that a Do has received all answers, and returned the last one.
func (c *rotatingConn) receivedAll() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.received, c.logins = c.sent, nil
}
