package node

import (
	"errors"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"

	"github.com/gomodule/redigo/redis"

	"github.com/redlock-go/redlock/internal/pipe"
	"github.com/redlock-go/redlock/internal/protocol"
)

// Refusal is why a node does not do what a lock needs, though it is connected.
type Refusal struct {
	Err   error // the server's, with its remedy
	Since time.Duration
}

// acceptance is whether a node does what a lock needs. A vote or a look that the server refuses ends it; a grant, or a
// look that succeeds, restores it. Any goroutine uses it.
type acceptance struct {
	refusal atomic.Pointer[Refusal] // nil: as far as is known, it accepts; stored under mu

	mu        sync.Mutex    // protects what follows; the lock of Majority may be taken under it
	condition condition     // of the node
	isLogged  bool          // the log says that the node refuses
	loggedAt  time.Duration // when that was last logged; 0: never
}

// Refusal returns why the node does not do what a lock needs; nil if no vote and no look has shown that.
func (s *Status) Refusal() *Refusal { return s.refusal.Load() }

// Refuse records that the node refused what every lock needs. The log has a line when that begins, but not more often
// than once in a downLogInterval.
func (s *Status) Refuse(err error) {
	r := Refusal{Err: Advise(err), Since: s.cfg.Clock()}
	s.mu.Lock()
	defer s.mu.Unlock()
	now, before := r.Since, s.refusal.Load()
	if before != nil {
		r.Since = before.Since
	}
	s.refusal.Store(&r)
	if before == nil {
		s.cfg.Majority.refuse(s.index, true)
	}
	if !s.isLogged && (s.loggedAt == 0 || now-s.loggedAt >= downLogInterval) {
		s.isLogged, s.loggedAt = true, now
		s.cfg.Events.Log(slog.LevelWarn,
			"a node answers, and refuses what every lock needs; locks go on while a majority votes",
			"node", s.name, "error", r.Err)
	}
	if before == nil && s.cfg.Observer != nil {
		s.cfg.Observer.NodeRefuses(s.index, s.name, r.Err)
	}
}

// isRefusalLogged reports whether the log says that the node refuses.
func (s *Status) isRefusalLogged() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.isLogged
}

// Accept records that the node did all that a lock needs.
func (s *Status) Accept() {
	if s.refusal.Load() == nil {
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	r := s.refusal.Swap(nil)
	if r == nil {
		return // another call was faster
	}
	s.cfg.Majority.refuse(s.index, false)
	if s.isLogged {
		s.isLogged = false
		s.cfg.Events.Log(slog.LevelInfo, "a node does what locks need again", "node", s.name, "after",
			s.cfg.Clock()-r.Since)
	}
	if s.condition == up && s.cfg.Observer != nil {
		s.cfg.Observer.NodeUp(s.index, s.name)
	}
}

// IsRefusal reports whether an error is a server's reply that it does not do what a lock needs.
func IsRefusal(err error) bool {
	switch codeOf(err) {
	case "OOM", "MISCONF", "NOREPLICAS", "BUSY":
		return true
	}
	return LacksCommand(err)
}

// LacksCommand reports whether a server refuses a command because the user may not call it, or because the server does
// not know it. Other locks may not need it: a look shows whether all do.
func LacksCommand(err error) bool { return codeOf(err) == "NOPERM" || isUnknown(err) }

// codeOf returns the first word of a server's error reply; "" if err is none.
func codeOf(err error) string {
	var reply redis.Error
	if !errors.As(err, &reply) {
		return ""
	}
	return code(reply)
}

// look is a call that shows whether the server does what a lock needs, and the receiver of its answer.
type look struct {
	node *Node
	to   pipe.Receiver
}

// NewLook returns the call. to gets the answer, after the node's refusal has begun or ended by it.
func (n *Node) NewLook(to pipe.Receiver) pipe.Call {
	return pipe.Call{Command: "EVALSHA", Args: protocol.LookCall().EvalSHA(), To: look{n, to}}
}

// Receive implements pipe.Receiver.
func (l look) Receive(reply any, err error) {
	switch c := codeOf(err); {
	case err == nil:
		l.node.Status.Accept()
	case c == "" || c == "NOSCRIPT" || isOfOtherServer(c):
		l.node.HandleError(err)
	default: // whatever it says
		l.node.Status.Refuse(err)
	}
	l.to.Receive(reply, err)
}
