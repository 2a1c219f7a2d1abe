package lock_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/redlock-go/redlock"
	"github.com/redlock-go/redlock/internal/protocol"
	"github.com/redlock-go/redlock/internal/test/testnet"
)

func TestPermitsAreDifferentSlots(t *testing.T) {
	testnet.InBubble(t, 3, func(t *testing.T, net *testnet.Net) {
		var leases []*redlock.Lease
		slots := make(map[int]bool)
		for range 3 {
			l := net.Must(net.Client().Semaphore("x", 3).TryAcquire(t.Context(), 1))
			require.Len(t, l.Slots(), 1)
			slot := l.Slots()[0]
			require.False(t, slots[slot], "slot %d twice", slot)
			require.Less(t, slot, 3)
			require.Positive(t, l.Token())
			require.Equal(t, "x", l.Name())
			slots[slot] = true
			leases = append(leases, l)
		}
		_, err := net.Client().Semaphore("x", 3).TryAcquire(t.Context(), 1)
		var held *redlock.HeldError
		require.ErrorAs(t, err, &held)
		require.True(t, held.Permits)
		require.Empty(t, held.Holder)
		require.InDelta(t, 10*time.Second, held.Remaining, float64(time.Second))
		require.ErrorContains(t, err, `redlock: lock "x": too few permits are free (the next can expire in `)
		require.NoError(t, leases[1].Extend(t.Context()))
		require.NoError(t, leases[1].Unlock(t.Context()))
		require.NoError(t, leases[1].Unlock(t.Context()))
		again := net.Must(net.Client().Semaphore("x", 3).TryAcquire(t.Context(), 1))
		require.Equal(t, leases[1].Slots()[0], again.Slots()[0])
		require.Greater(t, again.Token(), leases[1].Token())
		for _, l := range []*redlock.Lease{leases[0], leases[2], again} {
			require.NoError(t, l.Unlock(t.Context()))
		}
		net.RequireNoKeys()
	})
}

func TestPermitsAreAcquiredAllOrNone(t *testing.T) {
	testnet.InBubble(t, 5, func(t *testing.T, net *testnet.Net) {
		a, b := net.Client().Semaphore("x", 5), net.Client().Semaphore("x", 5)
		three := net.Must(a.Acquire(t.Context(), 3))
		require.Len(t, three.Slots(), 3)
		net.Held(b.TryAcquire(t.Context(), 3))
		two, err := b.TryAcquire(t.Context(), 2)
		require.NoError(t, err, "nothing of the refused attempt is held")
		slots := make(map[int]bool)
		for _, slot := range append(three.Slots(), two.Slots()...) {
			slots[slot] = true
		}
		require.Len(t, slots, 5)
		require.NoError(t, three.Unlock(t.Context()))
		require.NoError(t, two.Unlock(t.Context()))
		net.RequireNoKeys()
	})
}

func TestWaiterForManyPermitsIsNotPassed(t *testing.T) {
	testnet.InBubble(t, 3, func(t *testing.T, net *testnet.Net) {
		s := func() *redlock.Semaphore { return net.Client().Semaphore("x", 2) }
		one := net.Must(s().Acquire(t.Context(), 1))
		var mu sync.Mutex
		var order []int
		var all sync.WaitGroup
		for i, n := range []int{2, 1} {
			all.Go(func() {
				time.Sleep(time.Duration(i+1) * time.Second)
				assert.NoError(t, s().Do(t.Context(), n, func(context.Context, *redlock.Lease) error {
					mu.Lock()
					order = append(order, n)
					mu.Unlock()
					time.Sleep(time.Second)
					return nil
				}))
			})
		}
		time.Sleep(5 * time.Second)
		require.Empty(t, order, "one permit is free, and the first waiter wants two")
		_, err := s().TryAcquire(t.Context(), 1)
		require.ErrorIs(t, err, redlock.ErrHeld, "a caller that does not wait gives way")
		require.NoError(t, one.Unlock(t.Context()))
		all.Wait()
		require.Equal(t, []int{2, 1}, order)
		synctest.Wait()
		net.RequireNoKeys()
	})
}

// Thirty callers contend for ten permits. Each waiter asks once to join the queue, and once when it
// is its turn.
func TestWaitersForPermitsHaveEqualTurnsAndFewBallots(t *testing.T) {
	testnet.SlowWithRace(t)
	const permits = 10
	for _, clients := range []int{16, 30} {
		turns := clients * 80
		testnet.InBubble(t, 5, func(t *testing.T, net *testnet.Net) {
			net.Delay(time.Millisecond)
			u := &usage{permits: permits}
			ctx, cancel := context.WithCancel(t.Context())
			defer cancel()
			counts := make([]int, clients)
			var ballots atomic.Int64
			trace := &redlock.Trace{BallotStart: func(b redlock.BallotEvent) {
				if b.Op == "lock" && ctx.Err() == nil {
					ballots.Add(1)
				}
			}}
			var all sync.WaitGroup
			for i := range clients {
				s := net.Client(redlock.WithTrace(trace)).Semaphore("x", permits)
				all.Go(func() {
					for ctx.Err() == nil {
						_ = s.Do(ctx, 1, func(_ context.Context, l *redlock.Lease) error {
							counts[i]++
							switch u.begin(t, l) {
							case clients: // all have joined the queue
								ballots.Store(0)
							case clients + turns:
								cancel()
							}
							time.Sleep(20 * time.Millisecond)
							u.end(l)
							return nil
						})
					}
				})
			}
			all.Wait()
			perPermit := float64(ballots.Load()) / float64(turns)
			t.Logf("%d clients: %v turns; %.2f ballots a permit", clients, counts, perPermit)
			require.Less(t, perPermit, 3.0)
			for _, n := range counts {
				require.InDelta(t, 1, float64(n*clients)/float64(u.total), 0.2)
			}
		})
	}
}

// usage is the slots that are in use.
type usage struct {
	permits int
	mu      sync.Mutex // protects what follows
	slots   map[int]bool
	total   int
}

// begin checks that nobody else has the lease's slots. It returns how many leases there have been.
func (u *usage) begin(t *testing.T, l *redlock.Lease) int {
	u.mu.Lock()
	defer u.mu.Unlock()
	for _, slot := range l.Slots() {
		assert.False(t, u.slots[slot], "slot %d is held twice", slot)
		assert.Less(t, slot, u.permits)
		if u.slots == nil {
			u.slots = make(map[int]bool)
		}
		u.slots[slot] = true
	}
	u.total++
	return u.total
}

func (u *usage) end(l *redlock.Lease) {
	u.mu.Lock()
	defer u.mu.Unlock()
	for _, slot := range l.Slots() {
		u.slots[slot] = false
	}
}

const limitLine = `level=WARN msg="redlock: callers give a semaphore different numbers of permits`

// A caller of five permits waits behind one of three, for whom the fourth and the fifth slot look free. Its client logs
// that once for each name.
func TestAnotherNumberOfPermitsIsLoggedOnceForEachName(t *testing.T) {
	testnet.InBubble(t, 3, func(t *testing.T, net *testnet.Net) {
		var lines testnet.Journal
		holder, three := net.Client(), net.Client()
		five := net.Client(redlock.WithLogger(slog.New(slog.NewTextHandler(&lines, nil))))
		for _, name := range []string{"x", "y"} {
			lease := net.Must(holder.Semaphore(name, 3).Acquire(t.Context(), 3))
			ctx, cancel := context.WithCancel(t.Context())
			go func() { _, _ = three.Semaphore(name, 3).Acquire(ctx, 1) }()
			time.Sleep(100 * ms)
			for range 3 {
				net.Held(five.Semaphore(name, 5).TryAcquire(t.Context(), 1))
			}
			s := net.Status(five.Inspect(t.Context(), name))
			require.Equal(t, 3, s.Queue[0].Limit)
			cancel()
			require.NoError(t, lease.Unlock(t.Context()))
			time.Sleep(time.Second)
			require.Equal(t, 1, strings.Count(lines.String(), "name="+name+" ours=5 theirs=3"), lines.String())
		}
		require.Equal(t, 2, strings.Count(lines.String(), limitLine), lines.String())
	})
}

func TestTheSameNumberOfPermitsIsNotLogged(t *testing.T) {
	testnet.InBubble(t, 3, func(t *testing.T, net *testnet.Net) {
		var lines testnet.Journal
		c := net.Client(redlock.WithLogger(slog.New(slog.NewTextHandler(&lines, nil))))
		ctx, cancel := context.WithTimeout(t.Context(), 5*time.Second)
		defer cancel()
		for range 5 {
			go func() { _ = c.Semaphore("x", 3).Do(ctx, 2, func(context.Context, *redlock.Lease) error { return nil }) }()
		}
		time.Sleep(6 * time.Second)
		require.Empty(t, lines.String())
	})
}

// contest is four callers that ask for n permits each at the same instant, while other leases hold some of the
// permits. None of the callers waits.
type contest struct {
	size, n, held int
}

// play has the callers ask in so many rounds. In each round the nodes hear them in other orders. play returns in how
// many rounds nobody got permits, though some were free, and how many leases were granted in all rounds.
func (c contest) play(t *testing.T, net *testnet.Net, rounds int) (lost, leases int) {
	var callers []*redlock.Semaphore
	for range 4 {
		callers = append(callers, net.Client().Semaphore("x", c.size))
	}
	holders := net.Client().Semaphore("x", c.size)
	for range c.held {
		holder := net.Must(holders.TryAcquire(t.Context(), 1))
		defer func() { require.NoError(t, holder.Unlock(context.Background())) }()
	}
	for range rounds {
		time.Sleep(100 * ms)
		net.Nodes.Set((*testnet.Node).Skew)
		won := c.round(t, callers)
		if won == 0 {
			lost++
		}
		leases += won
	}
	return lost, leases
}

// round has all callers ask at once, and returns how many of them got their permits.
func (c contest) round(t *testing.T, callers []*redlock.Semaphore) (won int) {
	var answered, all sync.WaitGroup
	var leases atomic.Int64
	answered.Add(len(callers))
	for _, s := range callers {
		all.Go(func() {
			lease, err := s.TryAcquire(context.Background(), c.n)
			answered.Done()
			if err != nil {
				assert.True(t, errors.Is(err, redlock.ErrHeld) || errors.Is(err, redlock.ErrNoQuorum), "%v", err)
				return
			}
			leases.Add(1)
			answered.Wait()
			assert.NoError(t, lease.Unlock(context.Background()))
		})
	}
	all.Wait()
	return int(leases.Load())
}

// Nobody had won a third of the rounds with three nodes, and half of those with five, before refusals named the owners.
func TestOneOfTheCallersThatAskAtTheSameInstantGetsTheFreePermits(t *testing.T) {
	rounds := testnet.Tries(10, 300)
	for _, c := range []contest{
		{size: 1, n: 1},
		{size: 3, n: 1},
		{size: 3, n: 1, held: 2},
		{size: 4, n: 2},
		{size: 4, n: 2, held: 2},
	} {
		for _, nodes := range []int{3, 5} {
			t.Run(fmt.Sprintf("%d of %d, %d held, %d nodes", c.n, c.size, c.held, nodes), func(t *testing.T) {
				testnet.InBubble(t, nodes, func(t *testing.T, net *testnet.Net) {
					lost, leases := c.play(t, net, rounds)
					t.Logf("nobody won %d of %d rounds; %d leases", lost, rounds, leases)
					require.Zero(t, lost)
				})
			})
		}
	}
}

// A caller asks again only where the votes were split: not where others hold the permits, or wait for them.
func TestRefusedTryAcquireAsksOnceWherePermitsAreHeldOrAwaited(t *testing.T) {
	testnet.InBubble(t, 3, func(t *testing.T, net *testnet.Net) {
		requireOneTry := func(n int) {
			var tries atomic.Int64
			trace := &redlock.Trace{BallotStart: func(b redlock.BallotEvent) {
				if b.Op == "lock" {
					tries.Add(1)
				}
			}}
			held := net.Held(net.Client(redlock.WithTrace(trace)).Semaphore("x", 3).TryAcquire(t.Context(), n))
			require.True(t, held.Permits)
			synctest.Wait()
			require.EqualValues(t, 1, tries.Load())
		}
		one := net.Must(net.Client().Semaphore("x", 3).TryAcquire(t.Context(), 1))
		requireOneTry(3)
		ctx, leave := context.WithCancel(t.Context())
		var waiter sync.WaitGroup
		s := testnet.ListeningClient(t, net).Semaphore("x", 3)
		waiter.Go(func() {
			_, err := s.Acquire(ctx, 3)
			assert.ErrorIs(t, err, context.Canceled)
		})
		time.Sleep(time.Second)
		requireOneTry(1)
		leave()
		waiter.Wait()
		two := net.Must(net.Client().Semaphore("x", 3).TryAcquire(t.Context(), 2))
		synctest.Wait()
		requireOneTry(1)
		net.Nodes[1].Redis.Del(slotKey + "0") // a master lost the key of a lease
		requireOneTry(2)
		net.Nodes[2].Down()
		requireOneTry(2)
		require.NoError(t, errors.Join(one.Unlock(t.Context()), two.Unlock(t.Context())))
	})
}

// A refusal to a caller that does not queue names the owners of all slots, whatever their keys hold.
func TestRefusedCallerLearnsTheOwnersOfTheSlots(t *testing.T) {
	testnet.InBubble(t, 1, func(t *testing.T, net *testnet.Net) {
		node, eval := testnet.Scripted(t, net)
		ask := func(ticket string, n int) any {
			return eval(protocol.Permit, 2, "queue", "record", "OURS", 10_000, "7", 1, ticket, "label", slotKey, 5, n, 1)
		}
		for slot, value := range map[int]string{0: "ABCDEFGHIJKLMNOPQRSTUVWXYZ@label", 1: "A", 2: ""} {
			require.NoError(t, node.Redis.Set(fmt.Sprint(slotKey, slot), value))
		}
		node.Redis.HSet(slotKey+"3", "a", "b")
		require.Equal(t, []any{[]byte("redlock::permits"), int64(-1), []byte("ABCDA???????????    ")}, ask("", 2))
		ticket := "1700000000000000-AAAAAAAAAAAAAAAA-0000000000/5*2"
		require.Equal(t, []any{[]byte("redlock::permits"), int64(-1), int64(1), []byte("n")}, ask(ticket, 2))
		require.Equal(t, []any{[]byte("redlock::permits"), int64(-1), int64(0), []byte("")}, ask("", 1), "it gives way to the waiter")
	})
}
