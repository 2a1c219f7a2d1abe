package node

import (
	"testing"

	"github.com/gomodule/redigo/redis"
	"github.com/stretchr/testify/require"

	"github.com/redlock-go/redlock/internal/test/testreply"
)

// subscriber records what a subscription delivers.
type subscriber struct {
	subscribed int
	messages   []string
}

func (s *subscriber) Subscribed(int, bool)       { s.subscribed++ }
func (s *subscriber) Message(_ int, text string) { s.messages = append(s.messages, text) }

// Only confirmations and messages reach the subscriber, whatever the server sends; and a
// reply that is no time is an error.
func FuzzPush(f *testing.F) {
	testreply.Fuzz(f, func(t *testing.T, replies []any) {
		var to subscriber
		push := testreply.Values(replies[0])
		(&subscription{node: newUnconnected().Node, to: &to}).handlePush(push)
		kind := ""
		if len(push) > 0 {
			kind, _ = redis.String(push[0], nil)
		}
		require.Equal(t, kind == "subscribe", to.subscribed == 1)
		require.Equal(t, kind == "message" && len(push) == 3, len(to.messages) == 1)
		if _, err := ServerTime(replies[0], nil); err != nil {
			require.NotContains(t, err.Error(), "%!")
		} else {
			require.Len(t, replies[0], 2)
		}
	})
}
