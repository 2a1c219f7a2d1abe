package redlock

import (
	"fmt"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/redlock-go/redlock/internal/protocol"
)

// What the servers of the tests have on disk, and come back with.

// restart ends the server's run and begins another, with the data that load
// returns; nil: without any.
func (n *testNode) restart(data map[string]any) {
	n.set(func(n *testNode) {
		n.runs++
		n.runID = fmt.Sprintf("run-%d-%d", n.index, n.runs)
	})
	n.redis.FlushAll()
	n.restore(data)
	conn := dialTest(n.t, n)
	_, err := conn.Do("SCRIPT", "FLUSH")
	require.NoError(n.t, err)
	require.NoError(n.t, conn.Close())
	n.cut()
}

// snapshot is what the server has on disk: strings with their ttl, and hashes.
func (n *testNode) snapshot() map[string]any {
	data := make(map[string]any)
	for _, key := range n.redis.Keys() {
		if n.redis.Type(key) == "hash" {
			fields := make(map[string]string)
			names, _ := n.redis.HKeys(key)
			for _, f := range names {
				fields[f] = n.redis.HGet(key, f)
			}
			data[key] = fields
			continue
		}
		value, _ := n.redis.Get(key)
		data[key] = savedString{value, time.Now().Add(n.redis.TTL(key)), n.redis.TTL(key) > 0}
	}
	return data
}

type savedString struct {
	value   string
	expires time.Time
	mortal  bool
}

func (n *testNode) restore(data map[string]any) {
	for key, saved := range data {
		switch saved := saved.(type) {
		case map[string]string:
			for f, v := range saved {
				n.redis.HSet(key, f, v)
			}
		case savedString:
			if saved.mortal && !time.Now().Before(saved.expires) {
				continue
			}
			require.NoError(n.t, n.redis.Set(key, saved.value))
			if saved.mortal {
				n.redis.SetTTL(key, time.Until(saved.expires))
			}
		}
	}
}

// record is the key of the record by which the node votes.
func (n *testNode) record() string {
	key, err := n.redis.Get("redlock::newest")
	require.NoError(n.t, err)
	return key
}

// key is a key of this run of the server.
func (n *testNode) key(kind string) string { return protocol.Key(kind, n.runID) }

// run executes a script at the node, over a connection of its own.
func (n *testNode) run(s *protocol.Script, args ...any) any {
	n.t.Helper()
	conn := dialTest(n.t, n)
	reply, err := conn.Do("EVAL", append([]any{s.Text}, args...)...)
	require.NoError(n.t, err)
	require.NoError(n.t, conn.Close())
	return reply
}

// guarded makes a client with admission on, of a cluster that serves already.
func (w *testNet) guarded(opts ...Option) *Client {
	w.t.Helper()
	c := w.newClient(append([]Option{WithRestartGuard(time.Millisecond)}, opts...)...)
	lease, err := c.Mutex("first").Lock(w.t.Context())
	require.NoError(w.t, err)
	require.NoError(w.t, lease.Unlock(w.t.Context()))
	time.Sleep(time.Second) // the slower nodes are admitted too
	return c
}
