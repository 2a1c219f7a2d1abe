package waitqueue_test

import (
	"context"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/redlock-go/redlock"
	"github.com/redlock-go/redlock/internal/protocol"
	"github.com/redlock-go/redlock/internal/test/testnet"
)

func TestDeadReaderDoesNotLiveAsLongAsOthersRenew(t *testing.T) {
	testnet.InBubble(t, 3, func(t *testing.T, net *testnet.Net) {
		a, b := net.Client(redlock.WithTTL(3*time.Second)), net.Client(redlock.WithTTL(3*time.Second))
		dead, err := a.RWMutex("x").RLock(t.Context())
		require.NoError(t, err)
		alive, err := b.RWMutex("x").RLock(t.Context())
		require.NoError(t, err)
		net.Die(a, dead)
		time.Sleep(3*time.Second + 10*ms)
		require.Zero(t, net.Holders(dead))
		require.True(t, alive.Valid())
		time.Sleep(10 * time.Second)
		require.NoError(t, alive.Unlock(t.Context()))
		writer, err := b.RWMutex("x").TryLock(t.Context())
		require.NoError(t, err, "nobody holds it")
		require.NoError(t, writer.Unlock(t.Context()))
	})
}

func TestExecutedReadThatNobodyTakesEndsSoon(t *testing.T) {
	testnet.InBubble(t, 3, func(t *testing.T, net *testnet.Net) {
		holder, c := net.Client(), testnet.ListeningClient(t, net)
		dying, pools := net.CuttableClient()
		writer, err := holder.RWMutex("x").Lock(t.Context())
		require.NoError(t, err)
		ctx, giveUp := context.WithCancel(t.Context())
		defer giveUp()
		go func() { _, _ = dying.RWMutex("x").RLock(ctx) }()
		time.Sleep(50 * ms)
		testnet.Hold(pools, true)
		defer testnet.Hold(pools, false)
		require.NoError(t, writer.Unlock(t.Context()))
		next, err := c.RWMutex("x").Lock(t.Context())
		require.NoError(t, err)
		require.NoError(t, next.Unlock(t.Context()))
	})
}

func TestReadersThatMissedTheirWakeupsEnterTogether(t *testing.T) {
	testnet.InBubble(t, 3, func(t *testing.T, net *testnet.Net) {
		holder, c := net.Client(), testnet.ListeningClient(t, net)
		writer, err := holder.RWMutex("x").Lock(t.Context())
		require.NoError(t, err)
		var readers []<-chan *redlock.Lease
		for range 30 {
			readers = append(readers, queuedReader(t, c))
		}
		time.Sleep(time.Second)
		for _, n := range net.Nodes {
			n.Set(func(n *testnet.Node) {
				n.Lose = func(data []byte) bool { return strings.Contains(string(data), "message") }
			})
		}
		began := time.Now()
		require.NoError(t, writer.Unlock(t.Context()))
		synctest.Wait()
		time.Sleep(ms)
		for _, n := range net.Nodes {
			n.Set(func(n *testnet.Node) { n.Lose = nil })
		}
		var took []time.Duration
		for _, entered := range readers {
			lease := <-entered
			took = append(took, time.Since(began).Round(ms))
			defer func() { assert.NoError(t, lease.Unlock(t.Context())) }()
		}
		require.LessOrEqual(t, time.Since(began), 3*time.Second, "%v", took)
	})
}

// A writer holds the lock at four of five nodes; the fifth lost its key. Eight readers wait. At the
// fifth node each of them gets a share, lets others in, gives the share back, and joins the queue
// again.
func TestReadersDoNotWakeEachOtherInACircle(t *testing.T) {
	testnet.InBubble(t, 5, func(t *testing.T, net *testnet.Net) {
		holder := net.Client(redlock.WithoutRenewal(), redlock.WithTTL(time.Minute))
		writer, err := holder.RWMutex("x").Lock(t.Context())
		require.NoError(t, err)
		synctest.Wait()
		// The fifth node has the share of a reader that died in the midst of an attempt.
		net.Nodes[4].Redis.Del("redlock:x")
		net.Nodes[4].Run(protocol.Read, 4, "redlock:x", "record", "redlock::queue:redlock:x", "redlock::readers:redlock:x",
			"of a dead reader", 60_000, "", 1, "", "", "", 0)
		net.Delay(3 * ms)
		var entered []<-chan *redlock.Lease
		for range 8 {
			entered = append(entered, queuedReader(t, testnet.ListeningClient(t, net)))
			time.Sleep(10 * ms)
		}
		time.Sleep(2 * time.Second)
		net.ClearLogs()
		time.Sleep(20 * time.Second)
		asked := net.Nodes[0].Attempts()
		require.NoError(t, writer.Unlock(t.Context()))
		for _, got := range entered {
			lease := <-got
			defer func() { assert.NoError(t, lease.Unlock(t.Context())) }()
		}
		assert.LessOrEqual(t, asked, 8*40)
	})
}
