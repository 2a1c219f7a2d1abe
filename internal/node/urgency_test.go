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

// A backlog of attempts leaves out further attempts. Renewals leave out a silent node, and releases none.
func TestBacklogOfAttemptsRefusesAttemptsOnly(t *testing.T) {
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
	queue := func(now time.Duration, size int, u Urgency) error {
		flush, _, err := n.Queue(&pipe.Call{Command: "ECHO", Args: []any{strings.Repeat("x", size)}, To: unheard{}}, nil, now, timeout, u)
		if flush != nil {
			flush.Flush()
		}
		return err
	}
	require.NoError(t, queue(0, 2*quietBacklog, GivesWay))
	require.ErrorIs(t, queue(timeout/5, 1, GivesWay), pipe.ErrStalled)
	require.NoError(t, queue(timeout/5, 1, Upkeep), "many bytes are unanswered, and not for long")
	require.ErrorIs(t, queue(2*timeout, 1, Upkeep), pipe.ErrStalled)
	require.NoError(t, queue(2*timeout, 1, Must))
}
