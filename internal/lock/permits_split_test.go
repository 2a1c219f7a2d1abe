package lock_test

import (
	"context"
	"errors"
	"fmt"
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
		holder, err := holders.TryAcquire(t.Context(), 1)
		require.NoError(t, err)
		defer func() { require.NoError(t, holder.Unlock(context.Background())) }()
	}
	for range rounds {
		time.Sleep(100 * ms)
		for _, n := range net.Nodes {
			n.Set((*testnet.Node).Skew)
		}
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
			_, err := net.Client(redlock.WithTrace(trace)).Semaphore("x", 3).TryAcquire(t.Context(), n)
			var held *redlock.HeldError
			require.ErrorAs(t, err, &held)
			require.True(t, held.Permits)
			synctest.Wait()
			require.EqualValues(t, 1, tries.Load())
		}
		one, err := net.Client().Semaphore("x", 3).TryAcquire(t.Context(), 1)
		require.NoError(t, err)
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
		two, err := net.Client().Semaphore("x", 3).TryAcquire(t.Context(), 2)
		require.NoError(t, err)
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
			return eval(protocol.Permit, 1, "queue", "OURS", 10_000, "", 1, ticket, "label", slotKey, 5, n, 1)
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
