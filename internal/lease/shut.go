package lease

import (
	"context"
	"time"

	"github.com/redlock-go/redlock/internal/quorum"
)

// How the client's Close ends a lease.

// Shut ends the lease because the client closes, and reports whether a Do works under it. The
// release is still to be sent: by that Do, so that no other caller gets the lock before its
// fn returns (by the last one, if there are several), or by GiveBack.
func (l *Lease) Shut() (working bool) {
	l.mu.Lock()
	if l.ended() != nil {
		l.mu.Unlock()
		l.end(closed) // its validity may be over, and the renewer has not looked yet
		return false
	}
	working = l.anyBut(nil, isWorking)
	atEnd := l.mark(closed)
	l.ending.unreleased = true
	if working {
		l.ending.gone = make(chan struct{})
	}
	l.mu.Unlock()
	runAtEnd(atEnd, closed)
	return working
}

// GiveBack queues the release of a lease that Shut has ended, if no Do works under it, at
// those nodes that may hold its key and are in at. The ballot that it returns must be
// flushed; nil if nothing is to be released.
func (l *Lease) GiveBack(at quorum.NodeSet) *quorum.Ballot {
	l.mu.Lock()
	if !l.ending.unreleased || l.ending.gone != nil {
		l.mu.Unlock()
		return nil
	}
	b, _ := l.queueRelease(context.Background(), l.cfg.Clock(), closed, l.mayHold&at)
	l.mu.Unlock()
	l.renewer.remove(l)
	return b
}

// AwaitEnd waits until a lease that was shut is released by its Do, or over with its keys.
func (l *Lease) AwaitEnd() {
	l.mu.Lock()
	end := max(l.until, l.renewal.keysEnd)
	l.mu.Unlock()
	timer := time.NewTimer(end - l.cfg.Clock())
	defer timer.Stop()
	select {
	case <-l.ending.gone:
	case <-timer.C:
	}
}
