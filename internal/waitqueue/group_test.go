package waitqueue

import (
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/redlock-go/redlock/internal/admission"
	"github.com/redlock-go/redlock/internal/life"
	"github.com/redlock-go/redlock/internal/node"
	"github.com/redlock-go/redlock/internal/quorum"
	"github.com/redlock-go/redlock/internal/system"
)

// newTestQueue makes a queue of a client without nodes: what nodes send comes from the test.
func newTestQueue() *Queue {
	l := life.New()
	l.Settle()
	return NewQueue(Config{ID: "client", Life: l, Clock: func() time.Duration { return 0 }, Cluster: clusterOf(2)})
}

// node returns a node of the queue's cluster.
func (q *Queue) node(i int) *node.Node { return q.cfg.Cluster.Nodes()[i].Node }

// clusterOf returns a cluster of nodes that nothing leads to, in which so many are a quorum.
func clusterOf(need int) *quorum.Cluster {
	c := &quorum.Cluster{Roster: new(atomic.Pointer[admission.Roster])}
	r := &admission.Roster{Need: need}
	for i := range 2*need - 1 {
		r.Nodes = append(r.Nodes, &admission.Member{Node: &node.Node{Index: i}})
	}
	c.Roster.Store(r)
	return c
}

// newTestWaiters makes waiters that ask one after the other.
func newTestWaiters(t *testing.T, q *Queue, n int) (all []*Waiter) {
	for i := range n {
		w, err := q.NewWaiter(t.Context(), Lock{Keys: []string{"redlock:x"}, Terms: &Terms{Random: system.OSRandom{}}}, time.Duration(i)*time.Millisecond)
		require.NoError(t, err)
		all = append(all, w)
	}
	return all
}

func TestNextWaiterBecomesTheForemostWhenTheFirstLeavesOrHolds(t *testing.T) {
	q := newTestQueue()
	all := newTestWaiters(t, q, 5)
	for _, i := range []int{3, 0, 4, 1, 2, 2} { // in any order, and again
		q.join(all[i])
	}
	require.Equal(t, group(all), q.local["redlock:x"])
	require.True(t, all[0].isForemost())
	q.part(all[1], false)
	require.Equal(t, never, all[2].turn.next())
	all[0].GotLease()
	require.Less(t, all[2].turn.next(), never, "it looks soon")
	require.True(t, all[2].isForemost())
	for _, w := range all[2:] {
		q.part(w, false)
	}
	require.Empty(t, q.local)
}

// A release finds the nodes' queues empty. A waiter that asked shortly before it may not stand there yet; one that asked
// earlier has lost its place, and asks again.
func TestReleaseThatFindsNoQueueHasThoseRejoinThatMustStandThere(t *testing.T) {
	const asked = time.Minute
	for _, c := range []struct {
		after   time.Duration
		rejoins bool
	}{{0, false}, {firstLook, false}, {firstLook + 1, true}} {
		q := NewQueue(Config{Clock: func() time.Duration { return asked + c.after }, Random: system.OSRandom{}})
		w := &Waiter{asked: asked, turn: newTurn(nil, clusterOf(2))}
		q.local["x"] = group{w}
		q.Freed([]string{"x"}, asked+c.after)
		require.Equal(t, c.rejoins, w.turn.next() < never, "%v", c.after)
	}
}

// purposes is randomness that records for what it is drawn.
type purposes struct{ all []string }

func (*purposes) ID(string) (id system.ID) { return id }

func (p *purposes) Below(_ time.Duration, purpose string) time.Duration {
	p.all = append(p.all, purpose)
	return 0
}

// In a simulation two draws of one instant differ by their purposes: else the foremost waiters of two locks rejoin at one instant.
func TestDrawsOfRejoiningNameTheLock(t *testing.T) {
	q, drawn := newTestQueue(), new(purposes)
	q.cfg.Random = drawn
	all := newTestWaiters(t, q, 2)
	for _, w := range all {
		w.lock.Keys = []string{"redlock:x", "redlock:y"}
		q.join(w)
	}
	q.rejoinOthers(all[0])
	require.Len(t, drawn.all, 2)
	require.NotEqual(t, drawn.all[0], drawn.all[1])
}

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
		q.Message(q.node(0), message+" "+w.ticket+" redlock:x")
		require.Equal(t, next, w.turn.next(), message)
		require.Equal(t, message == "ready", w.turn.isCalled())
	}
	w.turn.begin()
	q.Message(q.node(0), "watch "+w.ticket+" 750")
	require.Equal(t, 750*time.Millisecond, w.turn.next())
	q.Message(q.node(1), "watch "+w.ticket+" 500")
	require.Equal(t, 500*time.Millisecond, w.turn.next())
	left.LeaveQueues()
	left.Leave()
	w.turn.lookBy = never
	w.turn.begin()
	q.Message(q.node(0), "yours "+left.ticket+" 7 owner")
	q.Message(q.node(0), "watch "+left.ticket+" 500")
	require.Equal(t, never, w.turn.next())
}

// A node left the list of masters, and another one has its place.
func TestNodeThatLeftDoesNotSpeakForItsSuccessor(t *testing.T) {
	q := newTestQueue()
	w := newTestWaiters(t, q, 1)[0]
	q.join(w)
	now, left := q.node(0), &node.Node{Index: 0}
	q.Subscribed(now, true)
	q.Subscribed(left, false)
	require.True(t, q.Up().Has(0))
	w.turn.begin()
	q.Message(left, "look "+w.ticket+" redlock:x")
	require.NotZero(t, w.turn.next())
	q.Message(now, "look "+w.ticket+" redlock:x")
	require.Zero(t, w.turn.next())
}
