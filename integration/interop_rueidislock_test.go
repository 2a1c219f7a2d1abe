package integration

import (
	"context"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/redis/rueidis"
	"github.com/redis/rueidis/rueidislock"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/redlock-go/redlock"
	"github.com/redlock-go/redlock/integration/cluster"
)

// newRueidislock makes the foreign client: a locker over one server.
func newRueidislock(t *testing.T, node cluster.Nodes, majority int32) rueidislock.Locker {
	t.Helper()
	locker, err := rueidislock.NewLocker(rueidislock.LockerOption{
		ClientOption: rueidis.ClientOption{InitAddress: []string{node[0].Addr()}},
		KeyValidity:  ttl,
		TryNextAfter: soon, // a busy machine answers late
		KeyMajority:  majority,
	})
	require.NoError(t, err)
	t.Cleanup(locker.Close)
	return locker
}

// lockLike returns the lock that has the keys of a rueidislock lock, as docs/migrating.md says.
func lockLike(t *testing.T, node cluster.Nodes, majority int32, name string) *redlock.Mutex {
	if majority == 1 {
		return openClient(t, node.URLs(), redlock.WithPrefix("rueidislock:0:")).Mutex(name)
	}
	var names []string
	for i := range 2*majority - 1 {
		names = append(names, fmt.Sprintf("%d:%s", i, name))
	}
	return openClient(t, node.URLs(), redlock.WithPrefix("rueidislock:")).Multi(names)
}

func TestRueidislockAndThisLibrarySeeEachOthersHolds(t *testing.T) {
	t.Parallel()
	for _, majority := range []int32{1, 2} {
		t.Run(fmt.Sprint("KeyMajority ", majority), func(t *testing.T) {
			node := cluster.Use(t, 1)
			theirs, ours := newRueidislock(t, node, majority), lockLike(t, node, majority, "shared")

			_, cancel, err := theirs.TryWithContext(t.Context(), "shared")
			require.NoError(t, err)
			if majority > 1 { // they hold the lock without their first key as well
				require.True(t, eventually(soon, func() bool { return node[0].Get(t, "rueidislock:2:shared") != "" }), "all three")
				node[0].Do(t, "DEL", "rueidislock:0:shared")
			}
			_, err = ours.TryLock(t.Context())
			require.ErrorIs(t, err, redlock.ErrHeld)
			cancel() // returns when the server has released
			assertNoKeys(t, node)

			lease, err := ours.Lock(within(t, soon))
			require.NoError(t, err)
			_, _, err = theirs.TryWithContext(t.Context(), "shared")
			require.ErrorIs(t, err, rueidislock.ErrNotLocked)
			require.NoError(t, lease.Extend(t.Context()), "their attempt must have left our keys alone")
			require.NoError(t, lease.Unlock(t.Context()))
			assertNoKeys(t, node)
		})
	}
}

func TestRueidislockAndThisLibraryTakeLocksFromEachOther(t *testing.T) {
	t.Parallel()
	node := cluster.Use(t, 1)
	theirs := newRueidislock(t, node, 1)
	client := openClient(t, node.URLs(), redlock.WithPrefix("rueidislock:0:"), shortTimeout()) // ForceUnlock waits for one

	lease, err := client.Mutex("shared").Lock(within(t, soon))
	require.NoError(t, err)
	held, cancel, err := theirs.ForceWithContext(t.Context(), "shared")
	require.NoError(t, err)
	defer cancel()
	require.NoError(t, lease.Err(), "a renewal notices it")
	require.ErrorIs(t, lease.Extend(t.Context()), redlock.ErrLost)

	_, err = client.ForceUnlock(t.Context(), "shared")
	require.NoError(t, err)
	require.True(t, eventually(soon, func() bool { return held.Err() != nil }), "client tracking ends their context")
}

func TestRueidislockAndThisLibraryExcludeEachOtherUnderContention(t *testing.T) {
	t.Parallel()
	node := cluster.Use(t, 1)
	r := openRoom()
	var workers sync.WaitGroup
	for range 3 {
		client := openClient(t, node.URLs(), redlock.WithPrefix("rueidislock:0:"),
			redlock.WithBackoff(func(int) time.Duration { return 3 * time.Millisecond }))
		workers.Go(func() { r.visitWithRedlock(t, client) })
		locker := newRueidislock(t, node, 1)
		workers.Go(func() { r.visitWithRueidislock(t, locker) })
	}
	workers.Wait()
	r.check(t, "rueidislock")
	assertNoKeys(t, node)
}

func (r *room) visitWithRueidislock(t *testing.T, locker rueidislock.Locker) {
	for r.open() {
		// WithContext hangs now and then on names that nobody holds.
		_, cancel, err := locker.TryWithContext(context.Background(), "room")
		if err == nil {
			r.enter(&r.theirs)
			cancel()
		} else if !assert.ErrorIs(t, err, rueidislock.ErrNotLocked) {
			return
		}
		time.Sleep(3 * time.Millisecond)
	}
}
