package redlockotel_test

import (
	"fmt"
	"strings"
	"testing"

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
