package redlock

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/alicebob/miniredis/v2"
	"github.com/alicebob/miniredis/v2/server"
	"github.com/gomodule/redigo/redis"
	"github.com/stretchr/testify/require"

	"github.com/redlock-go/redlock/internal/protocol"
	"github.com/redlock-go/redlock/internal/system"
)

// The network of the tests: embedded nodes behind links that can be slow,
// held, or cut, all in the virtual time of a synctest bubble.

// testNode is one embedded server and the links to it. It is a Pool.
type testNode struct {
	t     *testing.T
	index int
	redis *miniredis.Miniredis

	mu       sync.Mutex // protects what follows
	changed  *sync.Cond
	links    []*link
	refusing error             // what dialling gets
	delay    time.Duration     // each way
	holding  bool              // frozen: nothing is executed
	lose     func([]byte) bool // what the node sends and never arrives
	muting   bool              // answers are held back
	runID    string
	role     string
	version  string
	override func(cmd string, args []string) string // an error reply, or ""
	log      []string                               // commands as they were executed
	clients  int
	runs     int
}

func newTestNode(t *testing.T, index int) *testNode {
	n := &testNode{t: t, index: index, redis: miniredis.NewMiniRedis(), runID: fmt.Sprintf("run-%d", index), role: "master"}
	n.changed = sync.NewCond(&n.mu)
	n.redis.ClockTTL(true)
	return n
}

func (n *testNode) String() string { return fmt.Sprintf("test-%d", n.index) }

func (n *testNode) GetContext(ctx context.Context) (redis.Conn, error) {
	n.mu.Lock()
	refusing := n.refusing
	n.mu.Unlock()
	if refusing != nil {
		return nil, refusing
	}
	// Not under n.mu: a script that runs holds the server's lock, and takes n.mu
	// in the hook.
	serverSide, err := n.redis.Dial()
	if err != nil {
		return nil, err
	}
	n.redis.Server().SetPreHook(n.hook)
	n.mu.Lock()
	defer n.mu.Unlock()
	clientSide, near := net.Pipe()
	l := &link{node: n, near: near, far: serverSide}
	n.links = append(n.links, l)
	go l.pump(near, serverSide, func() bool { return n.holding || l.held })
	go l.pump(serverSide, near, func() bool { return n.muting || l.held })
	return redis.NewConn(clientSide, 0, 0), nil
}

// hook runs before each command. It logs, and answers what the embedded server
// cannot or is told not to.
func (n *testNode) hook(c *server.Peer, cmd string, args ...string) bool {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.log = append(n.log, n.label(cmd, args))
	if n.override != nil {
		if refusal := n.override(cmd, args); refusal != "" {
			c.WriteError(refusal)
			return true
		}
	}
	switch {
	case cmd == "INFO":
		c.WriteBulk("# Server\r\nrun_id:" + n.runID + "\r\nrole:" + n.role + "\r\nredis_version:" + n.version + "\r\n")
	case cmd == "CLIENT" && args[0] == "ID":
		n.clients++
		c.WriteInt(n.clients)
	case cmd == "CLIENT" && args[0] == "KILL":
		c.WriteInt(0)
	default:
		return false
	}
	return true
}

// label names a command in the log: scripts by their names.
func (n *testNode) label(cmd string, args []string) string {
	if cmd == "EVALSHA" && args[0] == protocol.Acquire.SHA.(string) && args[1] == "1" {
		return "claim"
	}
	for name, s := range map[string]*protocol.Script{"acquire": protocol.Acquire, "raise": protocol.Raise, "probe": protocol.Probe, "admit": protocol.Admit, "renew": protocol.Renew, "release": protocol.Release} {
		if (cmd == "EVALSHA" && args[0] == s.SHA.(string)) || (cmd == "EVAL" && args[0] == s.Text.(string)) {
			return name
		}
	}
	switch {
	case cmd == "CLIENT":
		return "client " + strings.ToLower(args[0])
	case cmd == "SET" && len(args) == 6 && args[5] == "GET":
		return "claim"
	case cmd == "SET" && args[len(args)-1] == "NX":
		return "acquire"
	}
	return strings.ToLower(cmd)
}

// executed counts a command in the log.
func (n *testNode) executed(label string) int {
	n.mu.Lock()
	defer n.mu.Unlock()
	count := 0
	for _, l := range n.log {
		if l == label {
			count++
		}
	}
	return count
}

// set changes the node's behaviour.
func (n *testNode) set(change func(n *testNode)) {
	n.mu.Lock()
	defer n.mu.Unlock()
	change(n)
	n.changed.Broadcast()
}

func (n *testNode) freeze() { n.set(func(n *testNode) { n.holding = true }) }
func (n *testNode) thaw()   { n.set(func(n *testNode) { n.holding = false }) }
func (n *testNode) mute()   { n.set(func(n *testNode) { n.muting = true }) }

// cut breaks all links from the client's side. What was sent before is still
// executed; answers are lost.
func (n *testNode) cut() {
	n.set(func(n *testNode) {
		for _, l := range n.links {
			l.cut = true
			_ = l.near.Close()
		}
		n.links, n.muting = nil, false
	})
}

func (n *testNode) keys() []string { return n.redis.Keys() }

// link is one connection, pumped in both directions.
type link struct {
	node      *testNode
	near, far net.Conn
	cut       bool          // protected by node.mu, like what follows
	delay     time.Duration // more than the node's, each way
	held      bool          // nothing gets through
}

// pump carries bytes from one end to the other, each after the node's delay and
// not while held. The sender never waits: a socket has room.
func (l *link) pump(from, to net.Conn, held func() bool) {
	type chunk struct {
		data []byte
		due  time.Time
	}
	n := l.node
	var queue []chunk
	ended := false
	go func() {
		defer to.Close()
		for {
			n.mu.Lock()
			for !ended && len(queue) == 0 || held() && !(ended && len(queue) == 0) {
				n.changed.Wait()
			}
			if len(queue) == 0 {
				n.mu.Unlock()
				return
			}
			next := queue[0]
			queue = queue[1:]
			n.mu.Unlock()
			time.Sleep(time.Until(next.due))
			n.mu.Lock()
			lost := to == l.near && l.cut
			skip := to == l.near && n.lose != nil && n.lose(next.data)
			n.mu.Unlock()
			if skip {
				continue
			}
			if _, err := to.Write(next.data); err != nil || lost {
				_, _ = io.Copy(io.Discard, from)
				return
			}
		}
	}()
	buf := make([]byte, 32<<10)
	for {
		k, err := from.Read(buf)
		n.set(func(n *testNode) {
			if k > 0 {
				queue = append(queue, chunk{append([]byte(nil), buf[:k]...), time.Now().Add(n.delay + l.delay)})
			}
			ended = ended || err != nil
		})
		if err != nil {
			return
		}
	}
}

// testNet is N nodes and a client over them, in a bubble.
type testNet struct {
	t       *testing.T
	nodes   []*testNode
	clients []*Client
	clock   *testClock
	bubble  bool // it is in a synctest bubble
}

// inBubble runs a test over n embedded nodes in virtual time.
func inBubble(t *testing.T, n int, test func(t *testing.T, net *testNet)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		net := &testNet{t: t, clock: &testClock{origin: time.Now()}, bubble: true}
		for i := range n {
			net.nodes = append(net.nodes, newTestNode(t, i))
		}
		defer net.stop()
		test(t, net)
	})
}

// stop closes the clients, lets what is under way arrive, and ends the servers.
func (w *testNet) stop() {
	for _, c := range w.clients {
		_ = c.Close()
	}
	for _, n := range w.nodes {
		n.set(func(n *testNode) { n.holding, n.muting, n.delay = false, false, 0 })
	}
	time.Sleep(time.Second)
	for _, n := range w.nodes {
		n.cut()
		n.redis.Close()
	}
}

// client makes a client whose connections are up.
func (w *testNet) client(opts ...Option) *Client {
	w.t.Helper()
	c := w.newClient(opts...)
	require.NoError(w.t, c.Ping(w.t.Context()))
	if w.bubble {
		synctest.Wait() // Ping awaits a quorum only
	}
	return c
}

// newClient makes a client that is closed when the test ends.
func (w *testNet) newClient(opts ...Option) *Client {
	w.t.Helper()
	pools := make([]Pool, len(w.nodes))
	for i, n := range w.nodes {
		pools[i] = n
	}
	c, err := New(pools, append([]Option{WithLogger(nil), WithRestartGuard(0), withClock(w.clock.now)}, opts...)...)
	require.NoError(w.t, err)
	w.clients = append(w.clients, c)
	return c
}

// withClock replaces the clock.
func withClock(c system.Clock) Option {
	return func(o *options) error {
		o.clock = c
		return nil
	}
}

// requireNoKeys checks that no key of anybody is left at any node.
func (w *testNet) requireNoKeys() {
	w.t.Helper()
	synctest.Wait()
	for _, n := range w.nodes {
		for _, key := range n.keys() {
			require.True(w.t, strings.HasPrefix(key, protocol.Reserved), "node %d has %s", n.index, key)
		}
	}
}

// holders counts the nodes at which the lock's key is this lease's.
func (w *testNet) holders(l *Lease) int {
	synctest.Wait()
	count := 0
	for _, n := range w.nodes {
		if v, err := n.redis.Get("redlock:" + l.Name()); err == nil && v == l.Owner() {
			count++
		}
	}
	return count
}

var errRefused = errors.New("connection refused")

// dialTest is a connection of the test's own.
func dialTest(t *testing.T, n *testNode) redis.Conn {
	t.Helper()
	c, err := n.redis.Dial()
	require.NoError(t, err)
	return redis.NewConn(c, 0, 0)
}

// hangingPool dials as long as it takes, whatever its ctx says.
type hangingPool struct {
	*testNode
	release chan struct{}
}

func (p hangingPool) GetContext(context.Context) (redis.Conn, error) {
	<-p.release
	return nil, errRefused
}

// down takes a node away until up.
func (n *testNode) down() {
	n.set(func(n *testNode) { n.refusing = errRefused })
	n.cut()
}

func (n *testNode) up() { n.set(func(n *testNode) { n.refusing = nil }) }
