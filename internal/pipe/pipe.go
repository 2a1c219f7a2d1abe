package pipe

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"github.com/gomodule/redigo/redis"
)

const (
	// maxWireBytes is how many bytes may be on the wire unanswered. The rest of the queue
	// stays in this process.
	maxWireBytes = 64 << 10

	// A caller writes only while less than this is unanswered. A socket buffers
	// that much even if the server does not read, in few large writes or in many small
	// ones, each of which takes a buffer of about a kilobyte. Above that, a goroutine of the
	// pipe writes, which may block; so no caller blocks on a server that has stopped reading.
	maxCallerBytes  = 16 << 10
	maxCallerWrites = 48

	// maxCallerFlushes is how many times a caller flushes before it hands the writing to a
	// goroutine: it must not go on writing for others for ever.
	maxCallerFlushes = 4
)

// ErrNotSent is the outcome of a call that was not sent: it was not executed and never
// will be.
var ErrNotSent = errors.New("not sent")

// Receiver receives the outcome of a call.
type Receiver interface {
	// The pipe calls Receive once for each command of a queued call; in its place ReceiveQuick, for a reply of a
	// QuickReceiver that is no error. The reader calls it, or the goroutine that broke the pipe, never two at a
	// time. It must not block. err is nil, or the server's redis.Error. If it wraps ErrNotSent, the pipe has sent
	// no command of the call. With any other error the server may have executed the command, or may still do so.
	Receive(reply any, err error)
}

// Series is a Receiver that is several commands, too. The pipe sends no other call's command between them. If it
// has not sent the first, it sends none of them; if the connection breaks, the server may have got only some.
type Series interface {
	Receiver

	// Send sends the commands, as many as the call says, in the order of their answers.
	Send(to Sender) error

	// Size returns about how many bytes they take on the wire.
	Size() int
}

// Sender takes commands.
type Sender interface {
	Send(command string, args ...any) error
}

// Call is one command, or a Series of them. It belongs to the pipe from Queue until the last Receive. If Done is
// false then, a writer may still read the call, and the pipe does not report when the writer has stopped.
type Call struct {
	Command string // without a Series
	Args    []any
	To      Receiver
	Series  int16 // how many commands To sends, if it is a Series; 0: it is none

	// Done says, during the last Receive, whether no goroutine reads the call or its arguments any more. It is false if
	// the last answer came before a writer had handed its whole batch to the connection, if the pipe broke before that
	// answer, and if the connection is no QuickConn.
	Done bool

	opens  bool          // it is the first call of a write
	begun  bool          // the first of several answers has come: the reader delivers the others, or an error in their place
	size   int32         // bytes on the wire, about
	queued time.Duration // when, on the caller's clock
}

// answers returns how many answers the call gets.
func (c *Call) answers() int { return int(max(c.Series, 1)) }

// Deliver hands the server's reply, or its error, to the call's receiver.
func (c *Call) Deliver(r *Reply, err error) {
	switch to, is := c.To.(QuickReceiver); {
	case err != nil:
		c.To.Receive(nil, err)
	case is:
		to.ReceiveQuick(r)
	default:
		c.To.Receive(r.Value(), nil)
	}
}

// Pipe is one shared connection. New makes it; it ends with Kill, or when the connection
// breaks.
type Pipe struct {
	conn   redis.Conn
	quick  QuickConn     // conn, if it is one
	done   chan struct{} // closed when conn was closed
	failed chan struct{} // closed when fail has delivered its errors

	batch   []*Call       // used by the writer alone
	encoded atomic.Uint64 // how many calls the writers have handed to a QuickConn: no writer reads these any more

	mu      sync.Mutex // protects what follows
	calls   fifo       // unanswered calls, oldest first
	load    int        // commands of these
	sent    int        // how many calls, from the front, a writer has taken
	wire    int        // bytes of those
	writes  int        // how many writes these took
	bytes   int        // bytes of all calls
	writing bool       // some goroutine is the writer: it alone may flush, and must
	users   int        // how many goroutines use conn
	err     error      // why the pipe is broken

	popped   uint64 // how many calls pop has removed, in order; only fail removes others, and no pop follows it
	answered uint64 // grows with a call's first answer, and with its last
}

// New starts a pipe over conn, which it owns from now on and closes when the pipe has
// ended. conn must implement redis.ConnWithContext and redis.ConnWithTimeout, as redigo's
// connections do.
func New(conn redis.Conn) *Pipe {
	p := &Pipe{conn: conn, done: make(chan struct{}), failed: make(chan struct{}), users: 1}
	p.quick, _ = conn.(QuickConn)
	go p.read()
	return p
}

// Done returns a channel that is closed when the pipe has ended and its connection was
// closed.
func (p *Pipe) Done() <-chan struct{} { return p.done }

// Err returns why the pipe is broken; nil while it works.
func (p *Pipe) Err() error {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.err
}

// Queue appends a call, at the instant now of the caller's clock. If flush is true, the caller has
// become the writer and must call Flush soon, in any case; load is how many commands before these are
// unanswered. With an error nothing was queued and Receive is not called: the pipe is broken, or the limit is
// exceeded (nil: no limit).
func (p *Pipe) Queue(c *Call, now time.Duration, limit *Limit) (flush bool, load int, err error) {
	c.queued, c.Done = now, false
	if c.Series > 0 {
		c.size = int32(c.To.(Series).Size())
	} else {
		c.size = int32(Size(c.Command, c.Args))
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.err != nil {
		return false, 0, p.err
	}
	if limit != nil {
		if s := p.silence(now); s > limit.Silence {
			return false, 0, StalledFor(s)
		}
		if p.bytes > limit.Bytes {
			return false, 0, fmt.Errorf("%w: %d KiB unanswered", ErrStalled, p.bytes>>10)
		}
	}
	load = p.load
	p.calls.push(c)
	p.load += c.answers()
	p.bytes += int(c.size)
	flush = !p.writing
	p.writing = true
	if flush {
		p.users++
	}
	return flush, load, nil
}

// Flush writes the queue, or starts a goroutine that does. Only the caller for which Queue
// returned flush may call it. It does not block.
func (p *Pipe) Flush() {
	for range maxCallerFlushes {
		switch p.nextBatch(maxCallerBytes, maxCallerWrites) {
		case nothingQueued:
			return
		case mayBlock:
			go p.flushAll()
			return
		}
		if err := p.write(); err != nil {
			p.fail(err)
		}
	}
	go p.flushAll()
}

// flushAll writes until the queue is empty, the wire is full or the pipe breaks. The caller
// must be the writer.
func (p *Pipe) flushAll() {
	for p.nextBatch(maxWireBytes, unlimited) == batchReady {
		if err := p.write(); err != nil {
			p.fail(err)
		}
	}
}

const unlimited = int(^uint(0) >> 1)

// batchState is a result of nextBatch.
type batchState int

const (
	nothingQueued batchState = iota // or no room: the goroutine is not the writer any more
	batchReady                      // the writer must write the batch
	mayBlock                        // the next write could block
)

// nextBatch moves calls from the queue into the batch, as many as fit within so many bytes
// and writes on the wire. If there is nothing to write, the goroutine stops being the
// writer.
func (p *Pipe) nextBatch(maxBytes, maxWrites int) batchState {
	p.mu.Lock()
	clear(p.batch)
	p.batch = p.batch[:0]
	for p.err == nil && p.sent < p.calls.n && p.wire < maxBytes && p.writes < maxWrites {
		c := p.calls.at(p.sent)
		if maxBytes < maxWireBytes && p.wire+int(c.size) > maxBytes {
			break
		}
		c.opens = len(p.batch) == 0
		p.batch = append(p.batch, c)
		p.sent++
		p.wire += int(c.size)
	}
	if len(p.batch) > 0 {
		p.writes++
		p.mu.Unlock()
		return batchReady
	}
	if p.err == nil && p.sent < p.calls.n && p.wire < maxWireBytes { // more is queued
		p.mu.Unlock()
		return mayBlock
	}
	p.writing = false
	p.mu.Unlock()
	p.releaseConn()
	return nothingQueued
}

// write hands the batch to the connection.
func (p *Pipe) write() error {
	for _, c := range p.batch {
		var err error
		if c.Series > 0 {
			err = c.To.(Series).Send(p.conn)
		} else {
			err = p.conn.Send(c.Command, c.Args...)
		}
		if err != nil {
			return err
		}
	}
	if p.quick != nil {
		p.encoded.Add(uint64(len(p.batch)))
	}
	return p.conn.Flush()
}

// read delivers the replies to their calls until the pipe breaks. It always waits at the
// socket, so that the end of an idle connection is noticed too.
func (p *Pipe) read() {
	defer p.releaseConn()
	var reply Reply
	for {
		err := p.receive(&reply)
		if err != nil && !isReply(err) {
			p.fail(err)
			return
		}
		c, left, flush := p.begin()
		if c == nil {
			p.fail(errors.New("the server sent a reply without a request"))
			return
		}
		c.Deliver(&reply, err)
		for ; left > 0; left-- {
			if err = p.receive(&reply); err != nil && !isReply(err) {
				p.fail(err)
				p.abandon(c, left)
				return
			}
			if left == 1 {
				flush = p.finish()
			}
			c.Deliver(&reply, err)
		}
		if flush {
			p.Flush()
		}
	}
}

// abandon delivers the error of the broken pipe in the place of a series' last answers, after those of all other
// calls: a simulation must be repeatable.
func (p *Pipe) abandon(c *Call, left int) {
	<-p.failed
	for why := p.Err(); left > 0; left-- {
		p.deliverError(c, why)
	}
}

// receive reads the next reply.
func (p *Pipe) receive(r *Reply) error {
	if p.quick != nil {
		return p.quick.ReceiveReply(r)
	}
	value, err := Receive(p.conn, 0)
	r.Set(value)
	return err
}

// Receive returns the next reply; timeout 0 is none. If a server sends bytes that are no reply, another library's
// reader may panic: Receive then cuts the connection, and returns an error.
func Receive(conn redis.Conn, timeout time.Duration) (reply any, err error) {
	defer func() {
		if why := recover(); why != nil {
			Cut(conn)
			reply, err = nil, fmt.Errorf("the server's reply is wrong: %T panics: %v", conn, why)
		}
	}()
	return redis.ReceiveWithTimeout(conn, timeout)
}

// isReply reports whether err is an error reply of the server, not a broken connection.
func isReply(err error) bool {
	_, ok := err.(redis.Error)
	return ok
}

// begin returns the oldest call, whose first answer has come, and how many answers to it are left. If there is
// none left, the call is finished.
func (p *Pipe) begin() (c *Call, left int, flush bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.sent == 0 {
		return nil, 0, false
	}
	c = p.calls.at(0)
	p.answered++
	if left = c.answers() - 1; left == 0 {
		return c, 0, p.pop()
	}
	c.begun = true
	return c, left, false
}

// finish removes the oldest call, all of whose answers have come. The call's last Receive follows.
func (p *Pipe) finish() (flush bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.answered++
	return p.err == nil && p.pop() // a broken pipe has no calls any more
}

// pop removes the oldest call. If flush is true, its reply made room on the wire, and the
// reader has become the writer. Called under p.mu.
func (p *Pipe) pop() (flush bool) {
	c := p.calls.pop()
	c.Done = p.popped < p.encoded.Load()
	p.popped++
	p.load -= c.answers()
	p.sent--
	p.wire -= int(c.size)
	p.bytes -= int(c.size)
	if c.opens {
		p.writes--
	}
	if p.sent < p.calls.n && !p.writing && p.wire < maxWireBytes/2 {
		p.writing = true
		p.users++
		return true
	}
	return false
}

// Kill breaks the pipe at once, without waiting for outstanding replies. It does nothing to
// a pipe that is broken.
func (p *Pipe) Kill(why error) { p.fail(why) }

// fail breaks the pipe, and delivers the error to every unanswered call but one that is begun: the reader delivers
// its last answers if they have come, else the error, and ends.
func (p *Pipe) fail(why error) {
	p.mu.Lock()
	if p.err != nil {
		p.mu.Unlock()
		return
	}
	p.err = why
	p.users++
	calls, sent := p.calls.drain(), p.sent
	if sent > 0 && calls[0].begun {
		calls, sent = calls[1:], sent-1
	}
	p.sent, p.wire, p.writes, p.bytes, p.load = 0, 0, 0, 0, 0
	p.mu.Unlock()

	Cut(p.conn)
	for i, c := range calls {
		err := why
		if i >= sent {
			err = fmt.Errorf("%w: %w", ErrNotSent, why)
		}
		for range c.answers() {
			p.deliverError(c, err)
		}
	}
	close(p.failed)
	p.releaseConn()
}

// deliverError delivers an error in the place of an answer. A simulation then does all that this causes.
func (p *Pipe) deliverError(c *Call, err error) {
	c.To.Receive(nil, err)
	if simulated, is := p.conn.(stepper); is {
		simulated.Step()
	}
}

// stepper is a connection of a simulation, which waits after each error that is delivered because of it.
// Otherwise the callers would race with each other and with goroutines that await Done, and
// the simulation could not be repeated.
type stepper interface {
	// Step returns when everything that the last call caused is done.
	Step()
}

// releaseConn ends one goroutine's use of conn. The last goroutine closes conn: nothing
// else may run beside a pooled connection's Close.
func (p *Pipe) releaseConn() {
	p.mu.Lock()
	p.users--
	last := p.users == 0 && p.err != nil
	p.mu.Unlock()
	if last {
		_ = p.conn.Close() // it is broken already
		close(p.done)
	}
}

// Cut closes the socket under conn, so that reads and writes return; it may run beside
// both, but not beside conn's Close. On redigo's connections, receiving with a deadline
// that has passed does this and nothing else; their Close would first wait for the replies.
func Cut(conn redis.Conn) {
	ctx, cancel := context.WithDeadline(context.Background(), time.Unix(0, 0))
	defer cancel()
	_, _ = redis.ReceiveContext(conn, ctx) // the error is the purpose
}

// ErrStalled is why a call was not queued: too many bytes are unanswered, or for too long.
var ErrStalled = errors.New("stalled")

// StalledFor returns ErrStalled of a connection whose oldest unanswered call has waited for so long.
func StalledFor(silence time.Duration) error {
	return fmt.Errorf("%w: no answer for %v", ErrStalled, silence.Round(time.Millisecond))
}

// Unanswered returns how many commands wait for their answers.
func (p *Pipe) Unanswered() int {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.load
}

// Silence returns how long, at the instant now, the oldest unanswered call has waited; 0 if
// there is none.
func (p *Pipe) Silence(now time.Duration) time.Duration {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.silence(now)
}

// silence is Silence. Called under p.mu.
func (p *Pipe) silence(now time.Duration) time.Duration {
	if p.calls.n == 0 {
		return 0
	}
	return now - p.calls.at(0).queued
}

// Limit bounds what may be unanswered when a call is queued.
type Limit struct {
	Silence time.Duration // how long the oldest call may have waited
	Bytes   int           // how many bytes may be unanswered
}

// Size returns about how many bytes a command takes on the wire.
func Size(command string, args []any) int {
	n := len(command) + 16
	for _, a := range args {
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

// Answered returns a number that grows while the server answers.
func (p *Pipe) Answered() uint64 {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.answered
}

// fifo is a queue of calls in a ring, which grows as needed and does not shrink.
type fifo struct {
	ring []*Call // its length is a power of two
	head int
	n    int
}

func (f *fifo) at(i int) *Call { return f.ring[(f.head+i)&(len(f.ring)-1)] }

func (f *fifo) push(c *Call) {
	if f.n == len(f.ring) {
		f.grow()
	}
	f.ring[(f.head+f.n)&(len(f.ring)-1)] = c
	f.n++
}

func (f *fifo) pop() *Call {
	c := f.ring[f.head]
	f.ring[f.head] = nil
	f.head = (f.head + 1) & (len(f.ring) - 1)
	f.n--
	return c
}

// drain empties the ring and returns its calls, in order.
func (f *fifo) drain() []*Call {
	all := make([]*Call, f.n)
	for i := range all {
		all[i] = f.at(i)
	}
	*f = fifo{}
	return all
}

func (f *fifo) grow() {
	ring := make([]*Call, max(16, 2*len(f.ring)))
	for i := range f.n {
		ring[i] = f.at(i)
	}
	f.ring, f.head = ring, 0
}
