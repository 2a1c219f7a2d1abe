package node

import (
	"errors"
	"log/slog"
	"maps"
	"slices"
	"time"

	"github.com/gomodule/redigo/redis"

	"github.com/redlock-go/redlock/internal/pipe"
	"github.com/redlock-go/redlock/internal/protocol"
)

const (
	// maxUndos bounds the undos of one node. An undo is a lease or attempt that was sent to
	// the node and could not be released there, so a node would have to fail while it has
	// this many.
	maxUndos = 1 << 16

	// maxRetries is how many refused undos one retry sends again.
	maxRetries = 100
)

// Undo is a release or a rollback that a node has not confirmed: the node may have executed
// the attempt, or may yet do so. It lasts until it is confirmed, since a frozen server can
// execute an attempt long after its ttl.
type Undo struct {
	Owner   string // of the attempt; a node has one undo for each owner
	Script  *protocol.Script
	Args    []any         // of the script
	Prepare func() []any  // returns Args at the instant of sending, if they depend on it; nil: they do not
	ByText  bool          // the server has forgotten the script: it is sent with its text
	Lasts   time.Duration // how long, at most, an executed attempt lasts at the server by itself
	Then    pipe.Receiver // receives the answer that confirms or refuses the undo; nil: none

	log  *undoLog
	call pipe.Call

	// Protected by the link's mu.
	refused bool          // the server answered with an error: the undo is sent again
	until   time.Duration // when an attempt that the server executed before it refused has ended
}

// undoLog is a node's undos. Its lock is the link's: so an undo is recorded either before
// the node uses its next connection, and goes ahead of all other calls there, or after
// that, and is sent on that connection at once.
type undoLog struct {
	name string // of the node
	cfg  *Config
	link *link

	// Protected by link.mu.
	byOwner        map[string]*Undo
	overflowLogged bool
}

// Undo records an undo, and sends it at once if the node is connected. It reports whether
// the undo could be queued now.
func (n *Node) Undo(u *Undo) (queued bool) { return n.undos.add(u) }

// HasUndo reports whether the release of this owner's attempt is not confirmed.
func (n *Node) HasUndo(owner string) bool { return n.undos.has(owner) }

// Undos returns how many releases the server has not confirmed.
func (n *Node) Undos() int { return n.undos.len() }

// AwaitsUndo reports whether any undo is unanswered. Refused ones do not count.
func (n *Node) AwaitsUndo() bool { return n.undos.awaitsAny() }

// add records an undo, and sends it at once if the node is connected. It reports whether
// the undo could be queued now.
func (l *undoLog) add(u *Undo) (queued bool) {
	l.link.mu.Lock()
	defer l.link.mu.Unlock()
	if _, known := l.byOwner[u.Owner]; !known && len(l.byOwner) >= maxUndos {
		if !l.overflowLogged {
			l.overflowLogged = true
			l.cfg.Events.Log(slog.LevelWarn, "a node has too many unconfirmed releases; further ones are given up, "+
				"and their keys expire with their ttl",
				"node", l.name, "unconfirmed", maxUndos)
		}
		return false
	}
	u.log = l
	l.byOwner[u.Owner] = u
	p := l.link.pipe.Load()
	return p != nil && l.send(p, u) == nil
}

func (l *undoLog) has(owner string) bool {
	l.link.mu.Lock()
	defer l.link.mu.Unlock()
	_, has := l.byOwner[owner]
	return has
}

func (l *undoLog) len() int {
	l.link.mu.Lock()
	defer l.link.mu.Unlock()
	return len(l.byOwner)
}

// awaitsAny reports whether any undo is unanswered. Refused ones do not count.
func (l *undoLog) awaitsAny() bool {
	l.link.mu.Lock()
	defer l.link.mu.Unlock()
	for _, u := range l.byOwner {
		if !u.refused {
			return true
		}
	}
	return false
}

// sendAll queues all undos, first thing on a new connection. Their order is always the
// same, so that a simulation can be repeated. Called under link.mu.
func (l *undoLog) sendAll(p *pipe.Pipe) error {
	for _, owner := range slices.Sorted(maps.Keys(l.byOwner)) {
		if err := l.send(p, l.byOwner[owner]); err != nil {
			return err
		}
	}
	return nil
}

// retry sends undos that the server refused again, a few at a time.
func (l *undoLog) retry(p *pipe.Pipe) {
	l.link.mu.Lock()
	defer l.link.mu.Unlock()
	now := l.cfg.Clock()
	var refused []string
	for owner, u := range l.byOwner {
		if u.refused && now > u.until {
			delete(l.byOwner, owner)
		} else if u.refused {
			refused = append(refused, owner)
		}
	}
	slices.Sort(refused)
	for _, owner := range refused[:min(len(refused), maxRetries)] {
		if l.send(p, l.byOwner[owner]) != nil {
			return // all are sent on the next connection
		}
	}
}

// send queues one undo. Called under link.mu.
func (l *undoLog) send(p *pipe.Pipe, u *Undo) error {
	u.refused = false
	if u.Prepare != nil {
		u.Args = u.Prepare()
	}
	u.call = pipe.Call{Command: "EVALSHA", Args: append([]any{u.Script.SHA()}, u.Args...), To: u}
	if u.ByText {
		u.call.Command, u.call.Args[0] = "EVAL", u.Script.Text()
	}
	flush, _, err := p.Queue(&u.call, l.cfg.Clock(), nil)
	if flush {
		// In another goroutine: the caller may be the reader of this connection.
		go p.Flush()
	}
	return err
}

// Receive removes the undo if the server confirms it, unless a newer undo of the same
// owner has replaced it: this answer does not undo what the owner sent between the two. An
// undo without an answer is sent on the next connection. A refused one is sent again for
// as long as an executed attempt lasts: the server is running, so an attempt that it may
// have executed has ended by then. If the server has forgotten the script, the undo is sent at
// once with its text.
func (u *Undo) Receive(reply any, err error) {
	var refusal redis.Error
	l := u.log
	l.link.mu.Lock()
	switch {
	case IsCode(err, "NOSCRIPT") && !u.ByText:
		u.ByText = true
		if p := l.link.pipe.Load(); p != nil {
			_ = l.send(p, u) // or else it is sent on the next connection
		}
		l.link.mu.Unlock()
		return
	case err == nil || IsCode(err, "WRONGTYPE"): // not even a key of ours
		if l.byOwner[u.Owner] == u {
			delete(l.byOwner, u.Owner)
			l.overflowLogged = false
		}
	case errors.As(err, &refusal):
		u.refused = true
		if u.until == 0 {
			u.until = l.cfg.Clock() + u.Lasts
		}
	}
	l.link.mu.Unlock()
	if u.Then != nil {
		u.Then.Receive(reply, err)
	}
}
