package testnet

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

// BadNet is the network of one run.
type BadNet struct {
	Seed     uint64
	Rough    int             // how often trouble comes, of 2000 writes
	Calm     atomic.Bool     // only delays and pieces from now on
	Troubles [3]atomic.Int64 // how many writes met with each
}

// What can become of a write, apart from that it takes time.
const (
	passes = iota
	Ends   // the connection ends after a part of it
	Hushes // a part of it, and all that follows, is lost; the connection stays
)

// Lot draws for one thing that has a name.
func (w *BadNet) Lot(name ...any) *rand.Rand {
	h := fnv.New64a()
	fmt.Fprintln(h, name...)
	return rand.New(rand.NewPCG(w.Seed, h.Sum64()))
}

// UpTo draws a time below d.
func UpTo(lot *rand.Rand, d time.Duration) time.Duration { return time.Duration(lot.Int64N(int64(d))) }

// BadPool is one client's way to one node.
type BadPool struct {
	*Node
	Net    *BadNet
	Board  *Switchboard
	Client int
	dials  atomic.Int64
}

func (p *BadPool) GetContext(context.Context) (redis.Conn, error) {
	name := fmt.Sprintf("client %d, node %d, connection %d", p.Client, p.Index, p.dials.Add(1))
	if p.Net.Lot(name).IntN(200) < p.Net.weather(p.Client) {
		return nil, ErrRefused
	}
	far, err := p.dial()
	if err != nil {
		return nil, err
	}
	p.Redis.Server().SetPreHook(p.Board.hook)
	clientSide, near := net.Pipe()
	go p.Net.carry(p.Client, name+" to the node", near, far)
	go p.Net.carry(p.Client, name+" from the node", far, near)
	return redis.NewConn(clientSide, 0, 0), nil
}

// carry brings what is written at one end to the other, in order. When the sender
// closes, what is on the way still arrives.
func (w *BadNet) carry(client int, name string, from, to net.Conn) {
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
	distance := time.Duration(w.Lot(name).IntN(3000)) * time.Microsecond
	due := time.Now()
	buf := make([]byte, 32<<10)
	for number := 0; ; number++ {
		k, err := from.Read(buf)
		lot := w.Lot(name, number)
		delay, what := trouble(lot, w.weather(client))
		w.Troubles[what].Add(1)
		data := append([]byte(nil), buf[:k]...)
		if what != passes && k > 0 {
			data = data[:lot.IntN(k+1)]
		}
		for data := range pieces(lot, data) {
			at := time.Now().Add(distance + delay + UpTo(lot, 2*ms))
			if at.After(due) {
				due = at
			}
			way <- piece{data, due}
		}
		if what == Hushes && err == nil {
			_, err = io.Copy(io.Discard, from)
		}
		if what == Ends || err != nil || what == Hushes {
			close(way)
			_, _ = io.Copy(io.Discard, from)
			return
		}
	}
}

// weather is how bad the network is for a client now, 0 to 200. There are storms.
func (w *BadNet) weather(client int) int {
	switch span := time.Now().Unix() / 2; {
	case w.Calm.Load():
		return 0
	case w.Lot("storm", client, span).IntN(8) == 0:
		return 200
	}
	return w.Rough
}

// trouble draws how late a write comes, and what becomes of it.
func trouble(lot *rand.Rand, weather int) (delay time.Duration, what int) {
	switch n := lot.IntN(2000); {
	case n < 4*weather:
		return 0, Ends
	case n < 6*weather:
		return 0, Hushes
	case n < 9*weather:
		return UpTo(lot, 3*time.Second), passes
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

// Switchboard gives the connections to a node ids, and ends them by CLIENT KILL, as
// a server does: nothing that comes on a killed one is executed.
type Switchboard struct {
	node *Node

	Mu     sync.Mutex // protects what follows
	peers  []*server.Peer
	killed map[*server.Peer]bool
}

func NewSwitchboard(n *Node) *Switchboard {
	return &Switchboard{node: n, killed: make(map[*server.Peer]bool)}
}

func (s *Switchboard) hook(c *server.Peer, cmd string, args ...string) bool {
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

func (s *Switchboard) isKilled(c *server.Peer) bool {
	s.Mu.Lock()
	defer s.Mu.Unlock()
	return s.killed[c]
}

func (s *Switchboard) number(c *server.Peer) int {
	s.Mu.Lock()
	defer s.Mu.Unlock()
	s.peers = append(s.peers, c)
	return len(s.peers)
}

func (s *Switchboard) kill(id string) {
	s.Mu.Lock()
	defer s.Mu.Unlock()
	if n, err := strconv.Atoi(id); err == nil && n >= 1 && n <= len(s.peers) {
		s.killed[s.peers[n-1]] = true
	}
}
