package testnet

import (
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/gomodule/redigo/redis"
	"github.com/stretchr/testify/require"

	"github.com/redlock-go/redlock"
	"github.com/redlock-go/redlock/internal/protocol"
	"github.com/redlock-go/redlock/internal/test/testhook"
)

// Scripted is a node, and how a script is run there by its hash.
func Scripted(t *testing.T, net *Net) (n *Node, eval func(s *protocol.Script, args ...any) any) {
	net.Client() // some tests need one that is connected
	synctest.Wait()
	conn := Dial(t, net.Nodes[0])
	t.Cleanup(func() { _ = conn.Close() })
	ears := Dial(t, net.Nodes[0])
	for _, id := range "ABCDEFGHIJKLMNOP" { // clients of tickets that the tests invent
		require.NoError(t, ears.Send("SUBSCRIBE", protocol.Key("wake", strings.Repeat(string(id), 16))))
	}
	require.NoError(t, ears.Flush())
	go func() {
		for {
			if _, err := ears.Receive(); err != nil {
				return
			}
		}
	}()
	t.Cleanup(func() { _ = ears.Close() })
	synctest.Wait()
	for _, s := range protocol.Loaded {
		_, err := conn.Do("SCRIPT", "LOAD", s.Text())
		require.NoError(t, err)
	}
	return net.Nodes[0], func(s *protocol.Script, args ...any) any {
		reply, err := conn.Do("EVALSHA", append([]any{s.SHA()}, args...)...)
		require.NoError(t, err)
		return reply
	}
}

// OnMessage calls do for each message that the node sends, but for the empty ones, by which scripts learn that they may
// publish. It takes the place of Override.
func (n *Node) OnMessage(do func(message string)) {
	n.Set(func(n *Node) {
		n.Override = func(cmd string, args []string) string {
			if cmd == "PUBLISH" && args[1] != "" {
				do(args[1])
			}
			return ""
		}
	})
}

// IsScript reports whether a command is one of the scripts, called by its hash or sent as text.
func IsScript(cmd string, args []string, scripts ...*protocol.Script) bool {
	return slices.ContainsFunc(scripts, func(s *protocol.Script) bool {
		return cmd == "EVALSHA" && args[0] == s.SHA() || cmd == "EVAL" && args[0] == s.Text()
	})
}

// Keys returns the arguments of a release of a lock's key: the keys, and what follows them.
func Keys(lock string, args ...any) []any {
	return append([]any{3, lock, protocol.Key("queue", lock), protocol.Key("readers", lock)}, args...)
}

// Ask is an attempt of a ticket for a lock that the node does not park. The answer is the holder, and
// empty if it was granted.
func Ask(t *testing.T, eval func(*protocol.Script, ...any) any, lock, ticket string) (holder string) {
	t.Helper()
	return holderIn(t, eval(protocol.Acquire, 2, lock, "record", "of "+ticket, 10_000, "7", 1, ticket, "label", "", 0), 4)
}

// holderIn returns the holder that a refusal, which has so many values, names first. It returns "" if
// the reply is a grant.
func holderIn(t *testing.T, reply any, values int) (holder string) {
	t.Helper()
	if _, granted := reply.(int64); granted {
		return ""
	}
	refusal, err := redis.Values(reply, nil)
	require.NoError(t, err)
	require.Len(t, refusal, values)
	holder, err = redis.String(refusal[0], nil)
	require.NoError(t, err)
	return holder
}

// AllKeys returns the arguments of a release of several locks: the keys, and what follows them.
func AllKeys(locks []string, args ...any) []any {
	all := []any{3 * len(locks)}
	for _, kind := range []string{"", "queue", "readers"} {
		for _, lock := range locks {
			if kind != "" {
				lock = protocol.Key(kind, lock)
			}
			all = append(all, lock)
		}
	}
	return append(all, args...)
}

// AskAll is an attempt of a ticket for several locks, which the node counts in the key "record" under
// the stripes 7 and 8, and parks for so long. The answer is as Ask's.
func AskAll(t *testing.T, eval func(*protocol.Script, ...any) any, locks []string, ticket string, parkFor time.Duration) (holder string) {
	t.Helper()
	args := AllKeys(locks)[:1+2*len(locks)]
	args[0] = 2*len(locks) + 1
	args = append(args, "record", "of "+ticket, 10_000, "7,8", 1, ticket, "label", "", parkFor.Milliseconds())
	return holderIn(t, eval(protocol.AcquireAll, args...), 4)
}

// Tickets of three clients, in their order.
const (
	FirstTicket  = "0000000000000001-AAAAAAAAAAAAAAAA-0000000001"
	SecondTicket = "0000000000000002-BBBBBBBBBBBBBBBB-0000000001"
	ThirdTicket  = "0000000000000003-CCCCCCCCCCCCCCCC-0000000001"
)

// LoseRecord deletes the node's record and leaves its quarantine. The client looks at it at once.
func LoseRecord(node *Node, c *redlock.Client) (quarantine, record string) {
	quarantine, record = protocol.Key("quarantine", node.RunID), node.Record()
	node.Redis.Del(record)
	testhook.Engine(c).Cluster.Nodes()[node.Index].Nudge()
	synctest.Wait()
	return quarantine, record
}
