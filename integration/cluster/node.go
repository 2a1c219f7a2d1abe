package cluster

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"

	"github.com/gomodule/redigo/redis"
	"github.com/stretchr/testify/require"
)

// Node is one Redis server with a proxy in front of it.
//
// Kill, Restart, Freeze and Thaw act on the server itself. Cut, HoldReplies,
// LoseReply, Reset and Delay act on its proxy, so only on clients that connect
// through it.
type Node struct {
	index   int
	program int // the number that the backend gives to it
	srv     server
	proxy   *proxy
	running bool
	frozen  bool
	follows bool              // it is a replica
	life    int               // counts the times the memory was lost; names the RDB file
	saved   bool              // the next kill does not lose it
	changed map[string]string // settings changed by SetConfig, with their old values
	lines   []string          // of its redis.conf, beside those that all nodes have
}

func newNode(index, program int, b backend, lines ...string) (*Node, error) {
	srv, err := b.create(index, program)
	if err != nil {
		return nil, err
	}
	n := &Node{index: index, program: program, srv: srv, lines: lines, changed: map[string]string{}}
	if n.proxy, err = newProxy(srv.addr()); err == nil {
		err = n.start()
	}
	if err != nil {
		return nil, errors.Join(err, n.remove())
	}
	return n, nil
}

// Addr is the server's own host:port; it stays the same across restarts.
func (n *Node) Addr() string { return n.srv.addr() }

// ProxyAddr is the host:port of the proxy in front of the server.
func (n *Node) ProxyAddr() string { return n.proxy.addr() }

// Ended reports whether the server has ended, killed or by itself.
func (n *Node) Ended() bool { return n.srv.ended() }

// Do runs one command on a fresh connection to the server, past the proxy and
// with all rights.
func (n *Node) Do(t testing.TB, cmd string, args ...any) any {
	t.Helper()
	c, err := n.dial()
	require.NoError(t, err, "connect to node %d", n.index)
	defer c.Close()
	reply, err := c.Do(cmd, args...)
	require.NoError(t, err, "%s at node %d", cmd, n.index)
	return reply
}

// Keys returns all keys of the server's database 0, sorted.
func (n *Node) Keys(t testing.TB) []string {
	t.Helper()
	keys, err := redis.Strings(n.Do(t, "KEYS", "*"), nil)
	require.NoError(t, err)
	slices.Sort(keys)
	return keys
}

// Get returns the string under key, "" if there is none.
func (n *Node) Get(t testing.TB, key string) string {
	t.Helper()
	reply := n.Do(t, "GET", key)
	if reply == nil {
		return ""
	}
	value, err := redis.String(reply, nil)
	require.NoError(t, err)
	return value
}

// RunID names the present run of the server.
func (n *Node) RunID(t testing.TB) string {
	t.Helper()
	info, err := redis.String(n.Do(t, "INFO", "server"), nil)
	require.NoError(t, err)
	return field(info, "run_id")
}

// HasRecord reports whether the server has a record of its present run: it is admitted, and votes.
func (n *Node) HasRecord(t testing.TB) bool {
	t.Helper()
	start := "redlock::record:" + n.RunID(t) + ":"
	return slices.ContainsFunc(n.Keys(t), func(key string) bool { return strings.HasPrefix(key, start) })
}

// Version names the server's program and its version.
func (n *Node) Version() (string, error) {
	c, err := n.dial()
	if err != nil {
		return "", err
	}
	defer c.Close()
	info, err := redis.String(c.Do("INFO", "server"))
	if v := field(info, "valkey_version"); v != "" {
		return "valkey " + v, err
	}
	return "redis " + field(info, "redis_version"), err
}

// field returns a field of INFO's text, "" where there is none.
func field(info, name string) string {
	_, rest, _ := strings.Cut(info, "\n"+name+":")
	value, _, _ := strings.Cut(rest, "\r\n")
	return value
}

// SetConfig changes a setting of the running server until the test ends or the
// server restarts.
func (n *Node) SetConfig(t testing.TB, name, value string) {
	t.Helper()
	if _, known := n.changed[name]; !known {
		old, err := redis.StringMap(n.Do(t, "CONFIG", "GET", name), nil)
		require.NoError(t, err)
		n.changed[name] = old[name]
	}
	n.Do(t, "CONFIG", "SET", name, value)
}

// FollowOther makes the server a replica of another. It is one at once, and soon
// has the other's data.
func (n *Node) FollowOther(t testing.TB, master *Node) {
	t.Helper()
	host, port, err := master.srv.peer()
	require.NoError(t, err)
	n.Do(t, "REPLICAOF", host, port)
	n.follows = true
}

// Lead makes the server a master again.
func (n *Node) Lead(t testing.TB) {
	t.Helper()
	n.Do(t, "REPLICAOF", "NO", "ONE")
	n.follows = false
}

func (n *Node) dial() (redis.Conn, error) {
	const timeout = startTimeout
	return redis.Dial("tcp", n.Addr(),
		redis.DialUsername(adminName), redis.DialPassword(adminPassword),
		redis.DialConnectTimeout(timeout), redis.DialReadTimeout(timeout), redis.DialWriteTimeout(timeout))
}

// reset undoes all changes of a test: afterwards the server is an empty, reachable master.
func (n *Node) reset() error {
	n.proxy.reset()
	if err := n.setFrozen(false); err != nil {
		return err
	}
	if err := n.start(); err != nil {
		return err
	}
	c, err := n.dial()
	if err != nil {
		return fmt.Errorf("node %d: %w", n.index, err)
	}
	defer c.Close()
	n.saved = false
	do := func(cmd string, args ...any) {
		if err == nil {
			if _, err = c.Do(cmd, args...); err != nil {
				err = fmt.Errorf("node %d: %s: %w", n.index, cmd, err)
			}
		}
	}
	for name, old := range n.changed {
		do("CONFIG", "SET", name, old)
	}
	clear(n.changed)
	rights := append([]any{"SETUSER", "default", "reset"}, fields(openRights)...)
	do("ACL", rights...)
	do("REPLICAOF", "NO", "ONE")
	n.follows = false
	do("CLIENT", "KILL", "TYPE", "normal", "SKIPME", "yes")
	do("FLUSHALL")
	do("SCRIPT", "FLUSH")
	return err
}

func (n *Node) remove() error {
	var err error
	if n.proxy != nil {
		err = n.proxy.close()
	}
	return errors.Join(err, n.srv.remove())
}

func fields(s string) []any {
	var out []any
	for _, f := range strings.Fields(s) {
		out = append(out, f)
	}
	return out
}
