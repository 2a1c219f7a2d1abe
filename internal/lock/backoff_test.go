package lock_test

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/gomodule/redigo/redis"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/redlock-go/redlock"
	"github.com/redlock-go/redlock/internal/test/testhook"
	"github.com/redlock-go/redlock/internal/test/testnet"
)

// every returns an option that asks again every d, and what it was called with.
func every(d time.Duration) (opt redlock.Option, tries *[]int) {
	tries = new([]int)
	return redlock.WithBackoff(func(try int) time.Duration {
		*tries = append(*tries, try)
		return d
	}), tries
}

// numbers returns 1, 2, … n.
func numbers(n int) (all []int) {
	for i := range n {
		all = append(all, i+1)
	}
	return all
}

func TestCallerWithABackoffAsksAgainAndDoesNotQueue(t *testing.T) {
	testnet.OfEachKind(t, 3, func(t *testing.T, net *testnet.Net) {
		holder, c := net.Client(), net.Client()
		held, err := holder.Mutex("x").Lock(t.Context())
		require.NoError(t, err)
		opt, tries := every(100 * ms)
		synctest.Wait() // the slower grants have arrived
		before := net.Nodes[0].Attempts()
		time.AfterFunc(5*time.Second+50*ms, func() {
			for _, n := range net.Nodes {
				assert.Zero(t, n.Executed("subscribe"))
			}
			assert.Equal(t, 1, c.Stats().Waiting)
			net.RequireNoTraces()
			assert.NoError(t, held.Unlock(t.Context()))
		})
		var lease *redlock.Lease
		took := testnet.Elapsed(func() { lease, err = net.Mutex(c, "x", opt).Lock(t.Context()) })
		require.NoError(t, err)
		require.Equal(t, 5100*ms, took, "it asks again at its own pace, and is not woken")
		require.Equal(t, numbers(51), *tries)
		synctest.Wait()
		require.Equal(t, 52, net.Nodes[0].Attempts()-before)
		require.False(t, testhook.Engine(c).HasQueue(), "so there is no second connection")
		stats := c.Stats()
		require.Zero(t, stats.Waiting)
		require.Equal(t, uint64(1), stats.Waits)
		require.Equal(t, uint64(51), stats.Held)
		require.NoError(t, lease.Unlock(t.Context()))
		net.RequireNoKeys()
	})
}

// A client that other callers have made listen for wake-ups does not make waiters of these.
func TestCallerWithABackoffDoesNotQueueWhereOthersDo(t *testing.T) {
	testnet.OfEachKind(t, 3, func(t *testing.T, net *testnet.Net) {
		holder, c := net.Client(), net.Client()
		other := net.Must(holder.Mutex("y").Lock(t.Context()))
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		net.Held(c.Mutex("y").Lock(ctx))
		require.True(t, testhook.Engine(c).HasQueue())
		require.NoError(t, other.Unlock(t.Context()))

		held := net.Must(holder.Mutex("x").Lock(t.Context()))
		opt, tries := every(100 * ms)
		ctx, cancel = context.WithTimeout(t.Context(), time.Second+50*ms)
		defer cancel()
		time.AfterFunc(time.Second, net.RequireNoTraces)
		net.Held(net.Mutex(c, "x", opt).Lock(ctx))
		require.Len(t, *tries, 11)
		require.NoError(t, held.Unlock(t.Context()))
	})
}

func TestErrorOfACallerWithABackoffIsThatOfLock(t *testing.T) {
	testnet.OfEachKind(t, 3, func(t *testing.T, net *testnet.Net) {
		holder, c := net.Client(), net.Client()
		held, err := holder.Mutex("x").Lock(t.Context())
		require.NoError(t, err)
		opt, _ := every(time.Hour)
		gaveUp := errors.New("the caller gave up")
		ctx, cancel := context.WithTimeoutCause(t.Context(), 3*time.Second, gaveUp)
		defer cancel()
		took := testnet.Elapsed(func() { _, err = net.Mutex(c, "x", opt).Lock(ctx) })
		require.Equal(t, 3*time.Second, took)
		require.ErrorIs(t, err, gaveUp)
		var refusal *redlock.HeldError
		require.ErrorAs(t, err, &refusal)
		require.Equal(t, held.Owner(), refusal.Holder)
		require.Positive(t, refusal.Remaining)
		require.Zero(t, refusal.Position)
		_, err = net.Mutex(c, "x", opt).Lock(ctx)
		require.ErrorIs(t, err, gaveUp, "it had ended before")

		time.AfterFunc(time.Second, func() { _ = c.Close() })
		_, err = net.Mutex(c, "x", opt).Lock(t.Context())
		require.ErrorIs(t, err, redlock.ErrClosed)
		require.ErrorIs(t, err, redlock.ErrHeld)
	})
}

func TestShortestBackoffIsAMillisecond(t *testing.T) {
	for _, pause := range []time.Duration{0, -time.Hour, 999 * time.Microsecond, ms} {
		testnet.InBubble(t, 3, func(t *testing.T, net *testnet.Net) {
			held := net.Must(net.Client().Mutex("x").Lock(t.Context()))
			opt, tries := every(pause)
			ctx, cancel := context.WithTimeout(t.Context(), 100*ms-time.Microsecond)
			defer cancel()
			net.Held(net.Client(opt).Mutex("x").Lock(ctx)) // an option of the client's, too
			require.Len(t, *tries, 100, "%v", pause)
			require.NoError(t, held.Unlock(t.Context()))
		})
	}
}

func TestBackoffIsThePauseWithoutAQuorumToo(t *testing.T) {
	testnet.OfEachKind(t, 3, func(t *testing.T, net *testnet.Net) {
		opt, tries := every(time.Second)
		c := net.Client(opt)
		net.Nodes[1:].Down()
		time.Sleep(ms)
		time.AfterFunc(10*time.Second+500*ms, func() {
			net.Nodes.Up()
		})
		var lease *redlock.Lease
		var err error
		took := testnet.Elapsed(func() { lease, err = net.Mutex(c, "x").Lock(t.Context()) })
		require.NoError(t, err)
		require.Equal(t, 11*time.Second, took)
		require.Equal(t, numbers(11), *tries)
		require.NoError(t, lease.Unlock(t.Context()))

		for _, n := range net.Nodes {
			n.Set(func(n *testnet.Node) { n.Refusing = redis.Error("WRONGPASS no") })
			n.Cut()
		}
		time.Sleep(time.Second)
		_, err = net.Mutex(c, "x").Lock(t.Context())
		require.ErrorIs(t, err, redlock.ErrNoQuorum, "at once, as without a back-off")
		require.Len(t, *tries, 11)
	})
}

// A thousand tries a second do not get the lock before the waiters of the queue.
func TestCallerWithABackoffGivesWayToTheQueue(t *testing.T) {
	testnet.OfEachKind(t, 3, func(t *testing.T, net *testnet.Net) {
		net.Delay(ms)
		queued, c := net.Client(), net.Client()
		held := net.Must(queued.Mutex("x").Lock(t.Context()))
		const waiters = 10
		var order []string // each caller appends while it holds the lock
		got := make(chan error, waiters+1)
		work := func(name string, m *redlock.Mutex) {
			lease, err := m.Lock(t.Context())
			if err == nil {
				order = append(order, name)
				time.Sleep(20 * ms)
				err = lease.Unlock(t.Context())
			}
			got <- err
		}
		for range waiters {
			go work("queued", queued.Mutex("x"))
		}
		time.Sleep(time.Second)
		opt, _ := every(ms)
		go work("by chance", net.Mutex(c, "x", opt))
		time.Sleep(time.Second)
		require.NoError(t, held.Unlock(t.Context()))
		for range waiters + 1 {
			require.NoError(t, <-got)
		}
		require.Len(t, order, waiters+1)
		require.Equal(t, "by chance", order[waiters])
		time.Sleep(time.Second)
		net.RequireNoKeys()
	})
}

func TestPanicOfABackoffIsTheCallers(t *testing.T) {
	testnet.OfEachKind(t, 3, func(t *testing.T, net *testnet.Net) {
		var tape testnet.Tape
		held := net.Must(net.Client().Mutex("x").Lock(t.Context()))
		c := net.Client(redlock.WithTrace(tape.Trace()))
		m := net.Mutex(c, "x", redlock.WithBackoff(func(int) time.Duration { panic("the back-off's own") }))
		require.PanicsWithValue(t, "the back-off's own", func() { _, _ = m.Lock(t.Context()) })
		require.Zero(t, c.Stats().Waiting)
		ends := testnet.Told[testnet.WaitEnd](&tape)
		require.Len(t, ends, 1)
		require.ErrorIs(t, ends[0].Err, redlock.ErrHeld, "hooks must not take it for a caller that got the lock")
		require.NoError(t, held.Unlock(t.Context()))
		synctest.Wait()
		net.RequireNoKeys()
		require.NoError(t, c.Close(), "nothing is left of the call that Close would wait for")
	})
}

func TestBackoffWithoutAFunctionIsABadSetting(t *testing.T) {
	testnet.InBubble(t, 3, func(t *testing.T, net *testnet.Net) {
		_, err := net.Client().Mutex("x", redlock.WithBackoff(nil)).Lock(t.Context())
		require.ErrorIs(t, err, redlock.ErrConfig)
		require.ErrorContains(t, err, "WithBackoff(nil)")
	})
}
