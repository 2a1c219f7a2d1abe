package node

import (
	"fmt"
	"sync"
	"time"

	"github.com/redlock-go/redlock/internal/protocol"
)

// staleReading is the age at which a better reading of a server's clock gives way to a
// newer one.
const staleReading = 5 * time.Minute

// offset is a reading of a server's clock.
type offset struct {
	mu    sync.Mutex    // protects what follows
	ahead time.Duration // the server's time since 1970, less the client's clock
	trip  time.Duration // how long the reading took: it is uncertain by half of that
	at    time.Duration // when, on the client's clock
	known bool
}

// record keeps a reading that was asked for and answered at these instants, unless a
// better one is still fresh.
func (o *offset) record(server, asked, answered time.Duration) {
	o.mu.Lock()
	defer o.mu.Unlock()
	trip := answered - asked
	if o.known && trip > o.trip && answered-o.at < staleReading {
		return
	}
	o.ahead, o.trip, o.at, o.known = server-asked-trip/2, trip, answered, true
}

// latest returns what must be added to the client's clock, if that is known.
func (o *offset) latest() (ahead time.Duration, known bool) {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.ahead, o.known
}

// Offset returns what must be added to the client's clock to have the server's time since
// 1970, if that is known. It is read at every handshake, and again while callers wait.
func (n *Node) Offset() (ahead time.Duration, known bool) { return n.offset.latest() }

// ServerTime reads the answer to TIME: the time since 1970.
func ServerTime(reply any, err error) (time.Duration, error) {
	now, err := protocol.ReadTime(reply, err)
	if err != nil {
		return 0, fmt.Errorf("no server time: %w", Misread(err))
	}
	return now, nil
}
