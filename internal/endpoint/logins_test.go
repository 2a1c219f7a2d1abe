package endpoint

import (
	"strings"
	"testing"

	"github.com/gomodule/redigo/redis"
	"github.com/stretchr/testify/require"

	"github.com/redlock-go/redlock/internal/loginreply"
)

func TestConnWithholdsTheAnswerToALogin(t *testing.T) {
	for _, login := range [][]any{{"AUTH", "hunter2"}, {"AUTH", "me", []byte("hunter2")}, {"HELLO", "3", "AUTH", "me", "hunter2"}} {
		c, server := dial(t)
		require.NoError(t, c.Send(login[0].(string), login[1:]...))
		require.NoError(t, c.Send("PING"))
		_, err := server.Write([]byte("-NOAUTH it is half of hunt and er2\r\n-ERR no\r\n"))
		require.NoError(t, err)
		_, err = c.Receive()
		require.Equal(t, redis.Error("NOAUTH ("+loginreply.Notice+")"), err)
		_, err = c.Receive()
		require.Equal(t, redis.Error("ERR no"), err)
	}
}

func TestConnShowsOtherErrorsAndCutsLongOnes(t *testing.T) {
	c, server := dial(t)
	require.NoError(t, c.Send("AUTH", "me", "hunter2"))
	require.NoError(t, c.Send("PING"))
	require.NoError(t, c.Send("PING"))
	long := "ERR " + strings.Repeat("x", maxRefusal)
	_, err := server.Write([]byte("+OK\r\n-ERR not hunter2\r\n-" + long + "\r\n"))
	require.NoError(t, err)
	_, err = c.Receive()
	require.NoError(t, err)
	_, err = c.Receive()
	require.Equal(t, redis.Error("ERR not hunter2"), err)
	_, err = c.Receive()
	require.Equal(t, redis.Error(long[:maxRefusal]+"…"), err)
}
