package node

import (
	"errors"
	"log/slog"
	"maps"
	"slices"
	"strings"

	"github.com/gomodule/redigo/redis"

	"github.com/redlock-go/redlock/internal/pipe"
)

// maxOldConnections bounds how many old connections are named to a server that refuses to
// close them. The oldest are left out: the server has had the most time to read the bytes
// that were on their way there.
const maxOldConnections = 64

// oldConnections are connections that this client has given up and that the server has
// not confirmed to be closed.
type oldConnections struct {
	name string // of the node
	cfg  *Config
	link *link

	// Protected by link.mu.
	ids           map[int64]bool // the server's ids of them, at this run of the server
	unnamed       bool           // there are others, perhaps, whose ids are not known
	refusalLogged bool           // the server's refusal to close them was logged
}

// killCalls returns the calls that close the client's old connections at the server, so
// that bytes that are still on their way there are not executed after the undos. It
// returns none for another run of the server, where the ids are those of other clients.
// Each connection is named until the server has confirmed that it is closed. last is the
// server of the handshake before, now that of this one; again reports whether a connection was in use
// before.
func (o *oldConnections) killCalls(last, now identity, again bool) []*pipe.Call {
	o.link.mu.Lock()
	defer o.link.mu.Unlock()
	if last.runID == "" || last.runID != now.runID {
		clear(o.ids)
		o.unnamed = again && (last.runID == "" || now.runID == "")
		return nil
	}
	if last.client != 0 {
		o.ids[last.client] = true
	} else {
		o.unnamed = true
	}
	ids := slices.Sorted(maps.Keys(o.ids)) // a server's ids grow
	for len(ids) > maxOldConnections {
		delete(o.ids, ids[0])
		o.unnamed, ids = true, ids[1:]
	}
	var kills []*pipe.Call
	for _, id := range ids {
		kills = append(kills, &pipe.Call{Command: "CLIENT", Args: []any{"KILL", "ID", id}, To: &killed{o, id}})
	}
	return kills
}

// any reports whether the server may have such a connection.
func (o *oldConnections) any() bool {
	o.link.mu.Lock()
	defer o.link.mu.Unlock()
	return o.unnamed || len(o.ids) > 0
}

// HasOldConnections reports whether the server may yet execute commands that this client sent over
// a connection that it has given up.
func (n *Node) HasOldConnections() bool { return n.old.any() }

// killed receives the answer to CLIENT KILL.
type killed struct {
	old *oldConnections
	id  int64
}

// Receive removes the id if the server has closed the connection, or knows no such
// connection. After a refusal, or without an answer, the next handshake names it again.
func (k *killed) Receive(_ any, err error) {
	var refusal redis.Error
	switch {
	case err == nil || IsCode(err, "ERR") && strings.Contains(strings.ToLower(err.Error()), "no such client"):
		k.old.link.mu.Lock()
		defer k.old.link.mu.Unlock()
		delete(k.old.ids, k.id)
	case errors.As(err, &refusal):
		k.old.logRefusal(err)
	}
}

// logRefusal logs, once for each node, that the server refuses to name or to close
// this client's connections.
func (o *oldConnections) logRefusal(err error) {
	o.link.mu.Lock()
	defer o.link.mu.Unlock()
	if o.refusalLogged {
		return
	}
	o.refusalLogged = true
	o.cfg.Events.Log(slog.LevelWarn, "the server does not close this client's old connections: an attempt that was "+
		"sent there may be executed after its undo, and keep a lock's key for a ttl; "+
		"grant the user CLIENT ID and CLIENT KILL", "node", o.name, "error", err)
}
