package testnet_test

import (
	"fmt"
	"strings"
	"testing"

	"github.com/gomodule/redigo/redis"
	"github.com/stretchr/testify/require"

	"github.com/redlock-go/redlock/internal/test/testnet"
)

// A client that asks after another has sent finds what that one set, though nothing was answered yet.
func TestNodeExecutesInTheOrderOfSending(t *testing.T) {
	testnet.InBubble(t, 1, func(t *testing.T, net *testnet.Net) {
		dial := func() redis.Conn {
			conn, err := net.Nodes[0].GetContext(t.Context())
			require.NoError(t, err)
			t.Cleanup(func() { conn.Close() })
			return conn
		}
		first, second := dial(), dial()
		long := strings.Repeat("long\r\n", 2000) // it is sent in pieces
		for i := range 300 {
			value := fmt.Sprint(i, long[:(i%3)*5000])
			require.NoError(t, first.Send("SET", "key", value))
			require.NoError(t, first.Flush())
			got, err := redis.String(second.Do("GET", "key"))
			require.NoError(t, err)
			require.True(t, value == got, "try %d: %.20q", i, got)
		}
	})
}
