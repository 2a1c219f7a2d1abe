package lock_test

import (
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/redlock-go/redlock/internal/protocol"
	"github.com/redlock-go/redlock/internal/test/testnet"
)

// A server whose memory is full refuses the commands that add something, but not in a script that has
// executed another write before. So each script that grants begins its writes with one that adds.
func TestScriptsThatGrantBeginWithACommandThatAFullServerRefuses(t *testing.T) {
	const ticket, dead = testnet.SecondTicket, testnet.FirstTicket
	read := []any{4, "x", "record", "redlock::queue:x", "redlock::readers:x", "me", 1000, "", 1}
	permit := []any{1, "redlock::queue:x", "me", 1000, "", 1}
	for name, c := range map[string]struct {
		script *protocol.Script
		args   []any
	}{
		"acquire":                  {protocol.Acquire, []any{1, "x", "me", 1000, "", 1, ticket, "label", "", 0}},
		"read":                     {protocol.Read, append(read, "", "label", "", 0)},
		"read, of a waiter":        {protocol.Read, append(read, ticket+"r", "label", "", 0)},
		"acquireall":               {protocol.AcquireAll, []any{2, "x", "redlock::queue:x", "me", 1000, "", 1, "", "label", "", 0}},
		"acquireall, with a token": {protocol.AcquireAll, []any{3, "x", "redlock::queue:x", "record", "me", 1000, "7", 1, ticket + "+", "label", "", 0}},
		"permit":                   {protocol.Permit, append(permit, "", "label", "x#", 1, 1, 0)},
		"permit, of a waiter":      {protocol.Permit, append(permit, ticket+"*1", "label", "x#", 1, 1, 0)},
	} {
		for state, prepare := range map[string]func(n *testnet.Node){
			"free":                func(*testnet.Node) {},
			"a dead client waits": func(n *testnet.Node) { _, _ = n.Redis.ZAdd("redlock::queue:x", 0, dead) },
			"readers hold it": func(n *testnet.Node) {
				n.Run(protocol.Read, append(append([]any{}, read[:6]...), "another", 60_000, "", 1, "", "label", "", 0)...)
			},
		} {
			t.Run(name+", "+state, func(t *testing.T) {
				testnet.InBubble(t, 1, func(t *testing.T, net *testnet.Net) {
					n, eval := testnet.Scripted(t, net)
					prepare(n)
					var writes []string
					n.Set(func(n *testnet.Node) {
						n.Override = func(cmd string, _ []string) string {
							switch cmd {
							case "SET", "ZADD", "HSET", "HINCRBY":
								writes = append(writes, "adds")
							case "DEL", "ZREM", "ZREMRANGEBYSCORE", "PEXPIRE", "PEXPIREAT":
								writes = append(writes, strings.ToLower(cmd))
							}
							return ""
						}
					})
					eval(c.script, c.args...)
					require.NotEmpty(t, writes)
					require.Equal(t, "adds", writes[0])
				})
			})
		}
	}
}

// What passes a lease that is held on, or gives it back, begins with a command that such a server executes.
func TestScriptsThatPassALeaseOnBeginWithACommandThatAFullServerExecutes(t *testing.T) {
	for name, c := range map[string]struct {
		script *protocol.Script
		args   []any
		ttl    time.Duration
	}{
		"transfer":             {protocol.Transfer, []any{1, "x", "me", "new", 7000}, 7 * time.Second},
		"takeback":             {protocol.TakeBack, []any{1, "x", "me", "new"}, 5 * time.Second},
		"resume":               {protocol.Resume, []any{2, "x", "record", "me", "new", 7000, "7", 1}, 7 * time.Second},
		"resume without token": {protocol.Resume, []any{2, "x", "record", "me", "new", 7000, "", 1}, 7 * time.Second},
	} {
		t.Run(name, func(t *testing.T) {
			testnet.InBubble(t, 1, func(t *testing.T, net *testnet.Net) {
				n, _ := testnet.Scripted(t, net)
				require.NoError(t, n.Redis.Set("x", "me"))
				n.Redis.SetTTL("x", 5*time.Second)
				var writes []string
				n.Set(func(n *testnet.Node) {
					n.Override = func(cmd string, _ []string) string {
						if cmd == "SET" || cmd == "HINCRBY" || cmd == "PEXPIRE" {
							writes = append(writes, cmd)
						}
						return ""
					}
				})
				_, err := testnet.Dial(t, n).Do("EVAL", append([]any{c.script.Text()}, c.args...)...)
				require.NoError(t, err)
				require.Equal(t, "PEXPIRE", writes[0])
				value, err := n.Redis.Get("x")
				require.NoError(t, err)
				require.Equal(t, "new", value)
				require.Equal(t, c.ttl, n.Redis.TTL("x"))
			})
		})
	}
}
