package admission_test

import (
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/redlock-go/redlock"
	"github.com/redlock-go/redlock/internal/protocol"
	"github.com/redlock-go/redlock/internal/test/testnet"
)

// The servers' clocks are set back by an hour while they are in quarantine.
func TestQuarantineIsNoLongerThanItsGuardThoughClocksAreSetBack(t *testing.T) {
	testnet.InBubble(t, 3, func(t *testing.T, net *testnet.Net) {
		c := net.NewClient(redlock.WithTTL(5*time.Second), redlock.WithRestartGuard(5*time.Second))
		time.Sleep(time.Second)
		for _, n := range net.Nodes {
			require.Equal(t, 4*time.Second, n.Redis.TTL(n.Key("guard")).Round(time.Second))
			n.Redis.SetTTL(n.Key("guard"), time.Hour)
		}
		_, took := lockWithin(t, c, 8*time.Second)
		require.Greater(t, took, 5*time.Second, "a guard from the look that found it")
	})
}

// A node prolongs only what the client has read that its record, or its quarantine, allows for.
func TestRenewalNeedsItsTTLOnRecord(t *testing.T) {
	testnet.InBubble(t, 3, func(t *testing.T, net *testnet.Net) {
		c := net.Guarded(redlock.WithTTL(2 * time.Second))
		m := members(c)[1]
		_, err := m.RightToRenew(2 * time.Second)
		require.NoError(t, err)
		_, err = m.RightToRenew(7 * time.Second)
		require.ErrorContains(t, err, "is being registered")
		time.Sleep(time.Second)
		_, err = m.RightToRenew(7 * time.Second)
		require.NoError(t, err)
		require.Equal(t, "7000", net.Nodes[1].Redis.HGet(net.Nodes[1].Record(), "ttl"))
		net.Nodes[1].Redis.FlushAll()
		m.Nudge()
		time.Sleep(time.Second)
		right, err := m.RightToRenew(7 * time.Second)
		require.NoError(t, err, "the quarantine lasts as long")
		require.False(t, right.Votes)
		_, err = m.RightToRenew(8 * time.Second)
		require.ErrorContains(t, err, "is being registered")
	})
}

// stoppableClock is the clock of a client that can be stopped, as a process by SIGSTOP: its goroutines stop where they
// read the clock next, which they do whenever they send something.
type stoppableClock struct {
	clock   *testnet.Clock
	mu      sync.Mutex // protects stopped
	stopped bool
	goesOn  *sync.Cond
}

func newStoppableClock(clock *testnet.Clock) *stoppableClock {
	c := &stoppableClock{clock: clock}
	c.goesOn = sync.NewCond(&c.mu)
	return c
}

func (c *stoppableClock) now() time.Duration {
	c.mu.Lock()
	defer c.mu.Unlock()
	for c.stopped {
		c.goesOn.Wait()
	}
	return c.clock.Now()
}

func (c *stoppableClock) stop(stopped bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.stopped = stopped
	c.goesOn.Broadcast()
}

// A client is stopped while it admits a node. Another one admits the node meanwhile, and a second node is wiped.
// When the first client goes on, it may take the first node for one without a record, so that a majority seems to have forgotten. Yet
// neither node stays away for longer than one guard.
func TestClientThatIsStoppedInAnAdmissionDelaysNobody(t *testing.T) {
	const guard = 2 * time.Second
	for _, command := range []string{"probe", "get", "hgetall", "time", "record", "admit"} {
		t.Run(command, func(t *testing.T) {
			testnet.InBubble(t, 3, func(t *testing.T, net *testnet.Net) {
				require.NoError(t, net.Guarded(redlock.WithTTL(guard)).Close())
				clock := newStoppableClock(net.Clock)
				defer clock.stop(false)
				stopped := net.Guarded(redlock.WithTTL(guard), testnet.WithClock(clock.now))
				first, second := net.Nodes[0], net.Nodes[1]
				first.Restart(first.Snapshot())
				time.Sleep(guard - 100*ms)
				require.False(t, members(stopped)[0].Current().Votes)
				var reached atomic.Bool
				for _, n := range net.Nodes {
					n.Set(func(n *testnet.Node) {
						n.Override = func(cmd string, args []string) string {
							if n.Label(cmd, args) == command {
								clock.stop(true)
								reached.Store(true)
							}
							return ""
						}
					})
				}
				time.Sleep(200 * ms)
				net.Nodes.Set(func(n *testnet.Node) { n.Override = nil })
				require.True(t, reached.Load())

				other := net.Guarded(redlock.WithTTL(guard))
				record := first.Record()
				require.Equal(t, first.Key("record")+":"+first.Redis.HGet(first.Key("quarantine"), "name"), record, "the other client admitted the node")
				second.Redis.FlushAll()
				clock.stop(false)
				time.Sleep(200 * ms)
				for i := range net.Nodes { // both find now that the second node was wiped
					members(stopped)[i].Nudge()
					members(other)[i].Nudge()
				}
				time.Sleep(guard + 500*ms)
				for i, n := range net.Nodes {
					quarantine := protocol.Key("quarantine", n.RunID)
					require.Equal(t, "2000", n.Redis.HGet(quarantine, "guard"), "node %d", i)
					require.Equal(t, "1", n.Redis.HGet(quarantine, "used"), "node %d", i)
					require.True(t, members(stopped)[i].Current().Votes, "node %d", i)
					require.True(t, members(other)[i].Current().Votes, "node %d", i)
				}
				require.Equal(t, record, first.Record())
			})
		})
	}
}
