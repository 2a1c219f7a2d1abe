package waitqueue_test

import (
	"context"
	"fmt"
	"strconv"
	"strings"
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
			held := net.Must(net.Client().Mutex("x").Lock(t.Context()))
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
			held := net.Must(net.Client().Mutex("x").Lock(t.Context()))
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
		held := net.Must(net.Client().Mutex("x").Lock(t.Context()))
		synctest.Wait() // it has all nodes
		ctx, leave := context.WithCancel(t.Context())
		second := waits(ctx, testnet.ListeningClient(t, net).Mutex("x").Lock)
		cut := cutOff(t, net, ctx)
		require.NoError(t, held.Unlock(t.Context()))
		held = <-second
		newcomer := testnet.ListeningClient(t, net)
		next := waits(ctx, newcomer.Mutex("x").Lock)
		if asksAgain {
			testhook.Engine(newcomer).Queue().Subscribed(testhook.Engine(newcomer).Cluster.Nodes()[2].Node, true)
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
		held := net.Must(net.Client().Mutex("x").Lock(t.Context()))
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
		held := net.Must(net.Client().Mutex("x").Lock(t.Context()))
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

// Schedules in which those that a hand-off told are not those that must look.

// A set dies with its machine as it gets the locks. Those that wait for either of its names look.
func TestHandOffToADeadSetIsWatchedAtAllOfItsNames(t *testing.T) {
	for _, name := range []string{"a", "b"} {
		testnet.InBubble(t, 3, func(t *testing.T, net *testnet.Net) {
			both := []string{"a", "b"}
			held := net.Must(net.Client().Multi(both).Lock(t.Context()))
			synctest.Wait() // it has all nodes
			ctx, leave := context.WithCancel(t.Context())
			c, pools := net.CuttableClient()
			subscribe(t, c)
			waits(ctx, c.Multi(both).Lock)
			next := waits(ctx, testnet.ListeningClient(t, net).Mutex(name).Lock)
			time.Sleep(time.Second)
			testnet.Hold(pools, true)
			held = handsOver(t, held, next, 1500*ms, name)
			leave()
			require.NoError(t, held.Unlock(t.Context()))
			testnet.Hold(pools, false)
			time.Sleep(2 * time.Second)
		})
	}
}

// Thirteen clients wait, and seven are served. Then it is the turn of a dead one. All behind it are dead but one, which the
// node did not tell to look at the first hand-off. It told that one later, when half of those that it had told were served.
func TestHandOffIsWatchedThoughThoseThatWereToldAreServedOrDead(t *testing.T) {
	testnet.InBubble(t, 3, func(t *testing.T, net *testnet.Net) {
		held := net.Must(net.Client().Mutex("x").Lock(t.Context()))
		synctest.Wait() // it has all nodes
		ctx, leave := context.WithCancel(t.Context())
		var all sync.WaitGroup
		var cuts []func(bool)
		var next <-chan *redlock.Lease
		for _, what := range "qqqqqqqxxnxxx" {
			switch what {
			case 'q': // is served, and quick
				c := testnet.ListeningClient(t, net)
				all.Go(func() {
					if l, err := c.Mutex("x").Lock(ctx); err == nil {
						time.Sleep(5 * ms)
						_ = l.Unlock(t.Context())
					}
				})
				time.Sleep(5 * ms)
			case 'x': // will be cut off
				cuts = append(cuts, cutOff(t, net, ctx))
			case 'n': // is to be the next
				next = waits(ctx, testnet.ListeningClient(t, net).Mutex("x").Lock)
			}
		}
		time.Sleep(time.Second)
		for _, cut := range cuts {
			cut(true)
		}
		held = handsOver(t, held, next, 2500*ms)
		leave()
		require.NoError(t, held.Unlock(t.Context()))
		for _, cut := range cuts {
			cut(false)
		}
		all.Wait()
		time.Sleep(2 * time.Second)
	})
}

// A permit becomes free, too few for those that wait for two, and a tenth of a second later another one. The first waiter
// and the last are dead.
func TestReleaseThatFreesEnoughIsWatchedBehindOneThatFreedTooFew(t *testing.T) {
	testnet.InBubble(t, 3, func(t *testing.T, net *testnet.Net) {
		acquire := func(c *redlock.Client, n int) func(ctx context.Context) (*redlock.Lease, error) {
			return func(ctx context.Context) (*redlock.Lease, error) { return c.Semaphore("x", 2).Acquire(ctx, n) }
		}
		var held [2]*redlock.Lease
		for i := range held {
			var err error
			held[i], err = acquire(net.Client(), 1)(t.Context())
			require.NoError(t, err)
		}
		synctest.Wait() // they have all nodes
		ctx, leave := context.WithCancel(t.Context())
		var pools []*testnet.Cuttable
		dies := func() {
			c, its := net.CuttableClient()
			subscribe(t, c)
			pools = append(pools, its...)
			waits(ctx, acquire(c, 2))
		}
		dies()
		next := waits(ctx, acquire(testnet.ListeningClient(t, net), 2))
		dies()
		time.Sleep(time.Second)
		testnet.Hold(pools, true)
		require.NoError(t, held[0].Unlock(t.Context()))
		time.Sleep(100 * ms)
		got := handsOver(t, held[1], next, 1500*ms)
		leave()
		require.NoError(t, got.Unlock(t.Context()))
		testnet.Hold(pools, false)
		time.Sleep(2 * time.Second)
	})
}

// twelveClientsWait has twelve clients wait for each of these locks, with two waiters each, and returns their tickets.
func (s *setNode) twelveClientsWait(locks ...string) (tickets []string) {
	for i, client := range "ABCDEFGHIJKL" {
		for serial := range 2 {
			tickets = append(tickets, fmt.Sprintf("%016d-%s-%010d", i+1, strings.Repeat(string(client), 16), serial))
		}
	}
	for _, lock := range locks {
		for _, ticket := range tickets {
			require.Equal(s.t, "holder of "+lock, s.askOne(lock, ticket))
		}
	}
	return tickets
}

// Twelve clients wait, each with two waiters. At a hand-off the node tells nine of them to look, one after the other from
// the end of the reservation on: the last, and others from all parts of the queue. It tells others when half of the nine are
// served, and nine again half a second later. A client that joins meanwhile learns it from its refusal. Each lock has its own.
func TestHandOffHasNineClientsLookNowAndThen(t *testing.T) {
	testnet.InBubble(t, 1, func(t *testing.T, net *testnet.Net) {
		n := newSetNode(t, net, "a", "b")
		tickets := n.twelveClientsWait("a", "b")
		// told releases a lock, and returns whom the node told to look, in the order in which they do.
		told := func(lock, owner string) (told []string) {
			n.sent = nil
			require.EqualValues(t, handedOff, n.release(lock, owner))
			at := int(protocol.ReservationTTL.Milliseconds()) - 1
			for _, message := range n.sent {
				if rest, is := strings.CutPrefix(message, "watch "); is {
					ticket, after, _ := strings.Cut(rest, " ")
					ms, err := strconv.Atoi(after)
					require.NoError(t, err)
					require.Greater(t, ms, at)
					told, at = append(told, ticket), ms
				}
			}
			return told
		}
		// joins has a client ask, and returns after how many milliseconds its refusal has it look.
		joins := func(lock, client string) int {
			ticket := fmt.Sprintf("%016d-%s-%010d", 99, strings.Repeat(client, 16), 0)
			reply, ok := protocol.ReadGrant(n.eval(protocol.Acquire, 2, lock, "record", "of "+ticket, 10_000, "7", 1, ticket, "label", "", 0))
			require.True(t, ok)
			return int(reply.Place.LookIn)
		}
		var chosen []string
		for _, i := range []int{23, 20, 18, 15, 13, 10, 8, 5, 3} {
			chosen = append(chosen, tickets[i])
		}
		require.Zero(t, joins("b", "M"))
		require.Equal(t, chosen, told("a", "holder of a"))
		require.Equal(t, 2000, joins("a", "M"))
		require.Zero(t, joins("a", "M"), "it knows")
		require.Zero(t, joins("b", "N"), "another lock's")
		for i := range tickets {
			require.Empty(t, n.askOne("a", tickets[i]))
			var want []string
			if i == 12 { // the fifth of the nine is the first waiter
				want = []string{tickets[23], tickets[21], tickets[19], tickets[17], tickets[15]}
			}
			require.Equal(t, want, told("a", "of "+tickets[i]), i)
		}

		require.Len(t, told("b", "holder of b"), 9)
		require.Empty(t, n.askOne("b", tickets[0]))
		time.Sleep(protocol.ReservationTTL - ms)
		require.Empty(t, told("b", "of "+tickets[0]))
		require.Equal(t, 2000, joins("b", "O"))
		require.Empty(t, n.askOne("b", tickets[1]))
		time.Sleep(ms)
		require.Zero(t, joins("b", "P"))
		require.Len(t, told("b", "of "+tickets[1]), 9)
	})
}

// The first waiter looks at its own pace. One that becomes the first since others have left is told to look, unless
// these are its own client's, which sees to it.
func TestWaiterThatBecomesTheFirstAsOthersLeaveIsToldToLook(t *testing.T) {
	const permit, base = "/1*1", "redlock:x#"
	semaphore := protocol.Key("slots", "redlock:x")
	for name, c := range map[string]struct {
		named      []string // in the messages
		suffix     string   // of the tickets
		ask, leave func(n *setNode, ticket string)
	}{
		"a mutex": {[]string{"a"}, "", func(n *setNode, ticket string) {
			n.askOne("a", ticket)
		}, func(n *setNode, ticket string) {
			n.eval(protocol.Release, testnet.Keys("a", "of "+ticket, ticket)...)
		}},
		"a set": {[]string{"a", "b"}, "+", func(n *setNode, ticket string) {
			n.ask(ticket, 0)
		}, func(n *setNode, ticket string) {
			n.eval(protocol.ReleaseAll, testnet.AllKeys([]string{"a", "b"}, "of "+ticket, ticket)...)
		}},
		"permits": {[]string{semaphore}, permit, func(n *setNode, ticket string) {
			n.eval(protocol.Permit, 2, semaphore, "record", "of "+ticket, 10_000, "7", 1, ticket, "label", base, 1, 1, 5)
		}, func(n *setNode, ticket string) {
			n.eval(protocol.GiveBack, 1, semaphore, "of "+ticket, base, 1, "", ticket)
		}},
	} {
		t.Run(name, func(t *testing.T) {
			testnet.InBubble(t, 1, func(t *testing.T, net *testnet.Net) {
				n := newSetNode(t, net, "a", "b", base+"0")
				first, another := testnet.FirstTicket+c.suffix, anotherOfFirst+c.suffix
				second, third := testnet.SecondTicket+c.suffix, testnet.ThirdTicket+c.suffix
				for _, ticket := range []string{first, another, second, third} {
					c.ask(n, ticket)
				}
				for _, ticket := range []string{second, first} {
					n.sent = nil
					c.leave(n, ticket)
					require.Empty(t, n.sent, ticket)
				}
				var want []string
				for _, named := range c.named {
					want = append(want, "look "+third+" "+named)
				}
				c.leave(n, another)
				require.Equal(t, want, n.sent)
			})
		})
	}
}
