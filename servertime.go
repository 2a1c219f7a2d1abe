package redlock

import (
	"fmt"
	"slices"
	"sync"
	"time"

	"github.com/gomodule/redigo/redis"
)

// Tickets tell the nodes' time, not the client's: clients' clocks may be far
// apart. Each node's time is read at every handshake, and again while the client
// waits; the median over the nodes counts.

// stale is the age at which a better reading of a node's clock gives way to a
// newer one.
const stale = 5 * time.Minute

// offset is a reading of a node's clock.
type offset struct {
	mu    sync.Mutex    // protects what follows
	ahead time.Duration // the node's time since 1970, less the client's clock
	trip  time.Duration // what the reading took: it is uncertain by half of that
	at    time.Duration // when, on the client's clock
	known bool
}

// note takes a reading that was asked for and answered at these instants.
func (o *offset) note(server, asked, answered time.Duration) {
	o.mu.Lock()
	defer o.mu.Unlock()
	trip := answered - asked
	if o.known && trip > o.trip && answered-o.at < stale {
		return
	}
	o.ahead, o.trip, o.at, o.known = server-asked-trip/2, trip, answered, true
}

// read is the offset, if it is known.
func (o *offset) read() (time.Duration, bool) {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.ahead, o.known
}

// askTime reads the node's clock, if it is connected. What cannot be read is read
// another time.
func (n *node) askTime() {
	p := n.pipe.Load()
	if p == nil {
		return
	}
	asked := n.opts.clock()
	if server, err := understandTime(n.request(p, "TIME")); err == nil {
		n.offset.note(server, asked, n.opts.clock())
	}
}

// understandTime reads the answer to TIME: the time since 1970.
func understandTime(reply any, err error) (time.Duration, error) {
	parts, err := redis.Int64s(reply, err)
	if err == nil && len(parts) != 2 {
		err = fmt.Errorf("it has %d parts, not 2", len(parts))
	}
	if err != nil {
		return 0, fmt.Errorf("no server time: %w", err)
	}
	return time.Duration(parts[0])*time.Second + time.Duration(parts[1])*time.Microsecond, nil
}

// serverTime is what must be added to the client's clock to have the nodes' time
// since 1970: the median of those that are known, else by the wall clock.
func (c *Client) serverTime() time.Duration {
	var all []time.Duration
	for _, n := range c.nodes {
		if ahead, known := n.offset.read(); known {
			all = append(all, ahead)
		}
	}
	if len(all) == 0 {
		return time.Duration(time.Now().UnixNano()) - c.opts.clock()
	}
	slices.Sort(all)
	return all[(len(all)-1)/2]
}
