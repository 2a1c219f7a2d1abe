package testnet

import (
	"testing"
	"testing/synctest"

	"github.com/gomodule/redigo/redis"
	"github.com/stretchr/testify/require"

	"github.com/redlock-go/redlock"
	"github.com/redlock-go/redlock/internal/protocol"
	"github.com/redlock-go/redlock/internal/testhook"
)

// Scripted is a node, and how a script is run there by its hash.
func Scripted(t *testing.T, net *Net) (n *Node, eval func(s *protocol.Script, args ...any) any) {
	net.Client() // loads the scripts
	synctest.Wait()
	conn := Dial(t, net.Nodes[0])
	t.Cleanup(func() { _ = conn.Close() })
	return net.Nodes[0], func(s *protocol.Script, args ...any) any {
		reply, err := conn.Do("EVALSHA", append([]any{s.SHA}, args...)...)
		require.NoError(t, err)
		return reply
	}
}

// Keys returns the arguments of a release of a lock's key: the keys, and what follows them.
func Keys(lock string, args ...any) []any {
	return append([]any{3, lock, protocol.Key("line", lock), protocol.Key("readers", lock)}, args...)
}

// Ask is an attempt of a ticket for a lock that the node does not park. The answer is the holder, and
// empty if it was granted.
func Ask(t *testing.T, eval func(*protocol.Script, ...any) any, lock, ticket string) (holder string) {
	reply := eval(protocol.Acquire, 1, lock, "of "+ticket, 10_000, "", 1, ticket, "label", "", 0)
	if _, granted := reply.(int64); granted {
		return ""
	}
	values, err := redis.Values(reply, nil)
	require.NoError(t, err)
	require.Len(t, values, 5)
	holder, err = redis.String(values[0], nil)
	require.NoError(t, err)
	return holder
}

// Tickets of two clients, in their order.
const (
	FirstTicket  = "0000000000000001-AAAAAAAAAAAAAAAA-0000000001"
	SecondTicket = "0000000000000002-BBBBBBBBBBBBBBBB-0000000001"
	ThirdTicket  = "0000000000000003-CCCCCCCCCCCCCCCC-0000000001"
)

// LoseRecord deletes the node's record and leaves its bar. The client looks at it at once.
func LoseRecord(node *Node, c *redlock.Client) (bar, record string) {
	bar, record = protocol.Key("bar", node.RunID), node.Record()
	node.Redis.Del(record)
	testhook.Engine(c).Cluster.Nodes[node.Index].Nudge()
	synctest.Wait()
	return bar, record
}
