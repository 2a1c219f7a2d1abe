package waitqueue_test

import (
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/redlock-go/redlock"
	"github.com/redlock-go/redlock/internal/protocol"
	"github.com/redlock-go/redlock/internal/test/testhook"
	"github.com/redlock-go/redlock/internal/test/testnet"
)

// A node challenges a client by the ticket of a waiter whose turn it is not. The client shows that it lives, and no
// waiter asks. If the node took it for dead, it may have dropped tickets: then the foremost waiter for each lock asks.
func TestChallengedClientShowsThatItLives(t *testing.T) {
	for name, c := range map[string]struct {
		alive time.Duration // when the message comes; 0: the node took the client for dead
		asks  int           // how many waiters ask
	}{
		"in time":  {protocol.ReservationTTL, 0},
		"too late": {0, 2},
	} {
		t.Run(name, func(t *testing.T) {
			testnet.InBubble(t, 3, func(t *testing.T, net *testnet.Net) {
				w := testnet.ListeningClient(t, net)
				held, err := net.Client(redlock.WithTTL(time.Hour)).Multi([]string{"x", "y"}).Lock(t.Context())
				require.NoError(t, err)
				synctest.Wait() // it has all nodes
				var waiters []<-chan *redlock.Lease
				for _, name := range []string{"x", "x", "y", "y"} {
					waiters = append(waiters, queued(t.Context(), w.Mutex(name)))
				}
				time.Sleep(5 * time.Second)
				n, e := net.Nodes[0], testhook.Engine(w)
				tickets, err := n.Redis.ZMembers("redlock::queue:redlock:x")
				require.NoError(t, err)
				alive := protocol.Key("alive", e.ID)
				n.Redis.SetTTL(alive, c.alive)
				if c.alive == 0 {
					n.Redis.Del(alive)
				}
				net.ClearLogs()
				e.Queue().Message(0, "live "+tickets[1]+" redlock:x")
				synctest.Wait()
				require.Equal(t, protocol.QueueTTL, n.Redis.TTL(alive))
				value, err := n.Redis.Get(alive)
				require.NoError(t, err)
				require.True(t, strings.HasPrefix(value, "!"), value)
				require.LessOrEqual(t, n.Executed("acquire"), 1, "they ask one after the other")
				time.Sleep(10 * time.Millisecond)
				require.Equal(t, c.asks > 0, n.Executed("acquire") > 1, "a regular look may fall here")
				require.NoError(t, held.Unlock(t.Context()))
				for _, entered := range waiters {
					require.NoError(t, (<-entered).Unlock(t.Context()))
				}
			})
		})
	}
}
