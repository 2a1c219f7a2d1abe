package admission_test

import (
	"bytes"
	"log/slog"
	"strconv"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/redlock-go/redlock"
	"github.com/redlock-go/redlock/internal/protocol"
	"github.com/redlock-go/redlock/internal/test/testnet"
)

// tooGreat is a count from which tokens cannot grow: the scripts' numbers end just above it.
const tooGreat = "9007199254740990"

// grow locks so often, and requires that tokens grow and can be explained.
func grow(t *testing.T, c *redlock.Client, times int, before int64) int64 {
	t.Helper()
	for range times {
		token, _ := lockWithin(t, c, 5*time.Second)
		require.Greater(t, token, before)
		require.Less(t, token, int64(1)<<52)
		before = token
	}
	return before
}

func TestRecordWithACountThatNoClockExplainsIsRefilledFromTheOthers(t *testing.T) {
	testnet.InBubble(t, 5, func(t *testing.T, net *testnet.Net) {
		var log bytes.Buffer
		c := net.Guarded(redlock.WithTTL(2*time.Second), redlock.WithLogger(slog.New(slog.NewTextHandler(&log, nil))))
		n, field := net.Nodes[1], protocol.StripeOf("redlock:x")
		before := grow(t, c, 1, 0)
		damaged := n.Record()
		n.Redis.HSet(damaged, field, tooGreat)
		before = grow(t, c, 400, before)
		time.Sleep(3 * time.Second)
		require.NotEqual(t, damaged, n.Record())
		count, err := strconv.ParseInt(n.Redis.HGet(n.Record(), field), 10, 64)
		require.NoError(t, err)
		require.GreaterOrEqual(t, count, before)
		require.True(t, members(c)[1].Current().Votes)
		grow(t, c, 10, before)
		require.NoError(t, c.Close())
		require.Contains(t, log.String(), "a node's record is damaged: it has a count that no clock explains; it is deleted")
	})
}

// The answer was damaged on its way: the record is in order, and stays.
func TestCountThatWasDamagedOnItsWayIsNoAnswer(t *testing.T) {
	testnet.InBubble(t, 3, func(t *testing.T, net *testnet.Net) {
		c := net.Guarded(redlock.WithTTL(2 * time.Second))
		n, field := net.Nodes[1], protocol.StripeOf("redlock:x")
		before := grow(t, c, 1, 0)
		record := n.Record()
		n.Redis.HSet(record, field, tooGreat)
		n.Set(func(node *testnet.Node) {
			node.Override = func(cmd string, args []string) string {
				if cmd == "HGETALL" && args[0] == record {
					n.Redis.HSet(record, field, strconv.FormatInt(before, 10))
				}
				return ""
			}
		})
		before = grow(t, c, 50, before)
		require.Equal(t, record, n.Record())
		require.True(t, members(c)[1].Current().Votes)
		require.NotEqual(t, tooGreat, n.Redis.HGet(record, field))
	})
}

// Nobody can say what the counts were: a person decides.
func TestMajorityOfDamagedRecordsIsUnfit(t *testing.T) {
	testnet.InBubble(t, 3, func(t *testing.T, net *testnet.Net) {
		c := net.Guarded(redlock.WithTTL(2 * time.Second))
		for _, n := range net.Nodes[:2] {
			n.Redis.HSet(n.Record(), protocol.StripeOf("redlock:x"), tooGreat)
		}
		_, err := c.Mutex("x").TryLock(t.Context())
		require.ErrorIs(t, err, redlock.ErrNoQuorum)
		time.Sleep(time.Second)
		_, err = c.Mutex("x").TryLock(t.Context())
		require.ErrorContains(t, err, "its record is damaged")
		for _, n := range net.Nodes[:2] {
			n.Redis.Del(n.Record())
		}
		time.Sleep(time.Second)
		lockWithin(t, c, 25*time.Second)
	})
}

// A vote whose answer is lost may have counted at a server that was wiped.
func TestCounterWithoutARecordIsDeletedThoughTheAnswerWasLost(t *testing.T) {
	testnet.InBubble(t, 3, func(t *testing.T, net *testnet.Net) {
		c := net.Guarded(redlock.WithTTL(2 * time.Second))
		n := net.Nodes[1]
		record := n.Record()
		n.Redis.FlushAll()
		n.Set(func(n *testnet.Node) { n.Muting = true })
		lease, err := c.Mutex("x").Lock(t.Context())
		require.NoError(t, err)
		require.NoError(t, lease.Unlock(t.Context()))
		time.Sleep(100 * ms)
		require.True(t, n.Redis.Exists(record), "the vote was counted")
		n.Cut()
		time.Sleep(time.Second)
		require.False(t, n.Redis.Exists(record))
	})
}
