package redlock

import (
	"fmt"
	"log/slog"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
)

// A holder that waited leaves the lines also of nodes that went away before it was
// served.
func TestAHolderOwesItsPlaceInLineToTheNodesThatWentAway(t *testing.T) {
	inBubble(t, 3, func(t *testing.T, net *testNet) {
		a, b := net.client(), net.client()
		held, err := a.Mutex("x").Lock(t.Context())
		require.NoError(t, err)
		got := make(chan *Lease, 1)
		go func() {
			lease, _ := b.Mutex("x").Lock(t.Context())
			got <- lease
		}()
		time.Sleep(100 * ms)
		net.nodes[2].down()
		time.Sleep(100 * ms)
		require.NoError(t, held.Unlock(t.Context()))
		lease := <-got
		require.NoError(t, lease.Unlock(t.Context()))
		require.Equal(t, 1, b.nodes[2].owed())
		for _, d := range b.nodes[2].debts {
			require.NotEmpty(t, d.ticket)
		}
		net.nodes[2].up()
		time.Sleep(2 * time.Second)
		require.Zero(t, b.nodes[2].owed())
		net.requireNoKeys()
		for _, key := range net.nodes[2].keys() {
			require.NotContains(t, key, "line", "nobody waits there any more")
		}
	})
}

func TestTooManyDebtsAreGivenUpAndThatIsToldOnce(t *testing.T) {
	inBubble(t, 3, func(t *testing.T, net *testNet) {
		var told journal
		c := net.client(WithLogger(slog.New(slog.NewTextHandler(&told, nil))))
		net.nodes[0].down()
		synctest.Wait()
		n := c.nodes[0]
		owe := func(owner string) bool {
			return n.owe(&debt{node: n, key: "redlock:x", owner: owner, ttl: time.Second})
		}
		for i := range maxDebts - 1 {
			n.debts[fmt.Sprint(i)] = &debt{node: n}
		}
		owe("the last")
		require.Equal(t, maxDebts, n.owed())
		require.False(t, owe("one more"))
		require.False(t, owe("and another"))
		owe("the last")
		require.Equal(t, maxDebts, n.owed())
		synctest.Wait()
		require.Equal(t, 1, strings.Count(told.String(), "too many releases are owed"))
		n.mu.Lock()
		clear(n.debts)
		n.mu.Unlock()
		net.nodes[0].up()
	})
}

// A payment that the server refuses is tried again for a ttl, and then forgotten: the
// server was alive all the while, so the key has ended.
func TestARefusedPaymentIsTriedAgainForAsLongAsItStands(t *testing.T) {
	inBubble(t, 3, func(t *testing.T, net *testNet) {
		c := net.client()
		n := c.nodes[0]
		net.nodes[0].set(func(n *testNode) {
			n.override = func(cmd string, args []string) string {
				if cmd == "EVAL" && args[0] == releaseScript.text {
					return "OOM command not allowed"
				}
				return ""
			}
		})
		require.True(t, n.owe(&debt{node: n, key: "redlock:x", owner: "me", ttl: 5 * time.Second}))
		time.Sleep(4 * time.Second)
		require.Equal(t, 1, n.owed())
		require.Greater(t, net.nodes[0].executed("release"), 2)
		time.Sleep(2 * time.Second)
		require.Zero(t, n.owed())
		tries := net.nodes[0].executed("release")
		time.Sleep(3 * time.Second)
		require.Equal(t, tries, net.nodes[0].executed("release"))

		// A place in line stands for longer than a key.
		require.True(t, n.owe(&debt{node: n, key: "redlock:x", owner: "me", ticket: firstTicket, ttl: 5 * time.Second}))
		time.Sleep(lineLife - time.Second)
		require.Equal(t, 1, n.owed())
		time.Sleep(2 * time.Second)
		require.Zero(t, n.owed())
	})
}

// The key came to the node by a renewal; the release is owed to it all the same.
func TestANodeThatARenewalHealedIsOwedTheRelease(t *testing.T) {
	inBubble(t, 3, func(t *testing.T, net *testNet) {
		c := net.client()
		net.nodes[2].down()
		synctest.Wait()
		lease, err := c.Mutex("x").Lock(t.Context())
		require.NoError(t, err)
		net.nodes[2].up()
		time.Sleep(2 * time.Second)
		require.NoError(t, lease.Extend(t.Context()))
		require.Equal(t, 3, net.holders(lease))
		net.nodes[2].down()
		synctest.Wait()
		require.NoError(t, lease.Unlock(t.Context()))
		require.Equal(t, 1, c.nodes[2].owed())
		net.nodes[2].up()
		time.Sleep(2 * time.Second)
		net.requireNoKeys()
	})
}

func TestAllDebtsArePaid(t *testing.T) {
	inBubble(t, 1, func(t *testing.T, net *testNet) {
		n := net.client().nodes[0]
		owe := func() {
			for i := range 3 {
				n.owe(&debt{node: n, key: "redlock:x", owner: fmt.Sprint(i), ttl: 10 * time.Second})
			}
		}
		net.nodes[0].down()
		synctest.Wait()
		owe()
		net.nodes[0].up()
		time.Sleep(2 * time.Second)
		require.Zero(t, n.owed(), "on the next connection")

		net.nodes[0].set(func(n *testNode) {
			n.override = func(cmd string, args []string) string {
				if cmd == "EVAL" && args[0] == releaseScript.text {
					return "OOM command not allowed"
				}
				return ""
			}
		})
		owe()
		time.Sleep(time.Second)
		require.Equal(t, 3, n.owed())
		net.nodes[0].set(func(n *testNode) { n.override = nil })
		time.Sleep(n.patience / 2)
		require.Zero(t, n.owed(), "after refusals")
	})
}
