package simredis

import (
	"strings"
	"time"
)

// stream is a connection as the network and the server have it: the messages under way,
// and the server's end. Conn is the client's end. The world's lock protects it.
type stream struct {
	client   *Conn
	link     *Link
	server   *Server
	dialled  time.Duration
	id       int64
	channels []string // that it is subscribed to
	listens  bool     // it has subscribed once: a ping has another answer

	out     half // to the server
	in      half // to the client
	closing bool // the client has closed it: the server does so after the commands that still arrive
	left    bool // the server has closed it
	arrived int  // commands that the server has yet to execute
}

// half is one direction of a stream.
type half struct {
	messages []message // under way
	sent     int       // messages so far
	swallows bool      // nothing arrives any more, and neither end is informed
	posted   bool      // the delivery of the first message is on the agenda
}

// message is one command or reply under way.
type message struct {
	due   time.Duration // since the world began
	fate  Fate
	args  []string
	reply any
	ends  bool // the connection, from the server's side
}

// next returns the fate of the next message.
func (s *stream) next(toServer bool) Fate {
	h := &s.in
	if toServer {
		h = &s.out
	}
	h.sent++
	return s.link.fate(s.dialled, toServer, h.sent)
}

// post appends a message to the others under way: it never overtakes them.
func (s *stream) post(h *half, m message) {
	m.due = s.server.world.awake() + m.fate.Delay
	if n := len(h.messages); n > 0 {
		m.due = max(m.due, h.messages[n-1].due)
	}
	h.messages = append(h.messages, m)
}

// identity names an event of this connection.
func (s *stream) identity(kind eventKind) identity {
	return identity{s.link.client, s.server.index, s.dialled, kind}
}

// canArrive reports whether the first command may reach the server.
func (s *stream) canArrive() bool {
	return len(s.out.messages) > 0 && !s.left && !s.server.frozen && !s.link.blocked[0]
}

// canCome reports whether the first reply may reach the client.
func (s *stream) canCome() bool { return len(s.in.messages) > 0 && !s.link.blocked[1] }

// schedule posts the delivery of the first command and of the first reply, unless something
// holds them back: the method that ends that calls schedule again.
func (s *stream) schedule() {
	w := s.server.world
	if s.canArrive() && !s.out.posted {
		s.out.posted = true
		w.post(s.out.messages[0].due, s.identity(deliveringToServer), s.deliverCommand)
	}
	if s.canCome() && !s.in.posted {
		s.in.posted = true
		w.post(s.in.messages[0].due, s.identity(deliveringToClient), s.deliverReply)
	}
}

func (s *stream) deliverCommand() {
	s.out.posted = false
	if s.canArrive() && s.out.messages[0].due <= s.server.world.awake() {
		m := s.out.messages[0]
		s.out.messages = s.out.messages[1:]
		s.receiveCommand(m)
		s.leaveIfDone()
	}
	s.schedule()
}

func (s *stream) deliverReply() {
	s.in.posted = false
	if s.canCome() && s.in.messages[0].due <= s.server.world.awake() {
		m := s.in.messages[0]
		s.in.messages = s.in.messages[1:]
		s.receiveReply(m)
	}
	s.schedule()
}

// leaveIfDone removes a connection that the client has closed from the server, once the
// server has executed all its commands.
func (s *stream) leaveIfDone() {
	if s.closing && len(s.out.messages) == 0 && s.arrived == 0 && !s.left && !s.link.vanished {
		s.left = true
		s.server.forget(s)
	}
}

// receiveCommand handles a command that has reached the server.
func (s *stream) receiveCommand(m message) {
	if s.out.swallows {
		return
	}
	if m.fate.Lost {
		if s.out.swallows = m.fate.Silent; !m.fate.Silent {
			s.out.messages, s.left = nil, true
			s.server.forget(s)
			s.client.fail(errReset)
		}
		return
	}
	s.server.accept(s, m)
}

// perform executes a command, and replies.
func (s *stream) perform(m message) {
	reply := s.execute(m.args)
	if m.fate.Twice && strings.HasPrefix(m.args[0], "EVAL") {
		s.execute(m.args) // its reply is dropped
	}
	s.reply(reply, false)
}

func (s *stream) execute(args []string) any {
	reply := s.server.execute(s, args)
	s.link.logCommand(args, reply)
	return reply
}

// reply sends a reply, or a pushed message.
func (s *stream) reply(value any, push bool) {
	fate := s.next(false)
	if push && fate.Lost {
		return
	}
	s.post(&s.in, message{reply: value, fate: fate})
	s.schedule()
}

// receiveReply handles a reply that has reached the client.
func (s *stream) receiveReply(m message) {
	switch {
	case s.client.broken != nil || s.in.swallows:
	case m.ends:
		s.client.fail(errEOF)
	case m.fate.Lost && m.fate.Silent:
		s.in.swallows = true
	case m.fate.Lost:
		s.client.fail(errReset)
	default:
		s.client.inbox = append(s.client.inbox, m.reply)
		s.client.poke()
	}
}

// leaveServer ends the connection from the server's side.
func (s *stream) leaveServer(silent bool) {
	s.out.messages, s.left = nil, true
	if silent {
		s.in.swallows = true
	} else {
		s.post(&s.in, message{ends: true, fate: Fate{Delay: s.next(false).Delay}})
		s.schedule()
	}
}
