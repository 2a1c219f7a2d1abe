package endpoint

import (
	"testing"

	"github.com/gomodule/redigo/redis"
	"github.com/stretchr/testify/require"

	"github.com/redlock-go/redlock/internal/loginreply"
)

func TestConnWithholdsTheAnswerToALogin(t *testing.T) {
	for _, login := range [][]any{
		{"AUTH", "hunter2"}, {"AUTH", "me", []byte("hunter2")}, {"HELLO", "3", "AUTH", "me", "hunter2"}, {"HELLO", 2, "auth", "me", "hunter2", "SETNAME", "x"},
	} {
		c, server := dial(t)
		require.NoError(t, c.Send("PING"))
		require.NoError(t, c.Send(login[0].(string), login[1:]...))
		require.NoError(t, c.Send("PING"))
		_, err := server.Write([]byte("-ERR no\r\n-PROXYERR it is half of hunt and er2\r\n-ERR no\r\n"))
		require.NoError(t, err)
		_, err = c.Receive()
		require.Equal(t, redis.Error("ERR no"), err, "the answer to another command")
		_, err = c.Receive()
		require.Equal(t, redis.Error("PROXYERR ("+loginreply.Notice+")"), err)
		_, err = c.Receive()
		require.Equal(t, redis.Error("ERR no"), err)
	}
}

func TestConnWithholdsLaterTextsThatRepeatAPassword(t *testing.T) {
	c, server := dial(t)
	for _, password := range []string{"hunter2", "swordfish"} { // the second as of an adapter whose credentials change
		require.NoError(t, c.Send("AUTH", "me", password))
	}
	for range 6 {
		require.NoError(t, c.Send("PING"))
	}
	_, err := server.Write([]byte("+OK\r\n+OK\r\n-ERR not hunter2\r\n+sWordfish\r\n*3\r\n-ERR swordfish\r\n$7\r\nhunter2\r\n+yes\r\n-swordfish\r\n$7\r\nhunter2\r\n-ERR no me\r\n"))
	require.NoError(t, err)
	var got []any
	for range 8 {
		reply, err := c.Receive()
		if err != nil {
			reply = err
		}
		got = append(got, reply)
	}
	require.Equal(t, []any{"OK", "OK", redis.Error("ERR (" + loginreply.Notice + ")"), loginreply.Notice,
		[]any{redis.Error("ERR (" + loginreply.Notice + ")"), []byte("hunter2"), "yes"}, redis.Error(loginreply.Notice),
		[]byte("hunter2"), redis.Error("ERR no me")}, got, "data stays as it is")
}

func TestConnShowsEverythingWithoutALogin(t *testing.T) {
	c, server := dial(t)
	require.NoError(t, c.Send("HELLO", "3", "SETNAME", "x"))
	require.NoError(t, c.Send("AUTH"))
	_, err := server.Write([]byte("-ERR unknown command 'HELLO', with args beginning with: '3'\r\n-ERR no arguments\r\n"))
	require.NoError(t, err)
	_, err = c.Receive()
	require.ErrorContains(t, err, "beginning with: '3'")
	_, err = c.Receive()
	require.ErrorContains(t, err, "no arguments")
}
