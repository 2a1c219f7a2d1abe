package simredis

import (
	"cmp"
	"context"
	"slices"
	"time"

	"github.com/gomodule/redigo/redis"
)

// Fate is what becomes of one message: a command, a reply, or a call.
type Fate struct {
	Delay  time.Duration // on its way; it never overtakes another one
	Lost   bool          // it does not arrive, and the connection ends there
	Silent bool          // neither end is told; a call is lost without an end
	Twice  bool          // a command: it is executed twice
}

// Fates decide what becomes of the n-th message, of one direction, on the connection
// that was asked for at the instant dialled.
type Fates func(dialled time.Duration, toServer bool, n int) Fate

// Link is the way from one client to one server. It is a pool of connections, as the
// library takes them.
type Link struct {
	who  string // names the client, in the log
	fate Fates

	server  *Server
	conns   []*stream // those whose client's end stands
	blocked [2]bool   // what is sent waits
}

// Link makes a link to the server.
func (s *Server) Link(who string, fate Fates) *Link {
	return &Link{who: who, fate: fate, server: s}
}

func (l *Link) String() string { return l.server.String() }

// direction is an index: to the server, or from it.
func direction(toServer bool) int {
	if toServer {
		return 0
	}
	return 1
}

// Block holds back what is sent in one direction, or no more.
func (l *Link) Block(toServer, held bool) {
	w := l.server.world
	w.mu.Lock()
	defer w.mu.Unlock()
	l.blocked[direction(toServer)] = held
	for _, c := range l.conns {
		c.schedule()
	}
}

// Reset ends the link's connections; of what is on its way to the server, the first
// so many commands still arrive.
func (l *Link) Reset(arrive int) {
	w := l.server.world
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, c := range l.conns {
		c.out.messages = c.out.messages[:min(len(c.out.messages), arrive)]
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
	come := make(chan struct{})
	w.post(w.awake()+there.Delay+back.Delay, identity{l.who, s.index, dialled, dialling}, func() { close(come) })
	w.mu.Unlock()
	select {
	case <-come:
	case <-ctx.Done():
		return nil, ctx.Err()
	}
	w.mu.Lock()
	unheard := s.silent || l.blocked[0] || l.blocked[1] || there.Lost && there.Silent
	refused := s.down || there.Lost || back.Lost
	if !unheard && !refused {
		defer w.mu.Unlock()
		l.say([]string{"DIAL", dialled.String()}, status("OK"))
		s.clients++
		client := &Conn{wake: make(chan struct{}, 1)}
		c := &stream{client: client, link: l, server: s, dialled: dialled, id: s.clients}
		client.stream = c
		s.conns = append(s.conns, c)
		slices.SortStableFunc(s.conns, func(a, b *stream) int {
			return cmp.Or(cmp.Compare(a.dialled, b.dialled), cmp.Compare(a.link.who, b.link.who))
		})
		l.conns = append(slices.DeleteFunc(l.conns, func(old *stream) bool { return old.closing && len(old.out.messages) == 0 }), c)
		return client, nil
	}
	l.say([]string{"DIAL", dialled.String()}, errRefused.Error())
	w.mu.Unlock()
	if unheard {
		<-ctx.Done()
		return nil, ctx.Err()
	}
	return nil, errRefused
}

// say puts into the log what happens at the server.
func (l *Link) say(args []string, reply any) {
	if w := l.server.world; w.log != nil {
		w.log(w.now(), l.server.index, l.who, args, reply)
	}
}
