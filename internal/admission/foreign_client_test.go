package admission_test

import (
	"log/slog"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/redlock-go/redlock"
	"github.com/redlock-go/redlock/internal/protocol"
	"github.com/redlock-go/redlock/internal/test/testnet"
)

// foreignTypes put another program's value of a type at a key.
var foreignTypes = map[string]func(n *testnet.Node, key string){
	"a string":     func(n *testnet.Node, key string) { _ = n.Redis.Set(key, "text") },
	"a list":       func(n *testnet.Node, key string) { _, _ = n.Redis.Push(key, "item") },
	"a hash":       func(n *testnet.Node, key string) { n.Redis.HSet(key, "field", "value") },
	"a set":        func(n *testnet.Node, key string) { _, _ = n.Redis.SetAdd(key, "member") },
	"a sorted set": func(n *testnet.Node, key string) { _, _ = n.Redis.ZAdd(key, 1, "member") },
}

// admissionKeys return the keys by which a node is admitted.
var admissionKeys = map[string]func(n *testnet.Node) string{
	"record":     func(n *testnet.Node) string { return n.Record() },
	"quarantine": func(n *testnet.Node) string { return n.Key("quarantine") },
	"guard":      func(n *testnet.Node) string { return n.Key("guard") },
	"newest":     func(*testnet.Node) string { return protocol.NewestKey },
	"format":     func(*testnet.Node) string { return protocol.FormatKey },
}

// Another program has a key in place of one by which nodes are admitted. Locks go on by the other nodes. The node
// votes again when the key is deleted; until then the log says what to do, and the client does not spin.
func TestForeignKeyInPlaceOfAnAdmissionsStopsOneNodeAtMost(t *testing.T) {
	for of, key := range admissionKeys {
		for kind, put := range foreignTypes {
			t.Run(kind+" at the "+of, func(t *testing.T) {
				testnet.InBubble(t, 3, func(t *testing.T, net *testnet.Net) {
					var lines testnet.Journal
					opts := []redlock.ClientOption{redlock.WithTTL(3 * time.Second), redlock.WithLogger(slog.New(slog.NewTextHandler(&lines, nil)))}
					old := net.Guarded(opts...)
					n := net.Nodes[1]
					at := key(n)
					n.Redis.Del(at)
					put(n, at)
					fresh := net.NewClient(append(opts, redlock.WithRestartGuard(time.Millisecond))...)
					before := n.Executed("probe")
					for range 30 {
						for _, c := range []*redlock.Client{old, fresh} {
							lease := net.Must(c.Mutex("x").TryLock(t.Context()))
							require.NoError(t, lease.Unlock(t.Context()))
						}
						time.Sleep(time.Second)
					}
					require.Less(t, n.Executed("probe")-before, 2*30*6, "every quarter of a second at most")
					if stats := fresh.Stats().Nodes[1]; stats.State != "up" && stats.State != "quarantined" {
						require.Equal(t, "unfit", stats.State)
						if kind == "a string" && of == "format" {
							require.ErrorContains(t, stats.Err, "another format")
						} else {
							require.Contains(t, lines.String(), "the node does not vote: another program")
							require.ErrorContains(t, stats.Err, "delete")
						}
					}
					if of == "record" && kind != "a hash" {
						require.Equal(t, "unfit", old.Stats().Nodes[1].State, "it refuses each vote")
					}
					n.Redis.Del(at)
					time.Sleep(30 * time.Second)
					for _, c := range []*redlock.Client{old, fresh} {
						require.Equal(t, "up", c.Stats().Nodes[1].State, lines.String())
					}
				})
			})
		}
	}
}

// An operator, or another program, takes the quarantine's end away.
func TestQuarantineWithoutAnEndEnds(t *testing.T) {
	testnet.InBubble(t, 3, func(t *testing.T, net *testnet.Net) {
		c := net.Guarded(redlock.WithTTL(3 * time.Second))
		n := net.Nodes[1]
		n.Restart(nil)
		time.Sleep(time.Second)
		require.NoError(t, n.Redis.Set(n.Key("guard"), "text"))
		before := n.Executed("probe")
		time.Sleep(20 * time.Second)
		require.Less(t, n.Executed("probe")-before, 20*6, "the client does not spin")
		require.Equal(t, "up", c.Stats().Nodes[1].State)
	})
}

// What another program has written in place of the newest record's name is no key of ours.
func TestAdmissionDeletesNoKeyOfAnotherProgram(t *testing.T) {
	testnet.InBubble(t, 3, func(t *testing.T, net *testnet.Net) {
		c := net.Guarded(redlock.WithTTL(3 * time.Second))
		n := net.Nodes[1]
		n.Restart(nil)
		n.Redis.HSet("important", "field", "value")
		require.NoError(t, n.Redis.Set(protocol.NewestKey, "important"))
		time.Sleep(10 * time.Second)
		require.Equal(t, "up", c.Stats().Nodes[1].State)
		require.True(t, n.Redis.Exists("important"))
		require.True(t, strings.HasPrefix(n.Record(), protocol.Key("record", "")))
	})
}

// docs/migrating.md: a client of another library holds the lock at two nodes, with a longer ttl than any on record. One of
// them forgets that. It must not vote for a client of this library before the other's lock has ended.
func TestGuardOfTheLongestForeignTTLKeepsNewClientsOutForThatLong(t *testing.T) {
	const foreign = time.Minute
	for _, guard := range []time.Duration{time.Millisecond, foreign} {
		testnet.InBubble(t, 3, func(t *testing.T, net *testnet.Net) {
			c := net.Guarded(redlock.WithTTL(5*time.Second), redlock.WithRestartGuard(guard))
			for _, n := range net.Nodes[:2] {
				require.NoError(t, n.Redis.Set("redlock:x", "theirs"))
				n.Redis.SetTTL("redlock:x", foreign)
			}
			began := time.Now()
			kill(net.Nodes[0])
			net.Nodes[0].Up()
			lease := net.Must(c.Mutex("x").Lock(t.Context()))
			require.Equal(t, guard >= foreign, time.Since(began) >= foreign, "after %v", time.Since(began))
			require.NoError(t, lease.Unlock(t.Context()))
		})
	}
}
