package endpoint

import (
	"bytes"
	"net"
	"strconv"
	"strings"
	"testing"

	"github.com/alicebob/miniredis/v2"
	"github.com/gomodule/redigo/redis"
	"github.com/stretchr/testify/require"
)

// recorder is a socket that keeps what is written to it.
type recorder struct {
	net.Conn
	writes [][]byte
}

func (r *recorder) Write(p []byte) (int, error) {
	r.writes = append(r.writes, bytes.Clone(p))
	return len(p), nil
}

func (r *recorder) all() string { return string(bytes.Join(r.writes, nil)) }

func TestConnWritesCommandsAsRedigoDoes(t *testing.T) {
	ours, theirs := new(recorder), new(recorder)
	for _, to := range []redis.Conn{newConn(ours), redis.NewConn(theirs, 0, 0)} {
		require.NoError(t, to.Send("PING"))
		require.NoError(t, to.Send("SET", "key", "value", "PX", 30_000, "NX"))
		require.NoError(t, to.Send("EVAL", "return 'ü\r\n'", int64(-7), 0, "", []byte{0, 255}, []byte(nil)))
		require.NoError(t, to.Send("ECHO", strings.Repeat("x", 3*flushAt)))
		require.NoError(t, to.Flush())
	}
	require.Equal(t, theirs.all(), ours.all())
}

func TestConnWritesManyCommandsAtOnce(t *testing.T) {
	to := new(recorder)
	conn := newConn(to)
	require.NoError(t, conn.Flush())
	require.Empty(t, to.writes, "a flush of nothing writes nothing")
	for range 200 {
		require.NoError(t, conn.Send("ECHO", strings.Repeat("x", 50)))
	}
	require.Empty(t, to.writes, "there are less than 16 KiB")
	require.NoError(t, conn.Flush())
	require.Len(t, to.writes, 1)
	for range 1000 {
		require.NoError(t, conn.Send("ECHO", strings.Repeat("x", 50)))
	}
	require.NoError(t, conn.Flush())
	require.Len(t, to.writes, 6, "1000 commands of 70 bytes, of which each write but the last has 16 KiB")
}

// sink is a socket that drops what is written to it.
type sink struct{ net.Conn }

func (sink) Write(p []byte) (int, error) { return len(p), nil }

func TestConnSendsWithoutAllocations(t *testing.T) {
	conn := newConn(sink{})
	args := []any{"key", []byte("value"), "PX", 30_000, int64(1) << 60} // boxed once, as the callers' are
	require.Zero(t, testing.AllocsPerRun(1000, func() {
		require.NoError(t, conn.Send("SET", args...))
		require.NoError(t, conn.Flush())
	}))
}

func TestConnRefusesAnArgumentThatIsNoText(t *testing.T) {
	server := miniredis.RunT(t)
	socket, err := net.Dial("tcp", server.Addr())
	require.NoError(t, err)
	conn := newConn(socket)
	defer conn.Close()
	require.ErrorContains(t, conn.Send("SET", "key", 1.5), "an argument of SET is a float64: it must be a string, []byte, int or int64")
	_, err = conn.Do("SET", "key", struct{}{})
	require.ErrorContains(t, err, "struct")
	reply, err := redis.String(conn.Do("ECHO", "still works"))
	require.NoError(t, err)
	require.Equal(t, "still works", reply)
}

// Do after Send, as redigo's: it receives all replies, returns the last one, and the first error.
func TestConnDoReceivesWhatIsDue(t *testing.T) {
	server := miniredis.RunT(t)
	socket, err := net.Dial("tcp", server.Addr())
	require.NoError(t, err)
	conn := newConn(socket)
	defer conn.Close()
	for i := range 3 {
		require.NoError(t, conn.Send("ECHO", strconv.Itoa(i)))
	}
	require.NoError(t, conn.Flush())
	first, err := redis.String(conn.Receive())
	require.NoError(t, err)
	require.Equal(t, "0", first)
	last, err := redis.String(conn.Do("ECHO", "last"))
	require.NoError(t, err)
	require.Equal(t, "last", last)

	require.NoError(t, conn.Send("NONSENSE"))
	_, err = conn.DoContext(t.Context(), "PING")
	require.ErrorContains(t, err, "unknown command")
	reply, err := redis.String(conn.DoWithTimeout(0, "PING"))
	require.NoError(t, err)
	require.Equal(t, "PONG", reply)
	_, err = conn.Do("")
	require.NoError(t, err, "nothing is due")

	server.Close()
	_, err = conn.Do("PING")
	require.Error(t, err)
}
