package redlocktest

import (
	"strconv"
	"strings"
	"sync"

	"github.com/alicebob/miniredis/v2/server"
)

// clients are the connections to one run of a node, by the ids that CLIENT ID gives them.
// miniredis knows neither CLIENT ID nor CLIENT KILL; a client needs both so that no command
// of a connection that it has given up is executed later.
type clients struct {
	mu   sync.Mutex // protects what follows
	last int64
	ids  map[*server.Peer]int64
}

// answer answers CLIENT ID and CLIENT KILL ID, and reports whether it did. On a killed
// connection it drops every command: none is executed, and none is answered.
func (c *clients) answer(peer *server.Peer, command string, args ...string) (answered bool) {
	if peer.Closed() {
		return true
	}
	if command != "CLIENT" || len(args) == 0 {
		return false
	}
	switch {
	case strings.EqualFold(args[0], "ID"):
		peer.WriteInt(int(c.id(peer)))
	case strings.EqualFold(args[0], "KILL") && len(args) == 3 && strings.EqualFold(args[1], "ID"):
		peer.WriteInt(c.kill(args[2]))
	default:
		return false
	}
	return true
}

// id returns the connection's id, which does not change.
func (c *clients) id(peer *server.Peer) int64 {
	c.mu.Lock()
	defer c.mu.Unlock()
	if _, known := c.ids[peer]; !known {
		c.last++
		c.ids[peer] = c.last
		peer.OnDisconnect(func() {
			c.mu.Lock()
			defer c.mu.Unlock()
			delete(c.ids, peer)
		})
	}
	return c.ids[peer]
}

// kill closes the connection with this id, and returns how many connections it closed.
func (c *clients) kill(id string) (killed int) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for peer, known := range c.ids {
		if strconv.FormatInt(known, 10) == id {
			peer.Close()
			killed++
		}
	}
	return killed
}
