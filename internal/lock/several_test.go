package lock_test

import (
	"context"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/redlock-go/redlock"
	"github.com/redlock-go/redlock/internal/test/testnet"
)

func TestMultiHoldsAllNamesOrNone(t *testing.T) {
	testnet.InBubble(t, 3, func(t *testing.T, net *testnet.Net) {
		c, other := net.Client(), net.Client()
		before, err := other.Mutex("b").Lock(t.Context())
		require.NoError(t, err)
		_, err = c.Multi([]string{"b", "a"}).TryLock(t.Context())
		var held *redlock.HeldError
		require.ErrorAs(t, err, &held)
		require.Equal(t, before.Owner(), held.Holder)
		require.Equal(t, "a, b", held.Name)
		free, err := other.Mutex("a").TryLock(t.Context())
		require.NoError(t, err, "nothing of the refused attempt is held")
		require.NoError(t, free.Unlock(t.Context()))
		require.NoError(t, before.Unlock(t.Context()))

		set, err := c.Multi([]string{"b", "a"}).TryLock(t.Context())
		require.NoError(t, err)
		require.Equal(t, []string{"a", "b"}, set.Names())
		require.Equal(t, "a, b", set.Name())
		require.Greater(t, set.Token(), max(before.Token(), free.Token()))
		require.False(t, set.Shared())
		for _, name := range set.Names() {
			_, err = other.Mutex(name).TryLock(t.Context())
			require.ErrorAs(t, err, &held)
			require.Equal(t, set.Owner(), held.Holder)
			_, err = other.RWMutex(name).TryRLock(t.Context())
			require.ErrorIs(t, err, redlock.ErrHeld)
			_, err = other.Multi([]string{"c", name}).TryLock(t.Context())
			require.ErrorIs(t, err, redlock.ErrHeld)
		}
		require.NoError(t, set.Extend(t.Context()))
		require.NoError(t, set.Unlock(t.Context()))
		for _, name := range set.Names() {
			after, err := other.Mutex(name).TryLock(t.Context())
			require.NoError(t, err)
			require.Greater(t, after.Token(), set.Token())
			require.NoError(t, after.Unlock(t.Context()))
		}
		net.RequireNoKeys()
	})
}

// Eight clients ask for {a, b}, {b, a} or {a}, again and again. Lists of names in different orders make
// no deadlock, and nobody is passed by: each client has its share of the turns.
func TestCallersWithOverlappingNamesHaveEqualTurns(t *testing.T) {
	testnet.SlowWithRace(t)
	const turns = 2000
	testnet.InBubble(t, 3, func(t *testing.T, net *testnet.Net) {
		net.Delay(ms)
		asked := [][]string{{"a", "b"}, {"b", "a"}, {"a"}}
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		var all sync.WaitGroup
		var mu sync.Mutex // protects what follows
		done, held, served := 0, map[string]int{}, make([]int, 8)
		enter := func(names []string, by int) {
			mu.Lock()
			defer mu.Unlock()
			for _, name := range names {
				held[name] += by
				assert.LessOrEqual(t, held[name], 1, "%s has two holders", name)
			}
		}
		for i := range served {
			c := net.Client()
			m := c.Multi(asked[i%3])
			if len(asked[i%3]) == 1 {
				m = c.Mutex(asked[i%3][0])
			}
			all.Go(func() {
				for {
					lease, err := m.Lock(ctx)
					if err != nil {
						return
					}
					enter(lease.Names(), 1)
					time.Sleep(3 * ms)
					enter(lease.Names(), -1)
					assert.NoError(t, lease.Unlock(t.Context()))
					mu.Lock()
					served[i]++
					if done++; done == turns {
						cancel()
					}
					mu.Unlock()
				}
			})
		}
		began := time.Now()
		all.Wait()
		t.Logf("%v turns of each client in %v", served, time.Since(began))
		for i, n := range served {
			share := float64(n) * float64(len(served)) / float64(turns)
			assert.True(t, 0.8 <= share && share <= 1.25, "client %d has %.2f of its share", i, share)
		}
		assert.Less(t, time.Since(began), time.Duration(turns)*15*ms, "a turn takes 3 ms, and a hand-off some trips of 2 ms")
	})
}
