package admission_test

import (
	"strconv"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/redlock-go/redlock"
	"github.com/redlock-go/redlock/internal/protocol"
	"github.com/redlock-go/redlock/internal/test/testnet"
)

// A counter that cannot be counted on is damage, too: the server answers each attempt of its stripe with an error,
// or counts from below.
func TestRecordWhoseCounterCannotCountIsRefilledFromTheOthers(t *testing.T) {
	for _, count := range []string{"9223372036854775807", "92233720368547758070", "text", "1.5e15", "17", ""} {
		t.Run(count, func(t *testing.T) {
			testnet.InBubble(t, 3, func(t *testing.T, net *testnet.Net) {
				c := net.Guarded(redlock.WithTTL(2 * time.Second))
				n, field := net.Nodes[1], protocol.StripeOf("redlock:x")
				before := grow(t, c, 1, 0)
				if count != "" {
					n.Redis.HSet(n.Record(), field, count)
				} else {
					n.Redis.HDel(n.Record(), field)
				}
				for range 50 {
					before = grow(t, c, 1, before)
					time.Sleep(100 * ms)
				}
				now, err := strconv.ParseInt(n.Redis.HGet(n.Record(), field), 10, 64)
				require.NoError(t, err)
				require.GreaterOrEqual(t, now, before)
				require.True(t, members(c)[1].Current().Votes)
				net.Nodes[0].Down()
				grow(t, c, 3, before)
			})
		})
	}
}
