package lock_test

import (
	"crypto/fips140"
	"runtime"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/redlock-go/redlock"
	"github.com/redlock-go/redlock/internal/system"
	"github.com/redlock-go/redlock/internal/test/testhook"
	"github.com/redlock-go/redlock/internal/test/testnet"
)

// Nodes that answer at once: the counts are the library's own, with the encoding of commands and the decoding of
// replies, and exact. Another library's connections allocate more.
func TestAllocationsOfALockAndAnUnlock(t *testing.T) {
	if testnet.RaceDetector {
		t.Skip("the race detector allocates")
	}
	if fips140.Enabled() {
		t.Skip("the tests' own randomness allocates")
	}
	c := instantClient(t)
	pair := func(m *redlock.Mutex) {
		lease, err := m.Lock(t.Context())
		require.NoError(t, err)
		require.NoError(t, lease.Unlock(t.Context()))
	}
	made := c.Mutex("x")
	before := testing.AllocsPerRun(1000, func() { pair(made) })
	byName := testing.AllocsPerRun(1000, func() { pair(c.Mutex("x")) })
	t.Logf("%v allocations with a Mutex made before, %v by name", before, byName)
	require.LessOrEqual(t, before, 5.0)
	require.LessOrEqual(t, byName, 10.0)
	bytes, byNameBytes := bytesPerRun(1000, func() { pair(made) }), bytesPerRun(1000, func() { pair(c.Mutex("x")) })
	t.Logf("%d bytes with a Mutex made before, %d by name", bytes, byNameBytes)
	require.LessOrEqual(t, bytes, 1000) // 4 300 if the attempt and the release are not used again
	require.LessOrEqual(t, byNameBytes, 1500)
}

// bytesPerRun returns how many bytes f allocates, on average.
func bytesPerRun(runs int, f func()) int {
	defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(1))
	var before, after runtime.MemStats
	f()
	runtime.ReadMemStats(&before)
	for range runs {
		f()
	}
	runtime.ReadMemStats(&after)
	return int(after.TotalAlloc-before.TotalAlloc) / runs
}

// Each reading of the clock is a system call of some 0.3 µs.
func TestALockItsRenewalAndItsReleaseReadTheClockFewTimes(t *testing.T) {
	var readings atomic.Int64
	c := instantClient(t, testhook.WithClock(func() time.Duration {
		readings.Add(1)
		return system.Now()
	}).(redlock.ClientOption))
	m := c.Mutex("x")
	const runs = 1000
	each := func(f func()) float64 {
		before := readings.Load()
		for range runs {
			f()
		}
		return float64(readings.Load()-before) / runs
	}
	pair := each(func() { lockAndUnlock(t, m) })
	lease, err := m.Lock(t.Context())
	require.NoError(t, err)
	renewal := each(func() { require.NoError(t, lease.Extend(t.Context())) })
	t.Logf("%.2f readings for a pair, %.2f for a renewal", pair, renewal)
	require.Less(t, pair, 5.0)
	require.Less(t, renewal, 5.0) // 6 if each late answer reads it
}
