package simredis

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/gomodule/redigo/redis"

	"github.com/redlock-go/redlock/internal/pipe"
)

var (
	errRefused = errors.New("connection refused")
	errReset   = errors.New("connection reset by peer")
	errEOF     = errors.New("EOF")
	errCut     = errors.New("use of closed connection")
)

// Conn is the client's end of a connection, as redigo has them. One goroutine may send
// beside another that receives.
type Conn struct {
	stream *stream
	unsent [][]string    // between Send and Flush
	wake   chan struct{} // holds one signal after changes of what follows

	// Protected by the world's lock.
	inbox  []any // arrived replies
	broken error // what Receive returns when the inbox is empty
}

// Send queues a command.
func (c *Conn) Send(command string, args ...any) error {
	all := make([]string, 1, len(args)+1)
	all[0] = command
	for _, a := range args {
		switch a := a.(type) {
		case string:
			all = append(all, a)
		case []byte:
			all = append(all, string(a))
		default:
			all = append(all, fmt.Sprint(a))
		}
	}
	c.unsent = append(c.unsent, all)
	return nil
}

// Flush sends the queued commands. Each command has a fate of its own, so the number of
// writes does not matter.
func (c *Conn) Flush() error {
	s := c.stream
	w := s.server.world
	w.mu.Lock()
	defer w.mu.Unlock()
	commands := c.unsent
	c.unsent = nil
	if c.broken != nil {
		return c.broken
	}
	if s.closing {
		return nil // it was reset; the client receives the error an instant later
	}
	for _, args := range commands {
		s.post(&s.out, message{args: args, fate: s.next(true)})
	}
	s.schedule()
	return nil
}

// Step waits for an instant at which nothing else happens. internal/pipe calls it after
// each call that it fails.
func (c *Conn) Step() { c.stream.server.world.await(c.stream.identity(stepping)) }

// fail breaks the client's end.
func (c *Conn) fail(why error) {
	if c.broken == nil {
		c.broken = why
		c.poke()
	}
}

func (c *Conn) poke() {
	select {
	case c.wake <- struct{}{}:
	default: // a signal is there already
	}
}

// Close cuts the connection. Commands on their way to the server may still arrive.
func (c *Conn) Close() error {
	c.cut()
	return nil
}

func (c *Conn) cut() {
	s := c.stream
	w := s.server.world
	w.mu.Lock()
	defer w.mu.Unlock()
	if !s.closing {
		s.closing = true
		s.in.messages, c.inbox = nil, nil
		c.fail(errCut)
		s.leaveIfDone()
	}
}

// ReceiveWithTimeout waits for the next reply; with 0, without a timeout.
func (c *Conn) ReceiveWithTimeout(timeout time.Duration) (any, error) {
	var over <-chan time.Time
	if timeout > 0 {
		timer := time.NewTimer(timeout)
		defer timer.Stop()
		over = timer.C
	}
	for {
		if reply, err, ok := c.next(); ok {
			return reply, err
		}
		select {
		case <-c.wake:
		case <-over:
			c.cut()
			return nil, context.DeadlineExceeded
		}
	}
}

// next removes and returns the next reply, or the error of a broken connection. ok is false
// if there is neither.
func (c *Conn) next() (reply any, err error, ok bool) {
	w := c.stream.server.world
	w.mu.Lock()
	defer w.mu.Unlock()
	if len(c.inbox) == 0 {
		return nil, c.broken, c.broken != nil
	}
	reply = c.inbox[0]
	c.inbox = c.inbox[1:]
	switch r := reply.(type) {
	case redis.Error:
		return nil, r, true
	case status:
		return string(r), nil, true
	}
	return reply, nil, true
}

// ReceiveContext cuts the connection if ctx has ended: the library uses it for that alone.
func (c *Conn) ReceiveContext(ctx context.Context) (any, error) {
	if ctx.Err() != nil {
		c.cut()
		return nil, ctx.Err()
	}
	return c.Receive()
}

// Receive waits for the next reply.
func (c *Conn) Receive() (any, error) { return c.ReceiveWithTimeout(0) }

// ReceiveReply implements pipe.QuickConn.
func (c *Conn) ReceiveReply(r *pipe.Reply) error {
	value, err := c.Receive()
	r.Set(value)
	return err
}

// Err returns why the connection is broken; nil while it works.
func (c *Conn) Err() error {
	w := c.stream.server.world
	w.mu.Lock()
	defer w.mu.Unlock()
	return c.broken
}

var errUnsupported = errors.New("simredis: Do is not for shared connections")

// Do is not supported, nor are its variants.
func (c *Conn) Do(string, ...any) (any, error) { return nil, errUnsupported }

// DoWithTimeout is not supported.
func (c *Conn) DoWithTimeout(time.Duration, string, ...any) (any, error) { return nil, errUnsupported }

// DoContext is not supported.
func (c *Conn) DoContext(context.Context, string, ...any) (any, error) { return nil, errUnsupported }
