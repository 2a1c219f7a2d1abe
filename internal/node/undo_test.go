package node

import (
	"errors"
	"fmt"
	"io"
	"net"
	"strings"
	"testing"
	"time"

	"github.com/gomodule/redigo/redis"
	"github.com/stretchr/testify/require"

	"github.com/redlock-go/redlock/internal/pipe"
	"github.com/redlock-go/redlock/internal/test/testreply"
)

func TestTooManyUndosAreGivenUpAndThatIsLoggedOnce(t *testing.T) {
	n := newUnconnected()
	add := func(owner string) {
		require.False(t, n.Undo(&Undo{Owner: owner, Lasts: time.Second}), "the node is not connected")
	}
	for i := range maxUndos - 1 {
		n.undos.byOwner[fmt.Sprint(i)] = &Undo{log: &n.undos}
	}
	add("the last")
	require.Equal(t, maxUndos, n.Undos())
	add("one more")
	add("and another")
	require.False(t, n.HasUndo("one more"))
	last := &Undo{Owner: "the last", Lasts: time.Second}
	n.Undo(last)
	require.Equal(t, maxUndos, n.Undos())
	require.Equal(t, 1, strings.Count(n.log(), "too many unconfirmed releases"))

	last.Receive(int64(1), nil)
	add("one more")
	require.True(t, n.HasUndo("one more"), "there is room again")
	add("and another")
	require.Equal(t, 2, strings.Count(n.log(), "too many unconfirmed releases"), "another time")
}

// The answer to an older undo comes after a newer one of the same owner was recorded. It
// does not confirm the newer one.
func TestAnswerToAnOlderUndoLeavesTheNewerOne(t *testing.T) {
	n := newUnconnected()
	older, newer := &Undo{Owner: "me", Lasts: 10 * time.Second}, &Undo{Owner: "me", Lasts: 10 * time.Second}
	n.Undo(older)
	n.Undo(newer)
	older.Receive(int64(1), nil)
	require.Equal(t, 1, n.Undos())
	newer.Receive(nil, io.EOF)
	require.Equal(t, 1, n.Undos(), "no answer")
	require.True(t, n.AwaitsUndo(), "it is sent on the next connection")
	newer.Receive(int64(0), nil)
	require.Zero(t, n.Undos())
	require.False(t, n.AwaitsUndo())
}

func TestUndoEndsWithAConfirmationOrAKeyOfAnotherType(t *testing.T) {
	for _, c := range []struct {
		err           error
		stays, awaits bool
	}{
		{nil, false, false},
		{redis.Error("WRONGTYPE Operation against a key holding the wrong kind of value"), false, false},
		{redis.Error("OOM command not allowed"), true, false},
		{io.EOF, true, true},
	} {
		n, answers := newUnconnected(), make(Question, 1)
		u := &Undo{Owner: "me", Lasts: time.Second, Then: answers}
		n.Undo(u)
		u.Receive(nil, c.err)
		require.Equal(t, c.stays, n.HasUndo("me"), "%v", c.err)
		require.Equal(t, c.awaits, n.AwaitsUndo(), "%v", c.err)
		require.Equal(t, Reply{nil, c.err}, <-answers, "the receiver of the release gets the answer too")
	}
}

// The server is running, so an attempt that it may have executed ends with its ttl.
func TestRefusedUndoLastsFromTheFirstRefusal(t *testing.T) {
	n := newUnconnected()
	u := &Undo{Owner: "me", Lasts: 10 * time.Second}
	n.Undo(u)
	n.now = time.Minute
	u.Receive(nil, refusal)
	n.now += 5 * time.Second
	u.Receive(nil, refusal)
	require.Equal(t, 70*time.Second, u.until)
}

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

// subscriber records what a subscription delivers.
type subscriber struct {
	subscribed int
	messages   []string
	news       []string
}

func (s *subscriber) Subscribed(*Node, bool)       { s.subscribed++ }
func (s *subscriber) Message(_ *Node, text string) { s.messages = append(s.messages, text) }
func (s *subscriber) News(_ *Node, channel, text string) {
	s.news = append(s.news, channel+" "+text)
}

// Only confirmations and messages reach the subscriber, whatever the server sends; and a
// reply that is no time is an error.
func FuzzPush(f *testing.F) {
	testreply.Fuzz(f, func(t *testing.T, replies []any) {
		var to subscriber
		push := testreply.Values(replies[0])
		(&subscription{node: newUnconnected().Node, to: &to}).handlePush(push)
		kind, channel := "", ""
		if len(push) == 3 {
			kind, _ = redis.String(push[0], nil)
			channel, _ = redis.String(push[1], nil)
		}
		own, known := channel == "", kind == "subscribe" || kind == "message"
		require.Equal(t, kind == "subscribe" && own, to.subscribed == 1)
		require.Equal(t, kind == "message" && own, len(to.messages) == 1)
		require.Equal(t, known && !own, len(to.news) == 1)
		if _, err := ServerTime(replies[0], nil); err != nil {
			require.NotContains(t, err.Error(), "%!")
		} else {
			require.Len(t, replies[0], 2)
		}
	})
}
