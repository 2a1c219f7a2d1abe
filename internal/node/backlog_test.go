package node

import (
	"errors"
	"io"
	"net"
	"strings"
	"testing"
	"time"

	"github.com/gomodule/redigo/redis"
	"github.com/stretchr/testify/require"

	"github.com/redlock-go/redlock/internal/pipe"
)

// unheard receives answers that no test looks at.
type unheard struct{}

func (unheard) Receive(any, error) {}

// Attempts and renewals leave out a node that is silent, or has a long backlog. Releases wait for a silent one.
func TestSilentNodeIsLeftOutButByReleases(t *testing.T) {
	const timeout = 100 * time.Millisecond
	near, far := net.Pipe() // nobody answers
	go func() { _, _ = io.Copy(io.Discard, far) }()
	n := newUnconnected().Node
	p := pipe.New(redis.NewConn(near, 0, 0))
	t.Cleanup(func() {
		p.Kill(errors.New("the test is over"))
		<-p.Done()
		_ = far.Close()
	})
	n.link.pipe.Store(p)
	queue := func(now time.Duration, size int, must bool) error {
		flush, _, err := n.Queue(&pipe.Call{Command: "ECHO", Args: []any{strings.Repeat("x", size)}, To: unheard{}}, nil, now, timeout, must)
		if flush != nil {
			flush.Flush()
		}
		return err
	}
	require.NoError(t, queue(0, 1, false))
	require.NoError(t, queue(timeout, 1, false))
	require.ErrorIs(t, queue(timeout+1, 1, false), pipe.ErrStalled)
	require.NoError(t, queue(timeout+1, maxBacklog, true))
	require.ErrorIs(t, queue(timeout, 1, false), pipe.ErrStalled)
	require.ErrorIs(t, queue(timeout, 1, true), pipe.ErrStalled)
}
