package redlock

import (
	"context"
	"fmt"
	"hash/fnv"
	"io"
	"math/rand/v2"
	"net"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	"github.com/alicebob/miniredis/v2/server"
	"github.com/gomodule/redigo/redis"
)

// A bad network between the clients and the embedded nodes: what is written comes
// late and in pieces, connections end in the middle of a command or an answer, or
// go silent. What becomes of each write is drawn from a hash of the seed, the
// connection and the write's number there.

// badNet is the network of one run.
type badNet struct {
	seed     uint64
	rough    int             // how often trouble comes, of 2000 writes
	calm     atomic.Bool     // only delays and pieces from now on
	troubles [3]atomic.Int64 // how many writes met with each
}

// What can become of a write, apart from that it takes time.
const (
	passes = iota
	ends   // the connection ends after a part of it
	hushes // a part of it, and all that follows, is lost; the connection stays
)

// lot draws for one thing that has a name.
func (w *badNet) lot(name ...any) *rand.Rand {
	h := fnv.New64a()
	fmt.Fprintln(h, name...)
	return rand.New(rand.NewPCG(w.seed, h.Sum64()))
}

// upTo draws a time below d.
func upTo(lot *rand.Rand, d time.Duration) time.Duration { return time.Duration(lot.Int64N(int64(d))) }

// badPool is one client's way to one node.
type badPool struct {
	*testNode
	net    *badNet
	board  *switchboard
	client int
	dials  atomic.Int64
}

func (p *badPool) GetContext(context.Context) (redis.Conn, error) {
	name := fmt.Sprintf("client %d, node %d, connection %d", p.client, p.index, p.dials.Add(1))
	if p.net.lot(name).IntN(200) < p.net.weather(p.client) {
		return nil, errRefused
	}
	far, err := p.redis.Dial()
	if err != nil {
		return nil, err
	}
	p.redis.Server().SetPreHook(p.board.hook)
	clientSide, near := net.Pipe()
	go p.net.carry(p.client, name+" to the node", near, far)
	go p.net.carry(p.client, name+" from the node", far, near)
	return redis.NewConn(clientSide, 0, 0), nil
}

// carry brings what is written at one end to the other, in order. When the sender
// closes, what is on the way still arrives.
func (w *badNet) carry(client int, name string, from, to net.Conn) {
	type piece struct {
		data []byte
		due  time.Time
	}
	way := make(chan piece, 4096) // the sender never waits
	arrive := func() {
		defer to.Close()
		for p := range way {
			time.Sleep(time.Until(p.due))
			if _, err := to.Write(p.data); err != nil {
				break
			}
		}
		for range way { // the sender does not know
		}
	}
	go arrive()
	distance := time.Duration(w.lot(name).IntN(3000)) * time.Microsecond
	due := time.Now()
	buf := make([]byte, 32<<10)
	for number := 0; ; number++ {
		k, err := from.Read(buf)
		lot := w.lot(name, number)
		delay, what := trouble(lot, w.weather(client))
		w.troubles[what].Add(1)
		data := append([]byte(nil), buf[:k]...)
		if what != passes && k > 0 {
			data = data[:lot.IntN(k+1)]
		}
		for data := range pieces(lot, data) {
			at := time.Now().Add(distance + delay + upTo(lot, 2*ms))
			if at.After(due) {
				due = at
			}
			way <- piece{data, due}
		}
		if what == hushes && err == nil {
			_, err = io.Copy(io.Discard, from)
		}
		if what == ends || err != nil || what == hushes {
			close(way)
			_, _ = io.Copy(io.Discard, from)
			return
		}
	}
}

// weather is how bad the network is for a client now, 0 to 200. There are storms.
func (w *badNet) weather(client int) int {
	switch span := time.Now().Unix() / 2; {
	case w.calm.Load():
		return 0
	case w.lot("storm", client, span).IntN(8) == 0:
		return 200
	}
	return w.rough
}

// trouble draws how late a write comes, and what becomes of it.
func trouble(lot *rand.Rand, weather int) (delay time.Duration, what int) {
	switch n := lot.IntN(2000); {
	case n < 4*weather:
		return 0, ends
	case n < 6*weather:
		return 0, hushes
	case n < 9*weather:
		return upTo(lot, 3*time.Second), passes
	}
	return 0, passes
}

// pieces are the parts in which some writes arrive.
func pieces(lot *rand.Rand, data []byte) func(yield func([]byte) bool) {
	return func(yield func([]byte) bool) {
		for len(data) > 0 {
			k := len(data)
			if lot.IntN(4) == 0 {
				k = 1 + lot.IntN(k)
			}
			if !yield(data[:k]) {
				return
			}
			data = data[k:]
		}
	}
}

// switchboard gives the connections to a node ids, and ends them by CLIENT KILL, as
// a server does: nothing that comes on a killed one is executed.
type switchboard struct {
	node *testNode

	mu     sync.Mutex // protects what follows
	peers  []*server.Peer
	killed map[*server.Peer]bool
}

func newSwitchboard(n *testNode) *switchboard {
	return &switchboard{node: n, killed: make(map[*server.Peer]bool)}
}

func (s *switchboard) hook(c *server.Peer, cmd string, args ...string) bool {
	if s.isKilled(c) {
		c.Close()
		return true
	}
	switch {
	case cmd == "CLIENT" && args[0] == "ID":
		c.WriteInt(s.number(c))
	case cmd == "CLIENT" && args[0] == "KILL":
		s.kill(args[2])
		c.WriteInt(1)
	default:
		return s.node.hook(c, cmd, args...)
	}
	return true
}

func (s *switchboard) isKilled(c *server.Peer) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.killed[c]
}

func (s *switchboard) number(c *server.Peer) int {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.peers = append(s.peers, c)
	return len(s.peers)
}

func (s *switchboard) kill(id string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if n, err := strconv.Atoi(id); err == nil && n >= 1 && n <= len(s.peers) {
		s.killed[s.peers[n-1]] = true
	}
}
