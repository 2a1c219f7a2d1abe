package testnet

import (
	"context"
	"errors"
	"fmt"
	"net"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/alicebob/miniredis/v2"
	"github.com/alicebob/miniredis/v2/server"
	"github.com/gomodule/redigo/redis"
	"github.com/stretchr/testify/require"

	"github.com/redlock-go/redlock"
	"github.com/redlock-go/redlock/internal/protocol"
	"github.com/redlock-go/redlock/internal/quorum"
	"github.com/redlock-go/redlock/internal/system"
	"github.com/redlock-go/redlock/internal/test/embedded"
	"github.com/redlock-go/redlock/internal/test/testhook"
)

// The network of the tests: embedded nodes behind links that can be slow,
// held, or cut, all in the virtual time of a synctest bubble.

// Node is one embedded server and the links to it. It is a Pool. Each method is a way in which a
// test makes the node misbehave, or sees what it did.
type Node struct {
	T     *testing.T
	Index int
	Redis *miniredis.Miniredis

	Mu       sync.Mutex // protects what follows
	changed  *sync.Cond
	Links    []*link
	order    []*chunk          // what clients sent and the server has not executed, in the order of sending
	Refusing error             // what dialling gets
	Delay    time.Duration     // each way
	Holding  bool              // frozen: nothing is executed
	Lose     func([]byte) bool // what the node sends and never arrives
	Muting   bool              // answers are held back
	RunID    string
	Role     string
	Version  string
	Mode     string                                 // redis_mode
	Override func(cmd string, args []string) string // an error reply, or ""
	Twice    bool                                   // SCAN returns each key twice; set before the first
	Log      []string                               // commands as they were executed
	Clients  int
	runs     int
	sent     int // chunks, by all clients

	scripts *embedded.Scripts
}

func NewNode(t *testing.T, index int) *Node {
	n := &Node{T: t, Index: index, Redis: miniredis.NewMiniRedis(), RunID: fmt.Sprintf("run-%d", index), Role: "master", scripts: embedded.NewScripts()}
	n.changed = sync.NewCond(&n.Mu)
	n.Redis.ClockTTL(true)
	return n
}

func (n *Node) String() string { return fmt.Sprintf("test-%d", n.Index) }

func (n *Node) GetContext(ctx context.Context) (redis.Conn, error) {
	return redlock.DialPool(n.DialContext, redlock.DialConfig{Addr: n.String()}).GetContext(ctx)
}

// DialContext connects to the node over a link.
func (n *Node) DialContext(context.Context) (net.Conn, error) {
	n.Mu.Lock()
	refusing := n.Refusing
	n.Mu.Unlock()
	if refusing != nil {
		return nil, refusing
	}
	// Not under n.mu: a script that runs holds the server's lock, and takes n.mu
	// in the hook.
	serverSide, err := n.dial()
	if err != nil {
		return nil, err
	}
	to := n.Redis.Server()
	to.SetPreHook(func(c *server.Peer, cmd string, args ...string) bool { return n.preHook(to, c, cmd, args) })
	n.Mu.Lock()
	defer n.Mu.Unlock()
	l, clientSide := newLink(n, serverSide)
	n.Links = append(n.Links, l)
	return clientSide, nil
}

// dial returns a connection without a link: what is sent arrives at once.
func (n *Node) dial() (conn net.Conn, err error) {
	embedded.Exempt(func() { conn, err = n.Redis.Dial() })
	return conn, err
}

// hook runs before each command. It logs, and answers what the embedded server
// cannot or must not.
func (n *Node) hook(c *server.Peer, cmd string, args ...string) bool {
	n.Mu.Lock()
	defer n.Mu.Unlock()
	n.Log = append(n.Log, n.Label(cmd, args))
	if n.Override != nil {
		if refusal := n.Override(cmd, args); refusal != "" {
			c.WriteError(refusal)
			return true
		}
	}
	switch {
	case cmd == "INFO":
		c.WriteBulk("# Server\r\nrun_id:" + n.RunID + "\r\nrole:" + n.Role + "\r\nredis_version:" + n.Version + "\r\nredis_mode:" + n.Mode + "\r\n")
	case cmd == "CLIENT" && args[0] == "ID":
		n.Clients++
		c.WriteInt(n.Clients)
	case cmd == "CLIENT" && args[0] == "KILL":
		c.WriteInt(0)
	default:
		return false
	}
	return true
}

// Label names a command in the log: scripts by their names.
func (n *Node) Label(cmd string, args []string) string {
	for _, s := range protocol.All {
		if IsScript(cmd, args, s) {
			return s.Name
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

// Executed counts a command in the log, by its label; "client" counts all commands of that name. It
// panics for a label that no command can have: a count of it would be 0 for ever.
func (n *Node) Executed(label string) int {
	if !isLabel(label) {
		panic(fmt.Sprintf("testnet: %q is neither a script of package protocol nor a command of commandLabels", label))
	}
	n.Mu.Lock()
	defer n.Mu.Unlock()
	count := 0
	for _, l := range n.Log {
		if l == label || strings.HasPrefix(l, label+" ") {
			count++
		}
	}
	return count
}

// commandLabels are the labels of commands that are no scripts.
var commandLabels = []string{"claim", "client", "client id", "client kill", "del", "eval", "evalsha", "exists", "get", "hget", "hgetall",
	"hincrby", "hset", "info", "ping", "publish", "scan", "script", "set", "subscribe", "time"}

// isLabel reports whether a command can have the label.
func isLabel(label string) bool {
	return slices.Contains(commandLabels, label) || slices.ContainsFunc(protocol.All, func(s *protocol.Script) bool { return s.Name == label })
}

// Set changes the node's behaviour.
func (n *Node) Set(change func(n *Node)) {
	n.Mu.Lock()
	defer n.Mu.Unlock()
	change(n)
	n.changed.Broadcast()
}

func (n *Node) Freeze() { n.Set(func(n *Node) { n.Holding = true }) }
func (n *Node) Thaw()   { n.Set(func(n *Node) { n.Holding = false }) }
func (n *Node) Mute()   { n.Set(func(n *Node) { n.Muting = true }) }

// Cut breaks all links from the client's side. What was sent before is still
// executed; answers are lost.
func (n *Node) Cut() {
	n.Set(func(n *Node) {
		for _, l := range n.Links {
			l.Cut = true
			_ = l.Near.Close()
		}
		n.Links, n.Muting = nil, false
	})
}

func (n *Node) Keys() []string { return n.Redis.Keys() }

// Net is N nodes and a client over them, in a bubble.
type Net struct {
	T       *testing.T
	Nodes   Nodes
	Clients []*redlock.Client
	Clock   *Clock
	Kind    Kind // of the leases; "" is Alone
	bubble  bool // it is in a synctest bubble
}

// Stop closes the clients, lets what is under way arrive, and ends the servers.
func (w *Net) Stop() {
	for _, c := range w.Clients {
		_ = c.Close()
	}
	for _, n := range w.Nodes {
		n.Set(func(n *Node) { n.Holding, n.Muting, n.Delay = false, false, 0 })
	}
	time.Sleep(time.Second)
	for _, n := range w.Nodes {
		n.Cut()
		n.Redis.Close()
	}
}

// Client makes a client whose connections are up.
func (w *Net) Client(opts ...redlock.ClientOption) *redlock.Client {
	w.T.Helper()
	c := w.NewClient(opts...)
	require.NoError(w.T, c.Ping(w.T.Context()))
	if w.bubble {
		synctest.Wait() // Ping awaits a quorum only
	}
	return c
}

// NewClient makes a client that is closed when the test ends.
func (w *Net) NewClient(opts ...redlock.ClientOption) *redlock.Client {
	w.T.Helper()
	pools := make([]redlock.Pool, len(w.Nodes))
	for i, n := range w.Nodes {
		pools[i] = n
	}
	c, err := redlock.New(pools, append([]redlock.ClientOption{redlock.WithLogger(nil), redlock.WithRestartGuard(0), WithClock(w.Clock.Now)}, opts...)...)
	require.NoError(w.T, err)
	w.Add(c)
	return c
}

// Add makes a client one of the network's, which Stop closes.
func (w *Net) Add(c *redlock.Client) {
	w.Clients = append(w.Clients, c)
	if w.bubble {
		testhook.Engine(c).Renewer.KeepHandles()
		testhook.Engine(c).WatchSpares(Spoil(func() { panic("a ballot was reached that was given back") }))
	}
}

// Spoil returns a function for Engine.WatchSpares. It spoils each ballot that is given back, and lets none be used again. A
// goroutine that reaches a spoiled ballot calls reached.
func Spoil(reached func()) func(*quorum.Ballot) bool {
	return func(b *quorum.Ballot) bool {
		b.Spoil(reached)
		return false
	}
}

// WithClock replaces the clock.
func WithClock(c system.Clock) redlock.Option { return testhook.WithClock(c).(redlock.Option) }

// RequireNoKeys checks that no lock's key, and no readers, are left at any node.
func (w *Net) RequireNoKeys() {
	w.T.Helper()
	synctest.Wait()
	for _, n := range w.Nodes {
		for _, key := range n.Keys() {
			require.True(w.T, strings.HasPrefix(key, protocol.Reserved), "node %d has %s", n.Index, key)
			require.False(w.T, strings.HasPrefix(key, protocol.Key("readers", "")), "node %d has %s", n.Index, key)
		}
	}
}

// Holders counts the nodes at which all of the lock's keys, or shares, are this lease's.
func (w *Net) Holders(l *redlock.Lease) int {
	synctest.Wait()
	count := 0
	for _, n := range w.Nodes {
		if !slices.ContainsFunc(l.Names(), func(name string) bool { return !n.holds("redlock:"+name, l) }) {
			count++
		}
	}
	return count
}

// holds reports whether a lock's key, or a share, is the lease's.
func (n *Node) holds(key string, l *redlock.Lease) bool {
	v, err := n.Redis.Get(key)
	ends, _ := n.Redis.ZScore(protocol.Key("readers", key), l.Owner())
	return err == nil && (v == l.Owner() || v == protocol.Shared && ends > float64(time.Now().UnixMilli()))
}

var ErrRefused = errors.New("connection refused")

// Dial is a connection of the test's own.
func Dial(t *testing.T, n *Node) redis.Conn {
	t.Helper()
	c, err := n.dial()
	require.NoError(t, err)
	return redis.NewConn(c, 0, 0)
}

// Down takes a node away until up.
func (n *Node) Down() {
	n.Set(func(n *Node) { n.Refusing = ErrRefused })
	n.Cut()
}

func (n *Node) Up() { n.Set(func(n *Node) { n.Refusing = nil }) }
