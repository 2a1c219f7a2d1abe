package waitqueue_test

import (
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/redlock-go/redlock"
	"github.com/redlock-go/redlock/internal/admission"
	"github.com/redlock-go/redlock/internal/protocol"
	"github.com/redlock-go/redlock/internal/test/testnet"
)

// When a waiter counts a parked attempt as executed.

func TestExecutionCountsOnlyOverConnectionsFromBeforeTheAttempt(t *testing.T) {
	for name, change := range map[string]func(net *testnet.Net, w *waiter, serial *uint64, owner *string){
		"":                         func(*testnet.Net, *waiter, *uint64, *string) {},
		"another subscription":     func(_ *testnet.Net, _ *waiter, serial *uint64, _ *string) { *serial++ },
		"no subscription any more": func(_ *testnet.Net, _ *waiter, serial *uint64, _ *string) { *serial = 0 },
		"another connection": func(_ *testnet.Net, w *waiter, _ *uint64, _ *string) {
			v := &w.attempt.Votes[1]
			v.Right = &admission.VoteRight{Votes: true, Record: v.Right.Record}
		},
		"another record": func(_ *testnet.Net, w *waiter, _ *uint64, _ *string) {
			v := &w.attempt.Votes[1]
			right := *v.Right
			right.Record = "another"
			v.Right = &right
		},
		"the node may not vote": func(net *testnet.Net, w *waiter, _ *uint64, _ *string) {
			testnet.LoseRecord(net.Nodes[1], w.client)
			require.False(net.T, w.engine.Cluster.Nodes[1].Current().Votes)
		},
		"the node is away": func(net *testnet.Net, w *waiter, _ *uint64, _ *string) {
			net.Nodes[1].Down()
			synctest.Wait()
			require.Nil(net.T, w.engine.Cluster.Nodes[1].Current())
		},
		"of another attempt": func(_ *testnet.Net, _ *waiter, _ *uint64, owner *string) { *owner = "another" },
	} {
		t.Run(name, func(t *testing.T) {
			testnet.InBubble(t, 3, func(t *testing.T, net *testnet.Net) {
				net.Guarded()
				w, leave := newWaiter(t, net, redlock.WithRestartGuard(time.Millisecond))
				defer leave()
				serial, owner := w.queue.Subscriptions()[1], w.attempt.Owner
				w.execute(0)
				require.False(t, w.isGranted(), "one node is too few")
				change(net, w, &serial, &owner)
				w.Executed(w.engine.Cluster.Nodes[1], serial, owner, "7")
				require.Equal(t, name == "", w.isGranted())

				// A quorum is ready for the next attempt, or one node only.
				wait := time.Duration(0)
				if owner != w.attempt.Owner {
					wait = firstQuorumWait
				}
				require.Equal(t, wait, testnet.Elapsed(func() { require.NoError(t, w.AwaitTurn(t.Context(), farBack)) }))
			})
		})
	}
}

func TestExecutionThatWasRolledBackDoesNotCount(t *testing.T) {
	testnet.InBubble(t, 3, func(t *testing.T, net *testnet.Net) {
		w, leave := newWaiter(t, net)
		defer leave()
		w.execute(0)
		w.execute(1)
		require.True(t, w.isGranted())
		w.RollingBack(w.attempt.Owner, 1<<1)
		require.False(t, w.isGranted())
		w.execute(1)
		require.False(t, w.isGranted(), "nor does a message that comes after the rollback")
		w.Executed(w.engine.Cluster.Nodes[1], 0, w.attempt.Owner, "7")
		require.False(t, w.isGranted(), "nor if the subscription has ended meanwhile")
		w.execute(2)
		require.True(t, w.isGranted())
	})
}

func TestExecutedAttemptWithTooLittleValidityIsNotGranted(t *testing.T) {
	testnet.InBubble(t, 3, func(t *testing.T, net *testnet.Net) {
		w, leave := newWaiter(t, net)
		defer leave()
		for i := range net.Nodes {
			w.execute(i)
		}
		// took has the waiter's last attempt take so long. The nodes are ready: the waiter
		// does not wait.
		took := func(d time.Duration) {
			s := farBack
			s.Took = d
			require.Zero(t, testnet.Elapsed(func() { require.NoError(t, w.AwaitTurn(t.Context(), s)) }))
		}
		time.Sleep(w.lock.Terms().Wait.ExecutedValidity - protocol.ReservationTTL/4)
		require.True(t, w.isGranted())
		took(100 * ms)
		require.False(t, w.isGranted(), "the renewal would take too long")
		took(0)
		require.True(t, w.isGranted())
		time.Sleep(time.Nanosecond)
		require.False(t, w.isGranted())
	})
}
