package waitqueue

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// A message about a ticket brings its own waiter's turn forward, and no other's.
func TestMessagesBringATurnForward(t *testing.T) {
	q := newTestQueue()
	all := newTestWaiters(t, q, 2)
	for _, w := range all {
		q.join(w)
	}
	left, w := all[0], all[1]
	for message, next := range map[string]time.Duration{
		"ready": firstQuorumWait,
		"look":  0,
	} {
		w.turn.begin()
		q.Message(0, message+" "+w.ticket+" redlock:x")
		require.Equal(t, next, w.turn.next(), message)
		require.Equal(t, message == "ready", w.turn.isCalled())
	}
	w.turn.begin()
	q.Message(0, "watch "+w.ticket+" 750")
	require.Equal(t, 750*time.Millisecond, w.turn.next())
	q.Message(1, "watch "+w.ticket+" 500")
	require.Equal(t, 500*time.Millisecond, w.turn.next())
	left.LeaveQueues()
	left.Leave()
	w.turn.lookBy = never
	w.turn.begin()
	q.Message(0, "yours "+left.ticket+" 7 owner")
	q.Message(0, "watch "+left.ticket+" 500")
	require.Equal(t, never, w.turn.next())
}
