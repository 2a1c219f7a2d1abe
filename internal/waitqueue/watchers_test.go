package waitqueue_test

import (
	"context"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/redlock-go/redlock"
	"github.com/redlock-go/redlock/internal/protocol"
	"github.com/redlock-go/redlock/internal/test/testhook"
	"github.com/redlock-go/redlock/internal/test/testnet"
)

// Each hand-off to a client whose machine is cut off has watchers, however the queue came there.

// waits has a caller wait for a lock, and returns its lease when it is served.
func waits(ctx context.Context, lock func(context.Context) (*redlock.Lease, error)) <-chan *redlock.Lease {
	got := make(chan *redlock.Lease, 1)
	go func() {
		if lease, err := lock(ctx); err == nil {
			got <- lease
		}
	}()
	synctest.Wait()
	time.Sleep(10 * ms)
	return got
}

// cutOff makes a client that waits for x, and is cut off when cut is called.
func cutOff(t *testing.T, net *testnet.Net, ctx context.Context) (cut func(bool)) {
	c, pools := net.CuttableClient()
	subscribe(t, c)
	waits(ctx, c.Mutex("x").Lock)
	return func(held bool) { testnet.Hold(pools, held) }
}

// handsOver releases a lease, and returns that of the next waiter, which must get it in less than most.
func handsOver(t *testing.T, held *redlock.Lease, next <-chan *redlock.Lease, most time.Duration, about ...any) *redlock.Lease {
	t.Helper()
	took := testnet.Elapsed(func() {
		require.NoError(t, held.Unlock(t.Context()))
		held = <-next
	})
	require.Less(t, took, most, about...)
	return held
}

// The client ahead of the dead one holds the lock for a while: the watchers that its own hand-off told have looked then, or
// have not.
func TestHandOffToADeadClientIsWatchedHoweverLongTheLastHolderHadIt(t *testing.T) {
	for _, hold := range []time.Duration{300 * ms, 600 * ms, 800 * ms, 960 * ms, 1100 * ms} {
		testnet.InBubble(t, 3, func(t *testing.T, net *testnet.Net) {
			quick, c := testnet.ListeningClient(t, net), testnet.ListeningClient(t, net)
			held, err := net.Client().Mutex("x").Lock(t.Context())
			require.NoError(t, err)
			synctest.Wait() // it has all nodes
			ctx, leave := context.WithCancel(t.Context())
			first := waits(ctx, quick.Mutex("x").Lock)
			cut := cutOff(t, net, ctx)
			next := waits(ctx, c.Mutex("x").Lock)
			time.Sleep(20 * time.Second)
			cut(true)
			require.NoError(t, held.Unlock(t.Context()))
			held = <-first
			time.Sleep(hold)
			held = handsOver(t, held, next, time.Second, hold)
			require.NoError(t, held.Unlock(t.Context()))
			cut(false)
			leave()
			time.Sleep(2 * time.Second)
		})
	}
}

// Clients that hold the lock for milliseconds are served, then it is the turn of one that is cut off. The last in the queue
// is cut off too.
func TestHandOffToADeadClientIsWatchedBehindQuickOnes(t *testing.T) {
	for _, quick := range []int{2, 7, 9, 20} {
		testnet.InBubble(t, 3, func(t *testing.T, net *testnet.Net) {
			held, err := net.Client().Mutex("x").Lock(t.Context())
			require.NoError(t, err)
			synctest.Wait() // it has all nodes
			ctx, leave := context.WithCancel(t.Context())
			var all sync.WaitGroup
			for range quick {
				c := testnet.ListeningClient(t, net)
				all.Go(func() {
					if l, err := c.Mutex("x").Lock(ctx); err == nil {
						time.Sleep(5 * ms)
						_ = l.Unlock(t.Context())
					}
				})
				time.Sleep(5 * ms)
			}
			cut := cutOff(t, net, ctx)
			next := waits(ctx, testnet.ListeningClient(t, net).Mutex("x").Lock)
			cutLast := cutOff(t, net, ctx)
			time.Sleep(20 * time.Second)
			cut(true)
			cutLast(true)
			held = handsOver(t, held, next, 1500*ms, quick)
			require.NoError(t, held.Unlock(t.Context()))
			cut(false)
			cutLast(false)
			leave()
			all.Wait()
			time.Sleep(2 * time.Second)
		})
	}
}

// A hand-off tells those that wait to look. One that joins after that is told by its refusal: the next hand-off, half a second
// later at most, tells nobody, and is to a client that is cut off. It asks again meanwhile, if asksAgain is set: its
// subscription to the third node stands only then.
func TestWaiterThatJoinsAfterTheOthersWereToldLooks(t *testing.T) {
	for _, asksAgain := range []bool{false, true} {
		joinsAfterTheOthersWereTold(t, asksAgain)
	}
}

func joinsAfterTheOthersWereTold(t *testing.T, asksAgain bool) {
	testnet.InBubble(t, 3, func(t *testing.T, net *testnet.Net) {
		held, err := net.Client().Mutex("x").Lock(t.Context())
		require.NoError(t, err)
		synctest.Wait() // it has all nodes
		ctx, leave := context.WithCancel(t.Context())
		second := waits(ctx, testnet.ListeningClient(t, net).Mutex("x").Lock)
		cut := cutOff(t, net, ctx)
		require.NoError(t, held.Unlock(t.Context()))
		held = <-second
		newcomer := testnet.ListeningClient(t, net)
		next := waits(ctx, newcomer.Mutex("x").Lock)
		if asksAgain {
			testhook.Engine(newcomer).Queue().Subscribed(2, true)
			time.Sleep(10 * ms)
		}
		cut(true)
		held = handsOver(t, held, next, 2500*ms)
		leave()
		require.NoError(t, held.Unlock(t.Context()))
		cut(false)
		time.Sleep(2 * time.Second)
	})
}

// Two clients that are cut off wait ahead of a third one, which has twenty waiters. The node tells the last of the twenty to
// look. The first of them looks too, and once more when the node takes the second client for dead.
func TestForemostWaiterLooksWithTheOneThatIsTold(t *testing.T) {
	testnet.InBubble(t, 3, func(t *testing.T, net *testnet.Net) {
		held, err := net.Client().Mutex("x").Lock(t.Context())
		require.NoError(t, err)
		synctest.Wait() // it has all nodes
		ctx, leave := context.WithCancel(t.Context())
		cut, cutToo := cutOff(t, net, ctx), cutOff(t, net, ctx)
		c := testnet.ListeningClient(t, net)
		next := waits(ctx, c.Mutex("x").Lock)
		time.Sleep(5 * ms)
		for range 19 {
			waits(ctx, c.Mutex("x").Lock)
		}
		time.Sleep(20 * time.Second)
		cut(true)
		cutToo(true)
		held = handsOver(t, held, next, 1500*ms)
		leave()
		require.NoError(t, held.Unlock(t.Context()))
		cut(false)
		cutToo(false)
		time.Sleep(2 * time.Second)
	})
}

// Readers hold the lock, and a dead writer keeps others out. Callers of one client, which give up soon, ask ahead of the
// reader that stays: it is told to look all the same.
func TestReaderLooksThoughOthersThatDoubtedGaveUp(t *testing.T) {
	for _, others := range []int{0, 4, 5} {
		testnet.InBubble(t, 3, func(t *testing.T, net *testnet.Net) {
			brief, stays := testnet.ListeningClient(t, net), testnet.ListeningClient(t, net)
			writer, pools := net.CuttableClient()
			subscribe(t, writer)
			held, err := net.Client().RWMutex("x").RLock(t.Context())
			require.NoError(t, err)
			synctest.Wait() // it has all nodes
			ctx, leave := context.WithCancel(t.Context())
			waits(ctx, writer.RWMutex("x").Lock)
			time.Sleep(500 * ms)
			testnet.Hold(pools, true)
			var all sync.WaitGroup
			for range others {
				all.Go(func() {
					ctx, end := context.WithTimeout(ctx, 500*ms)
					defer end()
					_, err := brief.RWMutex("x").RLock(ctx)
					require.Error(t, err)
				})
			}
			time.Sleep(10 * ms)
			var lease *redlock.Lease
			took := testnet.Elapsed(func() { lease, err = stays.RWMutex("x").RLock(ctx) })
			require.NoError(t, err)
			require.Less(t, took, 4*time.Second, others)
			all.Wait()
			require.NoError(t, lease.Unlock(t.Context()))
			require.NoError(t, held.Unlock(t.Context()))
			testnet.Hold(pools, false)
			leave()
			time.Sleep(2 * time.Second)
		})
	}
}

// A client has got a lock from a quorum, and its ticket stands in the queue of the third node. When the lock is reserved for
// it there, nobody waits with that ticket: the client answers, and does not count as dead at that node.
func TestClientThatHasTheLockAnswersANodeThatCallsIt(t *testing.T) {
	testnet.InBubble(t, 3, func(t *testing.T, net *testnet.Net) {
		c, d := testnet.ListeningClient(t, net), testnet.ListeningClient(t, net)
		held, err := net.Client().Mutex("x").Lock(t.Context())
		require.NoError(t, err)
		synctest.Wait() // it has all nodes
		got := waits(t.Context(), c.Mutex("x").Lock)
		next := waits(t.Context(), d.Mutex("x").Lock)
		node := net.Nodes[0].Redis
		require.NoError(t, node.Set("redlock:x", "a release that was lost"))
		node.SetTTL("redlock:x", 1200*ms)
		require.NoError(t, held.Unlock(t.Context()))
		held = <-got
		alive := protocol.Key("alive", testhook.Engine(c).ID)
		for range 60 {
			time.Sleep(50 * ms)
			require.True(t, node.Exists(alive), "the node takes the client for dead")
		}
		require.NoError(t, held.Unlock(t.Context()))
		require.NoError(t, (<-next).Unlock(t.Context()))
	})
}
