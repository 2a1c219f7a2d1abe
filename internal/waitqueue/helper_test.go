package waitqueue_test

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/redlock-go/redlock"
	"github.com/redlock-go/redlock/internal/lock"
	"github.com/redlock-go/redlock/internal/quorum"
	"github.com/redlock-go/redlock/internal/test/testhook"
	"github.com/redlock-go/redlock/internal/test/testnet"
	"github.com/redlock-go/redlock/internal/waitqueue"
)

const (
	// parkFor is how long nodes keep an attempt that they refused.
	parkFor = 150 * ms

	// firstQuorumWait is how long a waiter that one node woke awaits the other nodes.
	firstQuorumWait = 50 * ms
)

// farBack is what a refusal shows a waiter that has no reason to look soon.
var farBack = waitqueue.Standing{Position: 9, Free: time.Minute}

// waiter is a waiter whose attempts the test makes. No goroutine acts on its wake-ups but the
// test's own.
type waiter struct {
	*waitqueue.Waiter
	client  *redlock.Client
	engine  *lock.Engine
	queue   *waitqueue.Queue
	lock    *lock.Exclusive
	holder  string        // the owner of the lease of another client, which all nodes have granted
	attempt *lock.Attempt // the last one
}

// newWaiter makes a waiter for a lock that another client holds. All nodes have refused its
// first attempt and parked it. leave ends the wait.
func newWaiter(t *testing.T, net *testnet.Net, opts ...redlock.ClientOption) (w *waiter, leave func()) {
	c := testnet.ListeningClient(t, net, opts...)
	held, err := net.Client(opts...).Mutex("x").Lock(t.Context())
	require.NoError(t, err)
	synctest.Wait() // it has all nodes
	e := testhook.Engine(c)
	w = &waiter{client: c, engine: e, queue: e.Queue(), lock: testhook.Exclusive(c.Mutex("x")), holder: held.Owner()}
	w.Waiter, err = w.queue.NewWaiter(t.Context(), w.lock.WaitedFor(), e.Clock())
	require.NoError(t, err)
	defer func() {
		if t.Failed() { // the caller does not get leave, and the client's Close awaits the waiter
			w.Leave()
		}
	}()
	w.try(t)
	for _, n := range net.Nodes {
		require.Equal(t, parkFor, n.Redis.TTL(w.parkedKey()))
	}
	return w, func() {
		w.undo(w.LeaveQueues())
		w.Leave()
		require.NoError(t, held.Unlock(t.Context()))
	}
}

// try makes an attempt, as a call of Lock does, which is refused.
func (w *waiter) try(t *testing.T) {
	a, terms := &lock.Attempt{Waits: true, Waiter: w.Waiter}, w.lock.Terms()
	w.engine.Cluster.Begin(&a.Ballot, quorum.Question{Op: "lock", Owner: terms.Random.ID("attempt").String(), Start: w.engine.Clock(),
		Timeout: terms.Lease.NodeTimeout, Rule: quorum.AcquireWaiting, Reader: w.lock.Reader})
	a.SetCommand("EVALSHA", nil)
	a.Parked = w.Park(&a.Ballot)
	a.Watcher = a.Parked
	for i := range a.Votes {
		v := &a.Votes[i]
		v.Right, v.Skip = v.Node.Right(terms.Lease.TTL)
	}
	w.lock.PrepareAttempt(a)
	w.attempt = a
	w.Begin(a.Parked)
	a.Send(0, true)
	w.undo(w.Sent(a.Parked))
	verdict, err := a.Await(t.Context(), terms.Lease.NodeTimeout, nil)
	require.NoError(t, err)
	require.NotEqual(t, quorum.Granted, verdict)
	holder, nodes := a.Leader()
	require.Equal(t, w.holder, holder)
	require.GreaterOrEqual(t, nodes, w.engine.Cluster.Need())
	w.lock.Yield(w.Waiter, a.Owner, a.MayHold(), nil)
}

// undo undoes a stale attempt, as a call of Lock does.
func (w *waiter) undo(s waitqueue.Stale) {
	w.lock.NewRollback(s.Owner, w.Ticket(), false, nil).Send(s.At, false)
}

// parkedKey returns the key at the nodes at which they keep the waiter's parked attempt.
func (w *waiter) parkedKey() string { return "redlock::parked:" + w.Ticket() }

// execute has the waiter take a node's message that it has executed the last attempt.
func (w *waiter) execute(node int) {
	w.Executed(w.engine.Cluster.Nodes()[node], w.queue.Subscriptions()[node], w.attempt.Owner, "7")
}

// isGranted reports whether a quorum has executed the last attempt.
func (w *waiter) isGranted() bool {
	_, granted := w.Granted()
	return granted
}

// wake has the waiter take a message of a node, of a kind, about a ticket for its lock.
func (w *waiter) wake(node int, kind, ticket string) {
	w.queue.Message(w.engine.Cluster.Nodes()[node].Node, kind+" "+ticket+" "+w.lock.Keys()[0])
}
