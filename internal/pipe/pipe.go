// Package pipe lets many goroutines share one connection to a Redis server.
//
// Commands are queued in order; whoever finds nobody writing becomes the
// writer and writes for everybody, in few flushes. One goroutine reads the
// replies and gives each to its call. The package knows nothing of locks.
package pipe

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/gomodule/redigo/redis"
)

const (
	// window is how many bytes may be on the wire unanswered. The rest of the
	// queue stays here, so that no write can block on a server that has
	// stopped reading: a socket takes this much without its help.
	window = 64 << 10

	// rounds is how many flushes one goroutine makes for others before it
	// hands the writing on: a caller whose own work is done must get away.
	rounds = 4
)

// ErrNotSent is the outcome of a call that never left: it was not executed and
// never will be.
var ErrNotSent = errors.New("not sent")

// Receiver gets the outcome of a call.
type Receiver interface {
	// Receive is called exactly once for each queued call, by the reader or by
	// whoever found the connection broken. It must not block. err is nil, or
	// the server's redis.Error, or wraps ErrNotSent, or is another error: then
	// it is unknown whether the command was or will be executed.
	Receive(reply any, err error)
}

// Call is one command. It belongs to the pipe from Queue until Receive.
type Call struct {
	Command string
	Args    []any
	To      Receiver

	queued time.Duration // when, by the pipe's clock
	size   int           // bytes on the wire, about
}

// Pipe is one shared connection. It is made by New and ends with Kill, or when
// the connection breaks.
type Pipe struct {
	conn redis.Conn
	done chan struct{} // closed when conn has been given back

	batch []*Call // the writer's own; touched only by whom writing names

	mu      sync.Mutex // protects what follows
	calls   fifo       // unanswered calls, oldest first
	sent    int        // how many of them were handed to conn
	wire    int        // bytes of those
	bytes   int        // bytes of all calls
	writing bool       // somebody has the right, and the duty, to Flush
	users   int        // goroutines that may touch conn
	err     error      // why the pipe is broken
}

// New starts a pipe over conn and owns it from now on: conn is closed when the
// pipe has ended. conn must implement redis.ConnWithContext and
// redis.ConnWithTimeout, as redigo's connections do.
func New(conn redis.Conn) *Pipe {
	p := &Pipe{conn: conn, done: make(chan struct{}), users: 1}
	go p.read()
	return p
}

// Done is closed when the pipe has ended and its connection was given back.
func (p *Pipe) Done() <-chan struct{} { return p.done }

// Err tells why the pipe is broken; nil while it works.
func (p *Pipe) Err() error {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.err
}

// Silence is how long, at the instant now, the oldest unanswered call has been
// waiting; 0 without one.
func (p *Pipe) Silence(now time.Duration) time.Duration {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.silence(now)
}

// silence does it under p.mu.
func (p *Pipe) silence(now time.Duration) time.Duration {
	if p.calls.len() == 0 {
		return 0
	}
	return now - p.calls.front().queued
}

// Limit says when a call is not worth queuing.
type Limit struct {
	Silence time.Duration // the oldest call has been waiting for longer
	Pause   time.Duration // the same, where more than Bytes are unanswered
	Bytes   int
	Most    int // more bytes than this are unanswered
}

// Queue appends a call, at the instant now of the caller's clock. flush means
// that the caller has become the writer and must call Flush soon, whatever
// happens; load is how many calls are unanswered, this one among them. With an
// error the call was not queued and Receive is not called: the pipe is broken,
// or over a limit (nil: none).
func (p *Pipe) Queue(c *Call, now time.Duration, limit *Limit) (flush bool, load int, err error) {
	c.size = size(c)
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.err != nil {
		return false, 0, p.err
	}
	if limit != nil {
		if err := p.over(limit, now); err != nil {
			return false, 0, err
		}
	}
	c.queued = now
	p.calls.push(c)
	p.bytes += c.size
	flush = !p.writing
	p.writing = true
	if flush {
		p.users++
	}
	return flush, p.calls.len(), nil
}

// over tells which limit is passed. Called under p.mu.
func (p *Pipe) over(l *Limit, now time.Duration) error {
	s := p.silence(now)
	if s > l.Silence {
		return fmt.Errorf("stalled: no answer for %v", s.Round(time.Millisecond))
	}
	// Bytes alone do not make a server stalled: one that answers is merely busy.
	if p.bytes > l.Most || p.bytes > l.Bytes && s > l.Pause {
		return fmt.Errorf("stalled: %d KiB unanswered", p.bytes>>10)
	}
	return nil
}

// Flush writes what is queued. Only for whom Queue told so.
func (p *Pipe) Flush() {
	for range rounds {
		if !p.take() {
			return
		}
		if err := p.write(); err != nil {
			p.fail(err)
		}
	}
	go p.Flush() // keeps the right to write; ends with the queue or the pipe
}

// take moves what the window has room for into the batch. When that is nothing
// it gives the right to write back and returns false.
func (p *Pipe) take() bool {
	p.mu.Lock()
	clear(p.batch)
	p.batch = p.batch[:0]
	for p.err == nil && p.sent < p.calls.len() && p.wire < window {
		c := p.calls.at(p.sent)
		p.batch = append(p.batch, c)
		p.sent++
		p.wire += c.size
	}
	if len(p.batch) > 0 {
		p.mu.Unlock()
		return true
	}
	p.writing = false
	p.mu.Unlock()
	p.leave()
	return false
}

func (p *Pipe) write() error {
	for _, c := range p.batch {
		if err := p.conn.Send(c.Command, c.Args...); err != nil {
			return err
		}
	}
	return p.conn.Flush()
}

// read gives the replies to their calls until the pipe breaks. It always waits
// at the socket, so that a connection that ends is noticed when it is idle too.
func (p *Pipe) read() {
	defer p.leave()
	for {
		reply, err := redis.ReceiveWithTimeout(p.conn, 0)
		if err != nil && !isReply(err) {
			p.fail(err)
			return
		}
		c, flush := p.pop()
		if c == nil {
			p.fail(errors.New("the server sent a reply that nobody asked for"))
			return
		}
		c.To.Receive(reply, err)
		if flush {
			p.Flush()
		}
	}
}

// isReply tells the server's error replies from a broken connection.
func isReply(err error) bool {
	_, ok := err.(redis.Error)
	return ok
}

// pop takes the oldest call off. flush means that its reply made room for more
// and the reader has become the writer.
func (p *Pipe) pop() (c *Call, flush bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.sent == 0 {
		return nil, false
	}
	c = p.calls.pop()
	p.sent--
	p.wire -= c.size
	p.bytes -= c.size
	if p.sent < p.calls.len() && !p.writing && p.wire < window/2 {
		p.writing = true
		p.users++
		return c, true
	}
	return c, false
}

// Kill breaks the pipe at once, without waiting for replies that are owed. It
// does nothing to a pipe that is broken.
func (p *Pipe) Kill(why error) { p.fail(why) }

// fail breaks the pipe and tells every unanswered call.
func (p *Pipe) fail(why error) {
	p.mu.Lock()
	if p.err != nil {
		p.mu.Unlock()
		return
	}
	p.err = why
	p.users++
	calls, sent := p.calls.drain(), p.sent
	p.sent, p.wire, p.bytes = 0, 0, 0
	p.mu.Unlock()

	Cut(p.conn)
	for i, c := range calls {
		if i < sent {
			c.To.Receive(nil, why)
		} else {
			c.To.Receive(nil, fmt.Errorf("%w: %w", ErrNotSent, why))
		}
	}
	p.leave()
}

// leave ends one goroutine's use of conn. The last one gives it back: a pooled
// connection's Close may run beside nothing else.
func (p *Pipe) leave() {
	p.mu.Lock()
	p.users--
	last := p.users == 0 && p.err != nil
	p.mu.Unlock()
	if last {
		_ = p.conn.Close() // it is broken already
		close(p.done)
	}
}

// Cut closes the socket under conn, so that whoever reads or writes comes back;
// it may run beside both, but not beside conn's Close. Receiving with a deadline
// that is over does this, and nothing else, on redigo's connections; their Close
// would first wait for the replies.
func Cut(conn redis.Conn) {
	ctx, cancel := context.WithDeadline(context.Background(), time.Unix(0, 0))
	defer cancel()
	_, _ = redis.ReceiveContext(conn, ctx) // the error is the purpose
}

// size is what a call takes on the wire, about.
func size(c *Call) int {
	n := len(c.Command) + 16
	for _, a := range c.Args {
		switch a := a.(type) {
		case string:
			n += len(a) + 8
		case []byte:
			n += len(a) + 8
		default:
			n += 16
		}
	}
	return n
}
