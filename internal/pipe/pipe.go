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
	// queue stays here.
	window = 64 << 10

	// A caller writes for itself only while less than this is unanswered: a socket
	// takes that much without the other side's help, whether in few large writes
	// or in many small ones, each of which costs it a buffer of a kilobyte or so.
	// Beyond it, a goroutine of the pipe's own writes, which may block: no caller
	// ever does on a server that has stopped reading.
	safeBytes  = 16 << 10
	safeWrites = 48

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
	Then    *Call // queued right behind it; nil: none

	queued time.Duration // when, by the pipe's clock
	size   int           // bytes on the wire, about
	opens  bool          // it was the first of a write
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
	writes  int        // writes that they took
	bytes   int        // bytes of all calls
	writing bool       // somebody has the right, and the duty, to Flush
	users   int        // goroutines that may touch conn
	err     error      // why the pipe is broken

	answered uint64 // calls that have been answered; like the others
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

// Queue appends a call and those behind it, at the instant now of the caller's
// clock. flush means that the caller has become the writer and must call Flush
// soon, whatever happens; load is how many calls before these are unanswered. With an error nothing was queued and Receive is not called: the pipe is
// broken, or over a limit (nil: none).
func (p *Pipe) Queue(first *Call, now time.Duration, limit *Limit) (flush bool, load int, err error) {
	for c := first; c != nil; c = c.Then {
		c.size = size(c)
	}
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
	load = p.calls.len()
	for c := first; c != nil; c = c.Then {
		c.queued = now
		p.calls.push(c)
		p.bytes += c.size
	}
	flush = !p.writing
	p.writing = true
	if flush {
		p.users++
	}
	return flush, load, nil
}

// Flush writes what is queued, or has it written. Only for whom Queue told so. It
// does not block.
func (p *Pipe) Flush() {
	for range rounds {
		switch p.take(safeBytes, safeWrites) {
		case nothing:
			return
		case unsafe:
			go p.flushAll()
			return
		}
		if err := p.write(); err != nil {
			p.fail(err)
		}
	}
	go p.flushAll()
}

// flushAll has the right to write, and does until the queue, the window or the
// pipe ends.
func (p *Pipe) flushAll() {
	for p.take(window, forever) == batched {
		if err := p.write(); err != nil {
			p.fail(err)
		}
	}
}

const forever = int(^uint(0) >> 1)

// What take can find.
type taken int

const (
	nothing taken = iota // the right to write is given back
	batched              // there is a batch to write
	unsafe               // there is more to write, which could block
)

// take moves what there is room for into the batch. When there is nothing to do it
// gives the right to write back.
func (p *Pipe) take(most, writes int) taken {
	p.mu.Lock()
	clear(p.batch)
	p.batch = p.batch[:0]
	for p.more() && p.wire < most && p.writes < writes {
		c := p.calls.at(p.sent)
		if most < window && p.wire+c.size > most {
			break
		}
		c.opens = len(p.batch) == 0
		p.batch = append(p.batch, c)
		p.sent++
		p.wire += c.size
	}
	if len(p.batch) > 0 {
		p.writes++
		p.mu.Unlock()
		return batched
	}
	if p.more() && p.wire < window {
		p.mu.Unlock()
		return unsafe
	}
	p.writing = false
	p.mu.Unlock()
	p.leave()
	return nothing
}

// more tells that there is something to write. Called under p.mu.
func (p *Pipe) more() bool { return p.err == nil && p.sent < p.calls.len() }

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
	p.answered++
	p.sent--
	p.wire -= c.size
	p.bytes -= c.size
	if c.opens {
		p.writes--
	}
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
	p.sent, p.wire, p.writes, p.bytes = 0, 0, 0, 0
	p.mu.Unlock()

	Cut(p.conn)
	simulated, _ := p.conn.(stepper)
	for i, c := range calls {
		if i < sent {
			c.To.Receive(nil, why)
		} else {
			c.To.Receive(nil, fmt.Errorf("%w: %w", ErrNotSent, why))
		}
		if simulated != nil {
			simulated.Step()
		}
	}
	p.leave()
}

// stepper is a connection of a simulation, which waits after each call that fails with
// it: else the callers would race with each other and with those that await the pipe's
// end, and the simulation could not be repeated.
type stepper interface {
	// Step returns when all that the call before has set off is over.
	Step()
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
