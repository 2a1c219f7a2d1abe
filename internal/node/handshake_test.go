package node

import (
	"context"
	"errors"
	"io"
	"net"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/gomodule/redigo/redis"
	"github.com/stretchr/testify/require"

	"github.com/redlock-go/redlock/internal/endpoint"
	"github.com/redlock-go/redlock/internal/pipe"
	"github.com/redlock-go/redlock/internal/protocol"
)

// socketTo returns a client's end of a connection, at whose other end a server has written its text and ended.
// The first bytes that the client writes are accepted, and no more.
func socketTo(text string) net.Conn { return &closed{from: strings.NewReader(text)} }

type closed struct {
	net.Conn
	from   io.Reader
	writes int
}

func (c *closed) Read(p []byte) (int, error) {
	n, err := c.from.Read(p)
	if err == io.EOF {
		err = syscall.ECONNRESET
	}
	return n, err
}

func (c *closed) Write(p []byte) (int, error) {
	if c.writes++; c.writes > 1 {
		return 0, syscall.EPIPE
	}
	return len(p), nil
}

func (*closed) SetDeadline(time.Time) error { return nil }

func (*closed) SetReadDeadline(time.Time) error { return nil }

func (*closed) SetWriteDeadline(time.Time) error { return nil }

func (c *closed) Close() error {
	c.from = strings.NewReader("")
	return nil
}

// dials is a pool that counts its connections.
type dials struct {
	connect func() redis.Conn
	count   int
}

func (d *dials) GetContext(context.Context) (redis.Conn, error) {
	d.count++
	return d.connect(), nil
}

// shakeOnce makes one connection, and returns why it failed.
func shakeOnce(t *testing.T, d *dials) error {
	t.Helper()
	u := newUnconnected()
	u.pool = d
	_, err := (&connector{node: u.Node}).connect(t.Context(), func() {})
	return err
}

// refusals are what servers say when they accept a connection that they do not want.
var refusals = map[string]string{
	"ERR max number of clients reached":                       "raise maxclients",
	"DENIED Redis is running in protected mode because …":     "protected mode",
	"LOADING Redis is loading the dataset in memory":          "wait",
	"ERR Protocol error: unauthenticated multibulk length":    "",
	"NOAUTH Authentication required.":                         "check the user and the password",
	"MASTERDOWN Link with MASTER is down and replica-serve-…": "",
}

func TestHandshakeShowsWhatTheServerSaidBeforeItClosed(t *testing.T) {
	for said, remedy := range refusals {
		d := &dials{connect: func() redis.Conn {
			conn, err := (&endpoint.Connector{Dial: func(context.Context) (net.Conn, error) { return socketTo("-" + said + "\r\n"), nil }}).Connect(t.Context())
			require.NoError(t, err)
			return conn
		}}
		err := shakeOnce(t, d)
		require.ErrorIs(t, err, redis.Error(said))
		require.ErrorContains(t, Advise(err), remedy)
		require.Equal(t, 1, d.count)
	}
}

// Connections of redigo cannot be read any more when a write has failed.
func TestHandshakeAsksAgainOverOtherLibrariesConnections(t *testing.T) {
	for said := range refusals {
		d := &dials{connect: func() redis.Conn { return redis.NewConn(socketTo("-"+said+"\r\n"), 0, 0) }}
		require.ErrorIs(t, shakeOnce(t, d), redis.Error(said))
		require.Equal(t, 2, d.count)
	}
}

// An error of one command is not why a connection broke.
func TestHandshakeTakesOnlyTheFirstReplyForARefusal(t *testing.T) {
	d := &dials{connect: func() redis.Conn { return redis.NewConn(socketTo("+OK\r\n-NOPERM no\r\n"), 0, 0) }}
	err := shakeOnce(t, d)
	require.False(t, IsPermanent(err), "%v", err)
	d = &dials{}
	d.connect = func() redis.Conn {
		if d.count == 1 {
			return redis.NewConn(socketTo(""), 0, 0)
		}
		return redis.NewConn(socketTo("-NOPERM no\r\n+PONG\r\n"), 0, 0)
	}
	err = shakeOnce(t, d)
	require.Equal(t, 2, d.count)
	require.False(t, IsPermanent(err), "%v", err)
}

// A sentinel refuses the scripts, too.
func TestHandshakeNamesASentinel(t *testing.T) {
	text := strings.Repeat("-ERR unknown command 'SCRIPT'\r\n", len(protocol.ForMutexes.Scripts()))
	text += ":1\r\n$21\r\nredis_mode:sentinel\r\n\r\n-ERR unknown command 'TIME'\r\n"
	err := shakeOnce(t, &dials{connect: func() redis.Conn { return redis.NewConn(&closed{from: strings.NewReader(text), writes: -1000}, 0, 0) }})
	require.ErrorContains(t, err, "it is a sentinel")
	require.True(t, IsPermanent(err))
}

func TestHandshakeAsksWhetherAServerThatClosesIsOne(t *testing.T) {
	for _, connect := range []func() redis.Conn{
		func() redis.Conn { return redis.NewConn(socketTo(""), 0, 0) },
		func() redis.Conn {
			conn, _ := (&endpoint.Connector{Dial: func(context.Context) (net.Conn, error) { return socketTo(""), nil }}).Connect(context.Background())
			return conn
		},
	} {
		err := shakeOnce(t, &dials{connect: connect})
		require.ErrorContains(t, err, "is this a Redis server, and does it speak TLS?")
		require.True(t, errors.Is(err, syscall.EPIPE) || errors.Is(err, syscall.ECONNRESET))
		require.False(t, IsPermanent(err))
	}
}

// panicking is a pool whose reader panics while it logs in.
type panicking struct{}

func (panicking) GetContext(context.Context) (redis.Conn, error) {
	panic("makeslice: len out of range")
}

func TestPoolThatPanicsIsANodeThatIsDown(t *testing.T) {
	_, err := dial(t.Context(), panicking{}, time.Second, func() {})
	require.ErrorContains(t, err, "the pool (node.panicking) panics: makeslice")
}

func TestEachHazardOfANodeIsLogged(t *testing.T) {
	require.Len(t, hazards(identity{evicts: "allkeys-lru"}, nil), 2)
	require.Len(t, hazards(identity{runID: "run", evicts: "allkeys-lru"}, nil), 1)
	require.Len(t, hazards(identity{}, errors.New("refused")), 1)
	require.Empty(t, hazards(identity{runID: "run", evicts: "noeviction"}, nil))
}

func TestIdentityIsReadFromINFO(t *testing.T) {
	var id identity
	id.read("# Server\r\nrun_id:abc\r\nredis_version:7.0.15\r\nrole:master\r\nredis_mode:standalone\r\nmaxmemory_policy:noeviction\r\nother:1\r\n")
	require.Equal(t, identity{runID: "abc", role: "master", evicts: "noeviction", major: 7}, id)
}

func TestClusterModeIsReadFromINFO(t *testing.T) {
	for info, want := range map[string]bool{
		"redis_mode:cluster\r\n":                       true,
		"server_mode:cluster\r\n":                      true,
		"cluster_enabled:1\r\n":                        true,
		"cluster_enabled:1\r\nredis_mode:standalone":   true,
		"server_mode:standalone\r\ncluster_enabled:0":  false,
		"redis_mode:sentinel\r\ncluster_enabled:0\r\n": false,
		"": false,
	} {
		var id identity
		id.read(info)
		require.Equal(t, want, id.cluster, info)
	}
}

func TestOneServerBehindTwoNodesHasOneVote(t *testing.T) {
	all, nodes := NewIdentities(), []*Node{{}, {}, {}}
	register := func(index int, run string, want bool) {
		t.Helper()
		_, ok := all.register(nodes[index], run)
		require.Equal(t, want, ok)
	}
	register(0, "a", true)
	register(0, "a", true)
	register(1, "a", false)
	register(1, "", true)
	register(2, "", true) // servers that do not name their run cannot be compared
	register(0, "b", true)
	register(1, "a", true) // node 0 leads to another one now
	other, _ := all.register(nodes[2], "b")
	require.Same(t, nodes[0], other)
	all.leave(nodes[0])
	register(0, "b", true) // a handshake that was under way
	register(2, "b", true)
}

// meet simulates a handshake with a server, and returns the ids of the connections that
// the server is to close, with the calls for that.
func (c *connector) meet(run string, client int64) (ids []int64, kills []*pipe.Call) {
	id := identity{runID: run, client: client}
	kills = c.node.old.killCalls(c.server, id, c.node.Counters.Connects.Load() > 0)
	c.node.Counters.Connects.Add(1)
	c.server = id
	for _, call := range kills {
		ids = append(ids, call.Args[2].(int64))
	}
	return ids, kills
}

// answer gives the same answer to all calls.
func answer(calls []*pipe.Call, err error) {
	for _, c := range calls {
		c.To.Receive(nil, err)
	}
}

func TestOldConnectionsAreNamedUntilTheServerHasClosedThem(t *testing.T) {
	for name, c := range map[string]struct {
		err    error
		closed bool
	}{
		"closed":       {nil, true},
		"gone before":  {redis.Error("ERR No such client"), true},
		"refused":      {refusal, false},
		"not answered": {pipe.ErrNotSent, false},
	} {
		n := &connector{node: newUnconnected().Node}
		ids, _ := n.meet("run", 1)
		require.Empty(t, ids, "the first connection")
		ids, kills := n.meet("run", 2)
		require.Equal(t, []int64{1}, ids)
		answer(kills, c.err)
		ids, _ = n.meet("run", 3)
		if c.closed {
			require.Equal(t, []int64{2}, ids, name)
		} else {
			require.Equal(t, []int64{1, 2}, ids, name)
		}
	}
}

// What is still on its way over an old connection is not executed behind the undo of it.
func TestOldConnectionsAreClosedAheadOfTheUndos(t *testing.T) {
	n := newUnconnected().Node
	n.Undo(&Undo{Owner: "me", Script: protocol.Release, Lasts: time.Second})
	c := &connector{node: n}
	c.meet("run", 1)
	_, kills := c.meet("run", 2)
	near, far := net.Pipe()
	p := pipe.New(redis.NewConn(near, 0, 0))
	require.NoError(t, c.use(p, n.scripts.families(), kills...))
	var sent strings.Builder
	for !strings.Contains(sent.String(), protocol.Release.SHA().(string)) {
		piece := make([]byte, 1<<10)
		k, err := far.Read(piece)
		require.NoError(t, err)
		sent.Write(piece[:k])
	}
	before, _, _ := strings.Cut(sent.String(), protocol.Release.SHA().(string))
	require.Contains(t, before, "KILL")
	p.Kill(io.EOF)
	<-p.Done()
	require.NoError(t, far.Close())
}

func TestOldConnectionsOfAnotherRunAreNotNamed(t *testing.T) {
	n := &connector{node: newUnconnected().Node}
	for i := range int64(3) {
		n.meet("run", i+1)
	}
	ids, _ := n.meet("another", 1)
	require.Empty(t, ids, "these ids are other clients' connections")
	ids, _ = n.meet("another", 2)
	require.Equal(t, []int64{1}, ids)
	for range 2 {
		ids, _ = n.meet("", 1)
		require.Empty(t, ids, "a server that does not name its run may be another one")
	}
}

func TestOldConnectionsThatAreNamedAgainAreBounded(t *testing.T) {
	n := &connector{node: newUnconnected().Node}
	const last = 2 * maxOldConnections
	for i := range int64(last) {
		ids, kills := n.meet("run", i+1)
		require.LessOrEqual(t, len(ids), maxOldConnections)
		answer(kills, refusal)
	}
	ids, _ := n.meet("run", last+1)
	require.Len(t, ids, maxOldConnections)
	require.Equal(t, int64(last), slices.Max(ids))
	require.Equal(t, int64(last-maxOldConnections+1), slices.Min(ids), "the oldest are left out")
}

func TestNodeKnowsWhetherTheServerMayHaveOldConnections(t *testing.T) {
	type meeting struct {
		run    string
		client int64
		answer error // to CLIENT KILL
		old    bool  // afterwards
	}
	for name, meetings := range map[string][]meeting{
		"closed":                 {{"run", 1, nil, false}, {"run", 2, nil, false}, {"run", 3, nil, false}},
		"refused, then closed":   {{"run", 1, nil, false}, {"run", 2, refusal, true}, {"run", 3, nil, false}},
		"not answered":           {{"run", 1, nil, false}, {"run", 2, pipe.ErrNotSent, true}},
		"ended with another run": {{"run", 1, nil, false}, {"run", 2, refusal, true}, {"another", 1, nil, false}},
		"no CLIENT ID":           {{"run", 0, nil, false}, {"run", 0, nil, true}, {"another", 0, nil, false}, {"another", 0, nil, true}},
		"no INFO":                {{"", 1, nil, false}, {"", 2, nil, true}, {"", 3, nil, true}},
		"neither":                {{"", 0, nil, false}, {"", 0, nil, true}},
		"INFO from now on":       {{"", 1, nil, false}, {"run", 2, nil, true}, {"run", 3, nil, true}, {"another", 1, nil, false}},
		"INFO until now":         {{"run", 1, nil, false}, {"", 2, nil, true}, {"run", 3, nil, true}},
	} {
		n := &connector{node: newUnconnected().Node}
		for i, m := range meetings {
			_, kills := n.meet(m.run, m.client)
			if len(kills) > 0 && m.answer != nil {
				require.True(t, n.node.HasOldConnections(), "%s, %d: before the answer", name, i)
			}
			answer(kills, m.answer)
			require.Equal(t, m.old, n.node.HasOldConnections(), "%s, connection %d", name, i+1)
		}
	}
}
