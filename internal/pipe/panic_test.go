package pipe

import (
	"fmt"
	"io"
	"math"
	"net"
	"strconv"
	"testing"

	"github.com/gomodule/redigo/redis"
	"github.com/stretchr/testify/require"
)

// redigo's reader panics at the length. The process goes on, and every call gets an error.
func TestPipeEndsAtAReplyAtWhichTheReaderPanics(t *testing.T) {
	replies := []string{fmt.Sprintf("*%d\r\n", math.MaxInt)}
	if strconv.IntSize > 32 { // else it makes room for the text
		replies = append(replies, fmt.Sprintf("$%d\r\n", math.MaxInt))
	}
	for _, reply := range replies {
		near, far := net.Pipe()
		p := New(redis.NewConn(near, 0, 0))
		var boxes []box
		for range 3 {
			c, b := call("x")
			flush, _, err := p.Queue(c, 0, nil)
			require.NoError(t, err)
			require.Equal(t, len(boxes) == 0, flush)
			boxes = append(boxes, b)
		}
		go func() { _, _ = io.Copy(io.Discard, far) }()
		p.Flush() // ahead of the reply, so that no write fails when the connection ends
		_, err := io.WriteString(far, reply)
		require.NoError(t, err)
		for _, b := range boxes {
			require.ErrorContains(t, (<-b).err, "the server's reply is wrong: *redis.conn panics")
		}
		<-p.Done()
		require.ErrorContains(t, p.Err(), "panics")
		require.NoError(t, far.Close())
	}
}

// A panic of a receiver is a bug of this library, and no node's.
func TestPipeDoesNotHideAPanicOfAReceiver(t *testing.T) {
	require.PanicsWithValue(t, "bug", func() {
		near, far := net.Pipe()
		defer far.Close()
		p := &Pipe{conn: redis.NewConn(near, 0, 0), done: make(chan struct{}), users: 1}
		_, _, err := p.Queue(&Call{Command: "PING", To: buggy{}}, 0, nil)
		require.NoError(t, err)
		go func() { _, _ = io.WriteString(far, "+PONG\r\n") }()
		go func() { _, _ = io.Copy(io.Discard, far) }()
		p.Flush()
		p.read()
	})
}

type buggy struct{}

func (buggy) Receive(any, error) { panic("bug") }
