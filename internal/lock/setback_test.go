package lock_test

import (
	"context"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/redlock-go/redlock"
	"github.com/redlock-go/redlock/internal/protocol"
	"github.com/redlock-go/redlock/internal/system"
	"github.com/redlock-go/redlock/internal/test/testhook"
	"github.com/redlock-go/redlock/internal/test/testnet"
)

// Clocks of servers are set back by an hour: docs/safety.md says how locks go on.

// setBack has the keys of all nodes last for an hour longer.
func setBack(net *testnet.Net) {
	for _, n := range net.Nodes {
		for _, key := range n.Redis.Keys() {
			if left := n.Redis.TTL(key); left > 0 {
				n.Redis.SetTTL(key, left+time.Hour)
			}
		}
	}
}

func TestTrimCutsTheKeysOfThisLibraryAlone(t *testing.T) {
	const hour = time.Hour
	random := system.OSRandom{}.ID("attempt")
	cut, whole := 5*time.Second+ms, hour
	for name, c := range map[string]struct {
		value func() string
		left  time.Duration
		want  time.Duration
	}{
		"an owner":                     {func() string { return protocol.Owner(random, time.Now(), "", "") }, hour, cut},
		"an owner with a label":        {func() string { return protocol.Owner(random, time.Now(), "", "host:1") }, hour, cut},
		"an owner that is told":        {func() string { return protocol.Owner(random, time.Now(), "CCCCCCCCCCCCCCCC", "host:1") }, hour, cut},
		"an owner without a clock":     {func() string { return protocol.Owner(random, time.Time{}, "", "") }, hour, cut},
		"an owner of before":           {func() string { return protocol.Owner(random, time.Now().Add(hour), "", "") }, hour, cut},
		"an owner that ends in time":   {func() string { return protocol.Owner(random, time.Now(), "", "") }, 4 * time.Second, 4 * time.Second},
		"readers":                      {func() string { return protocol.Shared }, hour, cut},
		"it rests":                     {func() string { return protocol.Resting + "me" }, hour, cut},
		"a reservation":                {func() string { return protocol.Reservation + testnet.FirstTicket }, hour, 2 * time.Second},
		"a value of rand.Text":         {func() string { return "FEDCBA765432ZYXWVUTSRQPONM" }, hour, whole},
		"a value of base64":            {func() string { return "Z2hvc3RzIG9mIHRoZSBwYXN0IQ==" }, hour, whole},
		"a UUID":                       {func() string { return "6fa459ea-ee8a-3ca4-894e-db77e160355e" }, hour, whole},
		"an empty value":               {func() string { return "" }, hour, whole},
		"a longer value of this begin": {func() string { return protocol.Owner(random, time.Now(), "", "") + "X" }, hour, whole},
		"another program's label":      {func() string { return protocol.Owner(random, time.Now(), "", "") + ":1" }, hour, whole},
	} {
		t.Run(name, func(t *testing.T) {
			testnet.InBubble(t, 1, func(t *testing.T, net *testnet.Net) {
				n := net.Nodes[0]
				call := protocol.TrimCall{Run: "run", Record: "record", Keys: []string{"redlock:x", "redlock:free"}}
				set := func() {
					require.NoError(t, n.Redis.Set("redlock:x", c.value()))
					n.Redis.SetTTL("redlock:x", c.left)
				}
				trim := func() any {
					reply, err := n.Eval(call.Eval())
					require.NoError(t, err)
					return reply
				}
				set()
				require.Equal(t, int64(0), trim(), "there is no record")
				require.Equal(t, c.left, n.Redis.TTL("redlock:x"))
				n.Redis.HSet("record", "ttl", "5000")
				n.Redis.HSet("redlock::quarantine:run", "guard", "3000")
				trim()
				require.Equal(t, c.want, n.Redis.TTL("redlock:x"))
				require.False(t, n.Redis.Exists("redlock:free"))
				n.Redis.HSet("redlock::quarantine:run", "guard", "20000")
				set()
				trim()
				if c.want == cut {
					require.Equal(t, 20*time.Second+ms, n.Redis.TTL("redlock:x"), "the guard is longer")
				}
			})
		})
	}
}

// The shares end in time, too: one that did not would prolong the key again when the next reader comes or goes.
func TestTrimCutsTheSharesThatLastTooLong(t *testing.T) {
	testnet.InBubble(t, 1, func(t *testing.T, net *testnet.Net) {
		r := net.Nodes[0].Redis
		now := time.Now()
		at := func(d time.Duration) float64 { return float64(now.Add(d).UnixMilli()) }
		for owner, d := range map[string]time.Duration{"dead": time.Hour, "alive": 3 * time.Second} {
			_, err := r.ZAdd("redlock::readers:redlock:x", at(d), owner)
			require.NoError(t, err)
		}
		r.SetTTL("redlock::readers:redlock:x", time.Hour)
		require.NoError(t, r.Set("redlock:x", protocol.Shared))
		r.SetTTL("redlock:x", 2*time.Second) // as an older client has cut it
		r.HSet("record", "ttl", "5000")
		_, err := net.Nodes[0].Eval(protocol.TrimCall{Run: "run", Record: "record", Keys: []string{"redlock:x"}}.Eval())
		require.NoError(t, err)
		shares, err := r.SortedSet("redlock::readers:redlock:x")
		require.NoError(t, err)
		require.Equal(t, map[string]float64{"dead": at(5*time.Second + ms), "alive": at(3 * time.Second)}, shares)
		require.Equal(t, 5*time.Second+ms, r.TTL("redlock::readers:redlock:x"))
		require.Equal(t, 2*time.Second, r.TTL("redlock:x"))
	})
}

// A reader dies, and the clocks are set back. Other readers come and go: a writer that does not wait gets the lock when the
// dead reader's ttl is over.
func TestShareOfADeadReaderEndsInTimeThoughOtherReadersComeAndGo(t *testing.T) {
	testnet.InBubble(t, 3, func(t *testing.T, net *testnet.Net) {
		dead, c := net.Guarded(redlock.WithTTL(5*time.Second)), net.Guarded(redlock.WithTTL(5*time.Second))
		l := net.Must(dead.RWMutex("x").RLock(t.Context()))
		synctest.Wait()
		testhook.Engine(dead).Renewer.Forget(testhook.Lease(l))
		setBack(net)
		for _, n := range net.Nodes {
			shares, err := n.Redis.SortedSet("redlock::readers:redlock:x")
			require.NoError(t, err)
			for owner, ends := range shares {
				_, err := n.Redis.ZAdd("redlock::readers:redlock:x", ends+float64(time.Hour.Milliseconds()), owner)
				require.NoError(t, err)
			}
		}
		net.Held(c.RWMutex("x").TryLock(t.Context())) // its refusals show the keys that last too long
		for range 10 {
			reader := net.Must(c.RWMutex("x").RLock(t.Context()))
			time.Sleep(time.Second)
			require.NoError(t, reader.Unlock(t.Context()))
		}
		writer := net.Must(c.RWMutex("x").TryLock(t.Context()))
		require.NoError(t, writer.Unlock(t.Context()))
	})
}

// The holder dies, and the clocks are set back: a waiter of each kind gets the lock when the holder's ttl is over, and not an
// hour later.
func TestKeysOfADeadHolderEndInTimeThoughClocksAreSetBack(t *testing.T) {
	type lock = func(context.Context) (*redlock.Lease, error)
	of := func(c *redlock.Client) map[string]lock {
		permit := func(ctx context.Context) (*redlock.Lease, error) { return c.Semaphore("x", 1).Acquire(ctx, 1) }
		return map[string]lock{"mutex": c.Mutex("x").Lock, "readers": c.RWMutex("x").RLock, "set": c.Multi([]string{"x", "y"}).Lock, "permit": permit}
	}
	for held, wanted := range map[string][]string{"mutex": {"mutex", "readers", "set"}, "readers": {"mutex"}, "set": {"mutex"}, "permit": {"permit"}} {
		for _, want := range wanted {
			t.Run(held+" held, "+want+" wanted", func(t *testing.T) {
				testnet.InBubble(t, 3, func(t *testing.T, net *testnet.Net) {
					dead, c := net.Guarded(redlock.WithTTL(5*time.Second)), net.Guarded(redlock.WithTTL(5*time.Second))
					l, err := of(dead)[held](t.Context())
					require.NoError(t, err)
					synctest.Wait()
					testhook.Engine(dead).Renewer.Forget(testhook.Lease(l))
					setBack(net)
					var next *redlock.Lease
					took := testnet.Elapsed(func() { next, err = of(c)[want](t.Context()) })
					require.NoError(t, err)
					require.Less(t, took, 8*time.Second)
					require.NoError(t, next.Unlock(t.Context()))
				})
			})
		}
	}
}

// A waiter for all permits dies, and the clocks are set back: by its key, its client counts as alive for an hour more. It must
// not keep the free permits from others for so long.
func TestDeadWaiterDoesNotCountAsAliveForLongThoughClocksAreSetBack(t *testing.T) {
	testnet.InBubble(t, 3, func(t *testing.T, net *testnet.Net) {
		held := net.Must(net.Client().Semaphore("x", 3).Acquire(t.Context(), 1))
		synctest.Wait()
		die, end := dyingWaiters(t, net, 1, 1, 3, 3)
		time.Sleep(3 * time.Second)
		die()
		net.Held(testnet.ListeningClient(t, net).Semaphore("x", 3).TryAcquire(t.Context(), 1))
		synctest.Wait()
		setBack(net)
		var lease *redlock.Lease
		took := testnet.Elapsed(func() { lease = <-acquireOne(t, net, 3) })
		end()
		require.NotNil(t, lease)
		assert.Less(t, took, 4*time.Second)
		require.NoError(t, lease.Unlock(t.Context()))
		require.NoError(t, held.Unlock(t.Context()))
	})
}

// The clocks are set back while a caller waits: callers that come now get earlier tickets, and must not pass it for an hour.
func TestWaiterIsNotPassedForLongThoughClocksAreSetBack(t *testing.T) {
	testnet.InBubble(t, 3, func(t *testing.T, net *testnet.Net) {
		var behind atomic.Int64
		ctx, stop := context.WithCancel(t.Context())
		var all sync.WaitGroup
		all.Go(func() {
			for ctx.Err() == nil {
				for _, n := range net.Nodes {
					n.Redis.SetTime(time.Now().Add(-time.Duration(behind.Load())))
				}
				time.Sleep(5 * ms)
			}
		})
		newClient := func() *redlock.Client { return net.Guarded(redlock.WithTTL(5 * time.Second)) }
		holder := newClient()
		first := net.Must(holder.Mutex("x").Lock(t.Context()))
		turn := make(chan time.Time, 1)
		waiter := newClient()
		all.Go(func() {
			l, err := waiter.Mutex("x").Lock(t.Context())
			assert.NoError(t, err)
			turn <- time.Now()
			assert.NoError(t, l.Unlock(t.Context()))
		})
		time.Sleep(2 * time.Second)
		behind.Store(int64(time.Hour))
		time.Sleep(100 * ms)
		for range 3 {
			c := newClient()
			all.Go(func() {
				for ctx.Err() == nil {
					if l, err := c.Mutex("x").Lock(ctx); err == nil {
						time.Sleep(5 * ms)
						assert.NoError(t, l.Unlock(t.Context()))
					}
				}
			})
		}
		time.Sleep(time.Second)
		released := time.Now()
		require.NoError(t, first.Unlock(t.Context()))
		select {
		case at := <-turn:
			t.Log("its turn came after", at.Sub(released))
			assert.Less(t, at.Sub(released), 5*time.Second)
		case <-time.After(time.Minute):
			assert.Fail(t, "it is passed again and again")
		}
		stop()
		all.Wait()
	})
}

// A user loses a right that locks need and renewals do not, and then the connections break.
func TestLeaseIsRenewedAtNodesThatMayNotVoteAnyMore(t *testing.T) {
	testnet.InBubble(t, 3, func(t *testing.T, net *testnet.Net) {
		lease := net.Must(net.Guarded(redlock.WithTTL(5 * time.Second)).Mutex("x").Lock(t.Context()))
		for _, n := range net.Nodes {
			n.Refuse("NOPERM this user has no permissions to run the 'zadd' command", "look")
			n.Cut()
		}
		time.Sleep(12 * time.Second)
		require.True(t, lease.Valid())
	})
}
