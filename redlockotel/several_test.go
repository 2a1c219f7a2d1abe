package redlockotel_test

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/redlock-go/redlock"
)

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
