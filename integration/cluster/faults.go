package cluster

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/gomodule/redigo/redis"
	"github.com/stretchr/testify/require"
)

// Kill is Nodes.Kill for one.
func (n *Node) Kill(t testing.TB) { t.Helper(); Nodes{n}.Kill(t) }

// Start is Nodes.Start for one.
func (n *Node) Start(t testing.TB) { t.Helper(); Nodes{n}.Start(t) }

// Freeze is Nodes.Freeze for one.
func (n *Node) Freeze(t testing.TB) { t.Helper(); Nodes{n}.Freeze(t) }

// Thaw is Nodes.Thaw for one.
func (n *Node) Thaw(t testing.TB) { t.Helper(); Nodes{n}.Thaw(t) }

// Save writes the server's memory to disk, as a master with persistence does: the
// next Kill does not lose it.
func (n *Node) Save(t testing.TB) {
	t.Helper()
	n.Do(t, "SAVE")
	n.saved = true
}

// Restart kills the server and starts it again at once.
func (n *Node) Restart(t testing.TB) {
	t.Helper()
	n.Kill(t)
	n.Start(t)
}

// RestartLoading restarts the server with its data and returns while it still
// loads them: for about d, or until FinishLoading, it answers -LOADING.
func (n *Node) RestartLoading(t testing.TB, d time.Duration) {
	t.Helper()
	c, err := n.dial()
	require.NoError(t, err)
	defer c.Close()
	// Each value of the ballast fills one interval between the moments at which a loading server
	// answers. Redis 6.2 has no setting for that interval: there are fewer and greater values for it.
	perKey, size, lines := 500*time.Millisecond, 2<<20, []string(nil)
	const interval = "loading-process-events-interval-bytes"
	known, err := redis.Strings(c.Do("CONFIG", "GET", interval))
	require.NoError(t, err)
	if len(known) > 0 {
		perKey, size, lines = 20*time.Millisecond, 1<<10, []string{interval + " 1024"}
	}
	// The ballast lies in database 1, out of sight of Keys.
	require.NoError(t, c.Send("SELECT", 1))
	for i := range int(d / perKey) {
		require.NoError(t, c.Send("SET", fmt.Sprint("ballast:", i), strings.Repeat("x", size)))
	}
	require.NoError(t, c.Flush())
	for range 1 + int(d/perKey) {
		_, err := c.Receive()
		require.NoError(t, err)
	}
	n.Save(t)
	n.Kill(t)
	require.NoError(t, n.launch(append(lines, fmt.Sprint("key-load-delay ", perKey.Microseconds()))...))
	err = n.await(func(err error) bool { return err != nil && strings.HasPrefix(err.Error(), "LOADING") })
	require.NoError(t, err, "the server never said that it is loading")
}

// FinishLoading lets the server load the rest of its data at once, and waits until
// it has done so. Redis 6.2 takes no settings while it loads: there the server starts once more.
func (n *Node) FinishLoading(t testing.TB) {
	t.Helper()
	c, err := n.dial()
	require.NoError(t, err)
	defer c.Close()
	if _, err := c.Do("CONFIG", "SET", "key-load-delay", 0); err != nil {
		n.saved = true
		n.Restart(t)
	}
	require.NoError(t, n.await(func(err error) bool { return err == nil }))
}

// Cut is Nodes.Cut for one.
func (n *Node) Cut() { n.proxy.change(func(r *rules) { r.holdRequests, r.holdReplies = true, true }) }

// HoldReplies lets requests through and holds the answers until Heal.
func (n *Node) HoldReplies() { n.proxy.change(func(r *rules) { r.holdReplies = true }) }

// LoseReply lets requests through and, once, resets the connection instead of passing on the
// next answer: the server has executed a command without the client's knowledge.
func (n *Node) LoseReply() { n.proxy.change(func(r *rules) { r.loseReplies++ }) }

// Strand holds all bytes of the present connections until Heal, and lets new connections
// through: the last bytes of an old connection arrive long after the client reconnected.
func (n *Node) Strand() { n.proxy.strand() }

// Garble lets requests through and gives clients text in place of every answer,
// until Heal.
func (n *Node) Garble(text string) { n.proxy.change(func(r *rules) { r.garbage = []byte(text) }) }

// Delay adds d to each direction; 0 ends it.
func (n *Node) Delay(d time.Duration) { n.proxy.change(func(r *rules) { r.delay = d }) }

// Reset breaks the present connections; bytes on their way are lost.
func (n *Node) Reset() { n.proxy.breakAll() }

// Heal is Nodes.Heal for one.
func (n *Node) Heal() { n.proxy.change(func(r *rules) { *r = rules{} }) }

func (n *Node) setFrozen(frozen bool) error {
	if n.frozen == frozen || !n.running {
		return nil
	}
	act := n.srv.thaw
	if frozen {
		act = n.srv.freeze
	}
	if err := act(); err != nil {
		return fmt.Errorf("node %d: %w", n.index, err)
	}
	n.frozen = frozen
	return nil
}

func (n *Node) kill() error {
	if !n.running {
		return nil
	}
	if err := n.srv.kill(); err != nil {
		return fmt.Errorf("node %d: kill: %w", n.index, err)
	}
	if !n.saved {
		n.life++
	}
	n.running, n.frozen, n.follows, n.saved = false, false, false, false
	clear(n.changed)
	return nil
}

// start launches the server, unless it runs, and waits until it serves.
func (n *Node) start() error {
	if n.running && n.srv.ended() {
		if err := n.kill(); err != nil {
			return err
		}
	}
	if !n.running {
		if err := n.launch(); err != nil {
			return err
		}
	}
	return n.await(func(err error) bool { return err == nil })
}

func (n *Node) launch(extra ...string) error {
	conf := settings{rdb: fmt.Sprintf("life-%d.rdb", n.life), extra: append(extra, n.lines...)}
	if err := n.srv.start(conf); err != nil {
		return fmt.Errorf("node %d: start: %w", n.index, err)
	}
	n.running = true
	return nil
}

// await pings the server until the answer is as wanted. It gives up a server that has ended.
func (n *Node) await(wanted func(error) bool) error {
	deadline := time.Now().Add(startTimeout)
	for {
		err := n.ping()
		if err != nil && n.srv.ended() {
			return errors.Join(fmt.Errorf("node %d: the server ended by itself: %s", n.index, n.srv.log()), n.kill())
		}
		if wanted(err) {
			return nil
		}
		if time.Now().After(deadline) {
			return fmt.Errorf("node %d: not as expected after %v: %v\n%s", n.index, startTimeout, err, n.srv.log())
		}
		time.Sleep(5 * time.Millisecond)
	}
}

func (n *Node) ping() error {
	c, err := n.dial()
	if err != nil {
		return err
	}
	defer c.Close()
	if _, err = redis.String(c.Do("PING")); err != nil {
		return err
	}
	// Another process may have taken the port while the server was down: that of another test run.
	info, err := redis.String(c.Do("INFO", "server"))
	if pid := n.srv.pid(); err == nil && pid != "" && field(info, "process_id") != pid {
		return fmt.Errorf("the process %s answers at the port of process %s", field(info, "process_id"), pid)
	}
	return err
}

// RestartWith restarts the server with further lines of redis.conf, until its next restart; that is when the test ends.
// It may refuse all commands from its start on, as Redis 6.2 does without room for its AOF.
func (n *Node) RestartWith(t testing.TB, lines ...string) {
	t.Helper()
	n.Kill(t)
	require.NoError(t, n.launch(lines...))
	require.NoError(t, n.await(func(err error) bool {
		return err == nil || strings.HasPrefix(err.Error(), "MISCONF")
	}))
	t.Cleanup(func() { n.Restart(t) })
}
