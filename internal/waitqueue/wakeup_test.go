package waitqueue

import (
	"testing"

	"github.com/stretchr/testify/require"
)

// A node wakes a waiter that has just left, since the waiter's release has not arrived there
// yet. Another waiter of the client looks in its place.
func TestForemostWaiterAnswersTheWakeUpOfATicketThatLeft(t *testing.T) {
	q := newTestQueue()
	all := newTestWaiters(t, q, 2)
	left, w := all[0], all[1]
	q.join(left)
	q.join(w)
	left.LeaveQueues()
	left.Leave()
	w.bell.reset()
	q.Message(0, "ready "+left.ticket+" redlock:x")
	require.Equal(t, signals{woken: true}, w.bell.read())
	w.bell.reset()
	q.Message(0, "ready "+left.ticket+" redlock:another")
	q.Message(0, "yours "+left.ticket+" 7 owner")
	require.Zero(t, w.bell.read())
	q.Message(0, "look "+w.ticket+" redlock:x")
	require.Equal(t, signals{now: true}, w.bell.read())
}
