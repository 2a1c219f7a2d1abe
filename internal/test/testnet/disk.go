package testnet

import (
	"fmt"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/redlock-go/redlock"
	"github.com/redlock-go/redlock/internal/protocol"
)

// What the servers of the tests have on disk, and come back with.

// Restart ends the server's run and begins another, with the data that load
// returns; nil: without any.
func (n *Node) Restart(data map[string]any) {
	n.Set(func(n *Node) {
		n.runs++
		n.RunID = fmt.Sprintf("run-%d-%d", n.Index, n.runs)
	})
	n.Redis.FlushAll()
	n.Restore(data)
	conn := Dial(n.T, n)
	_, err := conn.Do("SCRIPT", "FLUSH")
	require.NoError(n.T, err)
	require.NoError(n.T, conn.Close())
	n.Cut()
}

// Snapshot is what the server has on disk: strings with their ttl, and hashes.
func (n *Node) Snapshot() map[string]any {
	data := make(map[string]any)
	for _, key := range n.Redis.Keys() {
		if n.Redis.Type(key) == "hash" {
			fields := make(map[string]string)
			names, _ := n.Redis.HKeys(key)
			for _, f := range names {
				fields[f] = n.Redis.HGet(key, f)
			}
			data[key] = fields
			continue
		}
		ttl := n.Redis.TTL(key)
		if value, err := n.Redis.Get(key); err == nil { // else a command has deleted it meanwhile, or it is a queue
			data[key] = savedString{value, time.Now().Add(ttl), ttl > 0}
		}
	}
	return data
}

type savedString struct {
	value   string
	expires time.Time
	mortal  bool
}

func (n *Node) Restore(data map[string]any) {
	for key, saved := range data {
		switch saved := saved.(type) {
		case map[string]string:
			for f, v := range saved {
				n.Redis.HSet(key, f, v)
			}
		case savedString:
			if saved.mortal && !time.Now().Before(saved.expires) {
				continue
			}
			require.NoError(n.T, n.Redis.Set(key, saved.value))
			if saved.mortal {
				n.Redis.SetTTL(key, time.Until(saved.expires))
			}
		}
	}
}

// Record is the key of the record by which the node votes.
func (n *Node) Record() string {
	key, err := n.Redis.Get("redlock::newest")
	require.NoError(n.T, err)
	return key
}

// Key is a key of this run of the server.
func (n *Node) Key(kind string) string { return protocol.Key(kind, n.RunID) }

// Run executes a script at the node, over a connection of its own.
func (n *Node) Run(s *protocol.Script, args ...any) any {
	n.T.Helper()
	reply, err := n.Eval(append([]any{s.Text()}, args...))
	require.NoError(n.T, err)
	return reply
}

// Eval sends EVAL with these arguments to the node, over a connection of its own.
func (n *Node) Eval(args []any) (any, error) {
	n.T.Helper()
	conn := Dial(n.T, n)
	reply, err := conn.Do("EVAL", args...)
	require.NoError(n.T, conn.Close())
	return reply, err
}

// Guarded makes a client with admission on, of a cluster that serves already.
func (w *Net) Guarded(opts ...redlock.ClientOption) *redlock.Client {
	w.T.Helper()
	c := w.NewClient(append([]redlock.ClientOption{redlock.WithRestartGuard(time.Millisecond)}, opts...)...)
	lease, err := c.Mutex("first").Lock(w.T.Context())
	require.NoError(w.T, err)
	require.NoError(w.T, lease.Unlock(w.T.Context()))
	time.Sleep(time.Second) // the slower nodes are admitted too
	return c
}
