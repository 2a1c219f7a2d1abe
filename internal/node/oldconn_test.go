package node

import (
	"io"
	"net"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/gomodule/redigo/redis"
	"github.com/stretchr/testify/require"

	"github.com/redlock-go/redlock/internal/pipe"
	"github.com/redlock-go/redlock/internal/protocol"
)

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
