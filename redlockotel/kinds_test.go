package redlockotel_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/redlock-go/redlock"
)

func TestSpansOfALeaseOfPermitsHaveItsSlots(t *testing.T) {
	b := start(t, asItIs)
	s := b.client.Semaphore("x", 3)
	lease, err := s.Acquire(t.Context(), 2)
	require.NoError(t, err)
	_, err = s.TryAcquire(t.Context(), 2)
	require.ErrorIs(t, err, redlock.ErrHeld)
	require.NoError(t, lease.Extend(t.Context()))
	require.NoError(t, lease.Unlock(t.Context()))
	other, err := b.client.Mutex("x").Lock(t.Context())
	require.NoError(t, err)
	require.NoError(t, other.Unlock(t.Context()))
	require.NoError(t, b.client.Close())

	var slots []string
	for _, slot := range lease.Slots() {
		slots = append(slots, fmt.Sprint(slot))
	}
	want := "[" + strings.Join(slots, ",") + "]"
	for _, op := range []string{"acquire", "extend", "unlock"} {
		has := attributes(b.spans(t, "redlock "+op)[0].Attributes)
		require.Equal(t, want, has["redlock.lease.slots"], op)
		require.Equal(t, "x", has["redlock.lock.name"])
	}
	require.NotContains(t, attributes(b.spans(t, "redlock tryacquire")[0].Attributes), "redlock.lease.slots", "it got no lease")
	require.NotContains(t, attributes(b.spans(t, "redlock lock")[0].Attributes), "redlock.lease.slots", "it is a mutex")
	for _, op := range []string{"acquire", "tryacquire"} {
		n, _ := observations(b.metric(t, "redlock.operation.duration"), "redlock.lock.name", "x", "redlock.operation.name", op)
		require.Equal(t, uint64(1), n, op)
	}
	n, _ := observations(b.metric(t, "redlock.lease.duration"), "redlock.lock.name", "x", "redlock.outcome", "released")
	require.Equal(t, uint64(2), n)
}

func TestReadersHaveSpansAndMetricsOfTheirOwn(t *testing.T) {
	b := start(t)
	m := b.client.RWMutex("x")
	writer, err := m.Lock(t.Context())
	require.NoError(t, err)
	require.NoError(t, writer.Downgrade(t.Context()))
	reader, err := m.RLock(t.Context())
	require.NoError(t, err)
	_, err = m.TryLock(t.Context())
	require.ErrorIs(t, err, redlock.ErrHeld)
	second, err := m.TryRLock(t.Context())
	require.NoError(t, err)
	for _, lease := range []*redlock.Lease{writer, reader, second} {
		require.NoError(t, lease.Unlock(t.Context()))
	}
	alone, err := m.Lock(t.Context())
	require.NoError(t, err)
	require.NoError(t, alone.Unlock(t.Context()))
	require.NoError(t, b.client.Close())

	for op, shared := range map[string]string{"lock": "false", "downgrade": "true", "rlock": "true", "tryrlock": "true"} {
		spans := b.spans(t, "redlock "+op)
		require.NotEmpty(t, spans, op)
		has := attributes(spans[0].Attributes)
		require.Equal(t, op, has["redlock.operation.name"])
		require.Equal(t, shared, has["redlock.lease.shared"], op)
		n, _ := observations(b.metric(t, "redlock.operation.duration"), "redlock.operation.name", op)
		require.Equal(t, uint64(len(spans)), n)
	}
	require.NotContains(t, attributes(b.spans(t, "redlock trylock")[0].Attributes), "redlock.lease.shared", "it got no lease")
	unlocks := b.spans(t, "redlock unlock")
	require.Equal(t, "true", attributes(unlocks[0].Attributes)["redlock.lease.shared"], "it was downgraded")
	require.Equal(t, "false", attributes(unlocks[3].Attributes)["redlock.lease.shared"])
	for shared, want := range map[string]uint64{"true": 3, "false": 1} {
		n, _ := observations(b.metric(t, "redlock.lease.duration"), "redlock.outcome", "released", "redlock.lease.shared", shared)
		require.Equal(t, want, n)
	}
}

func TestLockOfSeveralNamesHasThemInOneAttribute(t *testing.T) {
	b := start(t, asItIs)
	set := b.client.Multi([]string{"b", "a"})
	held, err := b.client.Mutex("b").Lock(t.Context())
	require.NoError(t, err)
	_, err = set.TryLock(t.Context())
	require.ErrorIs(t, err, redlock.ErrHeld)
	time.AfterFunc(50*time.Millisecond, func() { _ = held.Unlock(t.Context()) })
	lease, err := set.Lock(t.Context())
	require.NoError(t, err)
	require.Equal(t, "a, b", lease.Name())
	require.NoError(t, lease.Extend(t.Context()))
	require.NoError(t, lease.Unlock(t.Context()))
	require.NoError(t, b.client.Close())

	ofSet := map[string]int{} // spans
	for _, span := range []string{"lock", "trylock", "wait", "extend", "unlock", "ballot"} {
		for _, s := range b.spans(t, "redlock "+span) {
			switch attributes(s.Attributes)["redlock.lock.name"] {
			case "a, b":
				ofSet[span]++
			case "b":
			default:
				require.Fail(t, "another name", "%s: %v", span, s.Attributes)
			}
		}
	}
	require.GreaterOrEqual(t, ofSet["ballot"], 4)
	delete(ofSet, "ballot")
	require.Equal(t, map[string]int{"lock": 1, "trylock": 1, "wait": 1, "extend": 1, "unlock": 1}, ofSet)
	n, _ := observations(b.metric(t, "redlock.lease.duration"), "redlock.lock.name", "a, b", "redlock.lease.shared", "false")
	require.Equal(t, uint64(1), n)
	n, _ = observations(b.metric(t, "redlock.operation.duration"), "redlock.lock.name", "a, b", "redlock.operation.name", "lock")
	require.Equal(t, uint64(1), n)
}

func TestSeveralNamesAreOneNameInSpans(t *testing.T) {
	b := start(t)
	lease, err := b.client.Multi([]string{"y", "x"}).Lock(t.Context())
	require.NoError(t, err)
	require.NoError(t, lease.Unlock(t.Context()))
	require.NoError(t, b.client.Close())
	require.Equal(t, "x, y", attributes(b.spans(t, "redlock lock")[0].Attributes)["redlock.lock.name"])
}

func TestAskIsAnOperation(t *testing.T) {
	b := start(t)
	lease, err := b.client.Mutex("x", redlock.WithWanted()).Lock(t.Context())
	require.NoError(t, err)
	require.NoError(t, b.client.Ask(t.Context(), "x"))
	<-lease.Wanted()
	require.NoError(t, lease.Unlock(t.Context()))
	require.NoError(t, b.client.Close())
	require.Len(t, b.spans(t, "redlock ask"), 1)
	n, _ := observations(b.metric(t, "redlock.operation.duration"), "redlock.operation.name", "ask")
	require.Equal(t, uint64(1), n)
}
