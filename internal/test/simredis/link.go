package simredis

import (
	"cmp"
	"context"
	"slices"
	"time"

	"github.com/gomodule/redigo/redis"
)

// Fate is what happens to one message: a command, a reply, or a pushed message.
type Fate struct {
	Delay  time.Duration // on its way; it never overtakes another one
	Lost   bool          // it does not arrive, and the connection ends there
	Silent bool          // with Lost: the connection stays, and nothing arrives any more; a lost push never ends it
	Twice  bool          // a command: it is executed twice
}

// Fates decides the fate of the n-th message, in one direction, on the connection that was
// dialled at this instant.
type Fates func(dialled time.Duration, toServer bool, n int) Fate

// Link is the network between one client and one server. It implements the library's pool
// of connections.
type Link struct {
	client string // its name in the log
	fate   Fates

	server   *Server
	conns    []*stream // those that the client has not closed
	blocked  [2]bool   // by direction: messages wait
	vanished bool      // the client's machine is gone: the server never learns that a connection has ended
	deaf     bool      // the client may not subscribe
}

// Link makes a link to the server.
func (s *Server) Link(client string, fate Fates) *Link {
	return &Link{client: client, fate: fate, server: s}
}

func (l *Link) String() string { return l.server.String() }

// direction returns the index of a direction: to the server, or from it.
func direction(toServer bool) int {
	if toServer {
		return 0
	}
	return 1
}

// Block holds messages of one direction back, or lets them go on.
func (l *Link) Block(toServer, held bool) {
	w := l.server.world
	w.mu.Lock()
	defer w.mu.Unlock()
	l.blocked[direction(toServer)] = held
	for _, c := range l.conns {
		c.schedule()
	}
}

// Vanish hides from the server, from now on, that connections end, as when the client's machine loses its power. The kernel of
// a machine that goes on tells it of the end of a process at once.
func (l *Link) Vanish() {
	w := l.server.world
	w.mu.Lock()
	defer w.mu.Unlock()
	l.vanished = true
}

// Deafen takes the right to subscribe from the client, from now on.
func (l *Link) Deafen() {
	w := l.server.world
	w.mu.Lock()
	defer w.mu.Unlock()
	l.deaf = true
}

// BreakSubscriptions has the server end the link's connections that are subscribed to a channel.
func (l *Link) BreakSubscriptions() {
	w := l.server.world
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, c := range l.conns {
		if c.listens && !c.left {
			c.leaveServer(false)
			l.server.forget(c)
		}
	}
}

// Reset ends the link's connections. Of the commands on their way to the server, the first
// arrive ones still arrive, later than they would have by late.
func (l *Link) Reset(arrive int, late time.Duration) {
	w := l.server.world
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, c := range l.conns {
		c.out.messages = c.out.messages[:min(len(c.out.messages), arrive)]
		for i := range c.out.messages {
			c.out.messages[i].due += late
		}
		c.closing = true
		c.in.messages = nil
		c.leaveIfDone()
		w.post(0, c.identity(breaking), func() { c.client.fail(errReset) })
	}
}

// GetContext makes a connection, in a round trip.
func (l *Link) GetContext(ctx context.Context) (redis.Conn, error) {
	w := l.server.world
	w.mu.Lock()
	dialled := w.now()
	there, back := l.fate(dialled, true, 0), l.fate(dialled, false, 0)
	s := l.server
	arrived := make(chan struct{})
	w.post(w.awake()+there.Delay+back.Delay, identity{l.client, s.index, dialled, dialling}, func() { close(arrived) })
	w.mu.Unlock()
	select {
	case <-arrived:
	case <-ctx.Done():
		return nil, ctx.Err()
	}
	w.mu.Lock()
	unanswered := s.silent || l.blocked[0] || l.blocked[1] || there.Lost && there.Silent
	refused := s.down || there.Lost || back.Lost
	if !unanswered && !refused {
		defer w.mu.Unlock()
		l.logCommand([]string{"DIAL", dialled.String()}, status("OK"))
		s.clients++
		client := &Conn{wake: make(chan struct{}, 1)}
		c := &stream{client: client, link: l, server: s, dialled: dialled, id: s.clients}
		client.stream = c
		s.conns = append(s.conns, c)
		slices.SortStableFunc(s.conns, func(a, b *stream) int {
			return cmp.Or(cmp.Compare(a.dialled, b.dialled), cmp.Compare(a.link.client, b.link.client))
		})
		l.conns = append(slices.DeleteFunc(l.conns, func(old *stream) bool { return old.closing && len(old.out.messages) == 0 }), c)
		return client, nil
	}
	l.logCommand([]string{"DIAL", dialled.String()}, errRefused.Error())
	w.mu.Unlock()
	if unanswered {
		<-ctx.Done()
		return nil, ctx.Err()
	}
	return nil, errRefused
}

// logCommand logs a command that the server executed, and its reply.
func (l *Link) logCommand(args []string, reply any) {
	if w := l.server.world; w.log != nil {
		w.log(w.now(), l.server.index, l.client, args, reply)
	}
}
