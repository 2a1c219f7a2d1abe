package lock_test

import (
	"context"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/redlock-go/redlock"
	"github.com/redlock-go/redlock/internal/test/testnet"
)

// Another program may set a lock's key to a value of any length.

const huge = 20 << 20

// setHuge sets a key to a long value at all nodes.
func setHuge(t *testing.T, net *testnet.Net, key string) {
	value := strings.Repeat("another program's ", huge/18)
	for _, n := range net.Nodes {
		require.NoError(t, n.Redis.Set(key, value))
	}
}

func TestErrorsCutALongValue(t *testing.T) {
	testnet.InBubble(t, 3, func(t *testing.T, net *testnet.Net) {
		c := net.Client(redlock.WithTTL(time.Second))
		unfenced := net.Client(redlock.WithoutFencing())
		lease, err := c.Mutex("lost").Lock(t.Context())
		require.NoError(t, err)
		set, err := c.Multi([]string{"lost1", "lost2"}).Lock(t.Context())
		require.NoError(t, err)
		setHuge(t, net, "redlock:x")
		setHuge(t, net, "redlock:lost")
		setHuge(t, net, "redlock:lost2")
		waiting := func(lock func(context.Context) (*redlock.Lease, error)) error {
			ctx, cancel := context.WithTimeout(t.Context(), 100*ms)
			defer cancel()
			_, err := lock(ctx)
			return err
		}
		try := func(lock func(context.Context) (*redlock.Lease, error)) error {
			_, err := lock(t.Context())
			return err
		}
		for name, err := range map[string]error{
			"TryLock":          try(c.Mutex("x").TryLock),
			"Lock":             waiting(c.Mutex("x").Lock),
			"TryLock unfenced": try(unfenced.Mutex("x").TryLock),
			"TryRLock":         try(c.RWMutex("x").TryRLock),
			"RLock":            waiting(c.RWMutex("x").RLock),
			"Multi.TryLock":    try(c.Multi([]string{"a", "x"}).TryLock),
			"Multi.Lock":       waiting(c.Multi([]string{"a", "x"}).Lock),
			"Extend":           lease.Extend(t.Context()),
			"Extend of a set":  set.Extend(t.Context()),
		} {
			if assert.Error(t, err, name) {
				assert.Less(t, len(err.Error()), 3000, name)
				assert.Contains(t, err.Error(), "another program's ", name)
			}
		}
		_, err = c.Mutex("x").TryLock(t.Context())
		var held *redlock.HeldError
		require.ErrorAs(t, err, &held)
		require.LessOrEqual(t, len(held.Holder), 512)
		require.Less(t, len(err.Error()), 400)
	})
}

func TestLongValueIsShownAndForced(t *testing.T) {
	testnet.InBubble(t, 3, func(t *testing.T, net *testnet.Net) {
		c := net.Client()
		setHuge(t, net, "redlock:x")
		setHuge(t, net, "redlock:jobs#1")
		s, err := c.Inspect(t.Context(), "x")
		require.NoError(t, err)
		require.Len(t, s.Holder, 512)
		s, err = c.Inspect(t.Context(), "jobs")
		require.NoError(t, err)
		require.Len(t, s.Permits, 1)
		require.Len(t, s.Permits[0].Owner, 512)
		for _, name := range []string{"x", "jobs#1"} {
			s, err = c.ForceUnlock(t.Context(), name)
			require.NoError(t, err)
			require.Len(t, s.Holder, 512)
			require.Negative(t, s.Remaining, "it never expires")
		}
		synctest.Wait()
		net.RequireNoKeys()
		s, err = c.ForceUnlock(t.Context(), "x")
		require.NoError(t, err, "there is no holder")
		require.Empty(t, s.Holder)
		held, err := c.Semaphore("jobs", 2).TryAcquire(t.Context(), 2)
		require.NoError(t, err)
		require.NoError(t, held.Unlock(t.Context()))
	})
}
