package simredis

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/gomodule/redigo/redis"
)

var (
	errRefused = errors.New("connection refused")
	errReset   = errors.New("connection reset by peer")
	errEOF     = errors.New("EOF")
	errCut     = errors.New("use of closed connection")
)

// Conn is one connection, as redigo has them. One goroutine may send beside
// another that receives.
type Conn struct {
	link    *Link
	server  *Server
	dialled time.Duration
	id      int64
	channel string // what it is subscribed to
	counts  [2]int // messages so far, to the server and from it

	unsent  [][]string // between Send and Flush
	out     []message  // on the way to the server
	in      []message  // on the way back
	closing bool       // the client has closed it: the server does, when it has executed what arrives
	left    bool       // the server has closed it
	deaf    [2]bool    // nothing arrives any more, and nobody is told
	posted  [2]bool    // the delivery of the first message is on the agenda

	inbox  []any // arrived replies
	broken error // what the client gets when the inbox is empty
	wake   chan struct{}
}

// message is one command or reply under way.
type message struct {
	due   time.Duration // since the world began
	fate  Fate
	args  []string
	reply any
	ends  bool // the connection, from the server's side
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

// Flush sends what is queued. Each command has a fate of its own, so it does not
// matter in how many writes they go.
func (c *Conn) Flush() error {
	w := c.server.world
	w.mu.Lock()
	defer w.mu.Unlock()
	commands := c.unsent
	c.unsent = nil
	if c.broken != nil {
		return c.broken
	}
	if c.closing {
		return nil // it was reset, which the client learns an instant later
	}
	for _, args := range commands {
		c.out = c.post(c.out, message{args: args, fate: c.next(true)})
	}
	c.schedule()
	return nil
}

// next is the fate of the next message.
func (c *Conn) next(toServer bool) Fate {
	d := direction(toServer)
	c.counts[d]++
	return c.link.fate(c.dialled, toServer, c.counts[d])
}

// post puts a message behind the others on its way: it never overtakes them.
func (c *Conn) post(way []message, m message) []message {
	m.due = c.server.world.awake() + m.fate.Delay
	if len(way) > 0 {
		m.due = max(m.due, way[len(way)-1].due)
	}
	return append(way, m)
}

// identity names an event of this connection.
func (c *Conn) identity(kind eventKind) identity {
	return identity{c.link.who, c.server.index, c.dialled, kind}
}

// Step waits for an instant of the connection's own. internal/pipe calls it between
// two calls that it fails.
func (c *Conn) Step() { c.server.world.await(c.identity(stepping)) }

// canArrive reports whether the first command may reach the server.
func (c *Conn) canArrive() bool {
	return len(c.out) > 0 && !c.left && !c.server.frozen && !c.link.blocked[0]
}

// canCome reports whether the first reply may reach the client.
func (c *Conn) canCome() bool { return len(c.in) > 0 && !c.link.blocked[1] }

// schedule posts the delivery of the first command and of the first reply, unless
// something holds them back: the call that ends this schedules them again.
func (c *Conn) schedule() {
	w := c.server.world
	if c.canArrive() && !c.posted[0] {
		c.posted[0] = true
		w.post(c.out[0].due, c.identity(deliveringToServer), c.deliverCommand)
	}
	if c.canCome() && !c.posted[1] {
		c.posted[1] = true
		w.post(c.in[0].due, c.identity(deliveringToClient), c.deliverReply)
	}
}

func (c *Conn) deliverCommand() {
	c.posted[0] = false
	if c.canArrive() && c.out[0].due <= c.server.world.awake() {
		m := c.out[0]
		c.out = c.out[1:]
		c.arrive(m)
		c.leaveIfDone()
	}
	c.schedule()
}

func (c *Conn) deliverReply() {
	c.posted[1] = false
	if c.canCome() && c.in[0].due <= c.server.world.awake() {
		m := c.in[0]
		c.in = c.in[1:]
		c.come(m)
	}
	c.schedule()
}

// leaveIfDone has the server forget a connection that the client has closed, once it
// has executed what was sent.
func (c *Conn) leaveIfDone() {
	if c.closing && len(c.out) == 0 && !c.left {
		c.left = true
		c.server.forget(c)
	}
}

// arrive handles a command that has reached the server.
func (c *Conn) arrive(m message) {
	if c.deaf[0] {
		return
	}
	if m.fate.Lost {
		if c.deaf[0] = m.fate.Silent; !m.fate.Silent {
			c.out, c.left = nil, true
			c.server.forget(c)
			c.fail(errReset)
		}
		return
	}
	reply := c.do(m.args)
	if m.fate.Twice && strings.HasPrefix(m.args[0], "EVAL") {
		c.do(m.args) // its reply reaches nobody
	}
	c.reply(reply, false)
}

func (c *Conn) do(args []string) any {
	reply := c.server.execute(c, args)
	c.link.say(args, reply)
	return reply
}

// reply sends an answer, or a call.
func (c *Conn) reply(value any, call bool) {
	fate := c.next(false)
	if call && fate.Lost {
		return
	}
	c.in = c.post(c.in, message{reply: value, fate: fate})
	c.schedule()
}

// come is a reply at the client.
func (c *Conn) come(m message) {
	switch {
	case c.broken != nil || c.deaf[1]:
	case m.ends:
		c.fail(errEOF)
	case m.fate.Lost && m.fate.Silent:
		c.deaf[1] = true
	case m.fate.Lost:
		c.fail(errReset)
	default:
		c.inbox = append(c.inbox, m.reply)
		c.poke()
	}
}

// leaveServer ends the connection from the server's side.
func (c *Conn) leaveServer(silent bool) {
	c.out, c.left = nil, true
	if silent {
		c.deaf[1] = true
	} else {
		c.in = c.post(c.in, message{ends: true, fate: Fate{Delay: c.next(false).Delay}})
		c.schedule()
	}
}

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
	default: // whoever receives will look
	}
}

// Close cuts the connection. What is on its way to the server may arrive yet.
func (c *Conn) Close() error {
	c.cut()
	return nil
}

func (c *Conn) cut() {
	w := c.server.world
	w.mu.Lock()
	defer w.mu.Unlock()
	if !c.closing {
		c.closing = true
		c.in, c.inbox = nil, nil
		c.fail(errCut)
		c.leaveIfDone()
	}
}

// ReceiveWithTimeout waits for the next reply; 0: for as long as it takes.
func (c *Conn) ReceiveWithTimeout(timeout time.Duration) (any, error) {
	var over <-chan time.Time
	if timeout > 0 {
		timer := time.NewTimer(timeout)
		defer timer.Stop()
		over = timer.C
	}
	for {
		if reply, err, got := c.take(); got {
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

// take is what there is for the client.
func (c *Conn) take() (reply any, err error, got bool) {
	w := c.server.world
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

// ReceiveContext cuts the connection where ctx is over, which is all that the
// library uses it for.
func (c *Conn) ReceiveContext(ctx context.Context) (any, error) {
	if ctx.Err() != nil {
		c.cut()
		return nil, ctx.Err()
	}
	return c.Receive()
}

// Receive waits for the next reply.
func (c *Conn) Receive() (any, error) { return c.ReceiveWithTimeout(0) }

// Err tells that the connection is broken.
func (c *Conn) Err() error {
	w := c.server.world
	w.mu.Lock()
	defer w.mu.Unlock()
	return c.broken
}

var errAlone = errors.New("simredis: Do is not for shared connections")

// Do is not supported, nor are its variants.
func (c *Conn) Do(string, ...any) (any, error) { return nil, errAlone }

// DoWithTimeout is not supported.
func (c *Conn) DoWithTimeout(time.Duration, string, ...any) (any, error) { return nil, errAlone }

// DoContext is not supported.
func (c *Conn) DoContext(context.Context, string, ...any) (any, error) { return nil, errAlone }
