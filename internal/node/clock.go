package node

import (
	"fmt"
	"sync"
	"time"

	"github.com/redlock-go/redlock/internal/protocol"
)

const (
	// staleReading is the age at which a better reading of a server's clock gives way to a
	// newer one.
	staleReading = 5 * time.Minute

	// maxRate is by how much two clocks differ in rate at most, twice the drift allowance of a client: a
	// server's clock that moves farther between two readings was set.
	maxRate = 0.02
)

// reading is a reading of a server's clock.
type reading struct {
	ahead time.Duration // the server's time since 1970, less the client's clock
	trip  time.Duration // how long it took: it is uncertain by half of that
	at    time.Duration // when, on the client's clock
}

// isOfAnother reports whether the server's clock was set between the two readings.
func (r reading) isOfAnother(before reading) bool {
	sure := (r.trip+before.trip)/2 + time.Duration(maxRate*float64(r.at-before.at)) + time.Millisecond
	return (r.ahead - before.ahead).Abs() > sure
}

// offset is by how much a server's clock is ahead of the client's.
type offset struct {
	mu       sync.Mutex    // protects what follows
	best     reading       // by which tickets are made
	last     reading       // of any quality
	greatest time.Duration // that was ever read
	known    bool
}

// record keeps a reading that was asked for and answered at these instants, unless a
// better one is still fresh, and the clock was not set since.
func (o *offset) record(server, asked, answered time.Duration) { o.add(server, asked, answered, true) }

// watch takes a reading in the same way, but only to see whether the clock was set: it is not made for its quality.
func (o *offset) watch(server, asked, answered time.Duration) { o.add(server, asked, answered, false) }

func (o *offset) add(server, asked, answered time.Duration, counts bool) {
	o.mu.Lock()
	defer o.mu.Unlock()
	r := reading{trip: answered - asked, at: answered}
	r.ahead = server - asked - r.trip/2
	switch isBetter := r.trip <= o.best.trip || answered-o.best.at >= staleReading; {
	case !o.known:
		o.best, o.greatest, o.known = r, r.ahead, true
	case r.isOfAnother(o.last) || counts && isBetter:
		o.best = r
	}
	o.greatest, o.last = max(o.greatest, r.ahead), r
}

// Offset returns what must be added to the client's clock to have the server's time since
// 1970, if that is known. It is read at every handshake, and again while callers wait; a clock that was set is
// noticed by the next look of the admission.
func (n *Node) Offset() (ahead time.Duration, known bool) {
	n.offset.mu.Lock()
	defer n.offset.mu.Unlock()
	return n.offset.best.ahead, n.offset.known
}

// GreatestOffset returns the greatest Offset that was ever read.
func (n *Node) GreatestOffset() (ahead time.Duration, known bool) {
	n.offset.mu.Lock()
	defer n.offset.mu.Unlock()
	return n.offset.greatest, n.offset.known
}

// WatchClock records what a server's clock showed that was asked for, and answered now, so that a clock that was set is
// noticed soon.
func (n *Node) WatchClock(server, asked time.Duration) { n.offset.watch(server, asked, n.cfg.Clock()) }

// ServerTime reads the answer to TIME: the time since 1970.
func ServerTime(reply any, err error) (time.Duration, error) {
	now, err := protocol.ReadTime(reply, err)
	if err != nil {
		return 0, fmt.Errorf("no server time: %w", err)
	}
	return now, nil
}
