package redlock

import (
	"context"
	"iter"
	"time"

	"github.com/redlock-go/redlock/internal/holder"
	"github.com/redlock-go/redlock/internal/protocol"
)

// Holding is who holds a lock, as Observe saw it.
type Holding struct {
	Owner  string    // the value that marks the lease at the nodes; "": nobody, or readers
	Label  string    // the readable part of Owner
	Since  time.Time // as Status.Since
	Token  int64     // the lease's, a term; 0: its holder does not announce it
	Shared bool      // readers hold the lock
}

// Observe yields who holds the lock: the present Holding, then each change. Holders that announce
// themselves (Lead, WithAnnounce) are seen at once, others within some two seconds. A slow reader gets
// the newest. It excludes nobody: use the token.
//
// Errors: a *QuorumError comes with what most nodes that answered say, and Observe goes on. It ends
// after ctx's cause, ErrClosed or ErrConfig (a bad name, or several).
func (m *Mutex) Observe(ctx context.Context) iter.Seq2[Holding, error] {
	return func(yield func(Holding, error) bool) {
		err := m.err
		if err == nil && m.names != nil {
			err = configError("a lock of several names cannot be observed: observe each name")
		}
		if err != nil {
			yield(Holding{}, err)
			return
		}
		if err := m.observe(ctx, yield); err != nil {
			yield(Holding{}, &waitError{op: "observe", name: m.name, cause: err})
		}
	}
}

// observe yields holdings until yield returns false, or an error ends it.
func (m *Mutex) observe(ctx context.Context, yield func(Holding, error) bool) error {
	o, err := m.client.locks.Board().Observe(ctx, m.lock.Keys()[0])
	if err != nil {
		return err
	}
	defer o.End()
	for {
		found, err := o.Next(ctx)
		if err != nil {
			return err
		}
		h := Holding{Shared: found.Owner == protocol.Shared}
		if !h.Shared {
			h = Holding{found.Owner, protocol.LabelOf(found.Owner), protocol.SinceOf(found.Owner), found.Token, false}
		}
		if !yield(h, m.noQuorum(&found)) {
			return nil
		}
	}
}

// noQuorum returns the error of a holding that no quorum of the nodes has shown; nil for others.
func (m *Mutex) noQuorum(found *holder.Holding) error {
	if found.Reasons == nil {
		return nil
	}
	c := m.client
	return &QuorumError{Op: "observe", Name: m.name, Need: c.cluster.Need(), Elapsed: found.Took, Votes: c.votesFor(found.Reasons)}
}

// announce announces an exclusive lease to observers, until its end.
func (l *Lease) announce() {
	m := l.lock
	board := m.client.locks.Board()
	if m.lock.Shared() || board.Listen(context.Background()) != nil {
		return
	}
	keys, a := m.lock.Keys(), protocol.Announcement{Owner: l.Owner(), Token: l.Token()}
	l.state().Announce(func(held bool) { board.Announce(keys, a, held) })
}
