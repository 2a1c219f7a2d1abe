package integration

import (
	"context"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/go-redsync/redsync/v4"
	redsyncredis "github.com/go-redsync/redsync/v4/redis"
	"github.com/go-redsync/redsync/v4/redis/redigo"
	"github.com/gomodule/redigo/redis"
	"github.com/redis/rueidis"
	"github.com/redis/rueidis/rueidislock"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/redlock-go/redlock"
	"github.com/redlock-go/redlock/integration/cluster"
	"github.com/redlock-go/redlock/internal/test/long"
)

// newRedsync makes the foreign client: redsync over redigo pools.
func newRedsync(t *testing.T, nodes cluster.Nodes) *redsync.Redsync {
	t.Helper()
	var pools []redsyncredis.Pool
	for _, n := range nodes {
		pool := &redis.Pool{
			MaxIdle: 8,
			Dial:    func() (redis.Conn, error) { return redis.Dial("tcp", n.Addr()) },
		}
		t.Cleanup(func() { _ = pool.Close() })
		pools = append(pools, redigo.NewPool(pool))
	}
	return redsync.New(pools...)
}

func TestEachClientSeesTheOthersHold(t *testing.T) {
	t.Parallel()
	nodes := cluster.Use(t, 5)
	ours := openClient(t, nodes.URLs(), redlock.WithPrefix("")).Mutex("shared")
	theirs := newRedsync(t, nodes).NewMutex("shared", redsync.WithExpiry(ttl), redsync.WithTries(1))

	t.Run("theirs by us", func(t *testing.T) {
		require.NoError(t, theirs.Lock())
		_, err := ours.TryLock(t.Context())
		require.ErrorIs(t, err, redlock.ErrHeld)
		var held *redlock.HeldError
		require.ErrorAs(t, err, &held)
		assert.Equal(t, "shared", held.Name)
		assert.Equal(t, theirs.Value(), held.Holder)
		assert.InDelta(t, ttl.Seconds(), held.Remaining.Seconds(), soon.Seconds())
		ok, err := theirs.Unlock()
		require.NoError(t, err)
		require.True(t, ok, "our attempt must have left their keys alone")
		assertNoKeys(t, nodes)
	})
	t.Run("ours by them", func(t *testing.T) {
		lease, err := ours.Lock(t.Context())
		require.NoError(t, err)
		var taken *redsync.ErrTaken
		require.ErrorAs(t, theirs.Lock(), &taken)
		assert.GreaterOrEqual(t, len(taken.Nodes), 3)
		standing := 0
		for _, n := range nodes { // at a minority their attempt may have come first
			if n.Get(t, "shared") == lease.Owner() {
				standing++
			}
		}
		assert.GreaterOrEqual(t, standing, 3)
		require.NoError(t, lease.Unlock(t.Context()), "their attempt must have left our keys alone")
		assertNoKeys(t, nodes)
	})
	t.Run("and gets the lock after it", func(t *testing.T) {
		require.NoError(t, theirs.Lock())
		time.AfterFunc(50*time.Millisecond, func() { _, _ = theirs.Unlock() })
		lease, err := ours.Lock(within(t, soon))
		require.NoError(t, err)
		time.AfterFunc(50*time.Millisecond, func() { _ = lease.Unlock(context.Background()) })
		patient := newRedsync(t, nodes).NewMutex("shared", redsync.WithExpiry(ttl),
			redsync.WithTries(100), redsync.WithRetryDelay(20*time.Millisecond))
		require.NoError(t, patient.Lock())
		_, err = patient.Unlock()
		require.NoError(t, err)
		assertNoKeys(t, nodes)
	})
}

// room is a resource that the lock protects: it notices two visitors at once.
type room struct {
	inside   atomic.Int32
	crowded  atomic.Int32
	counter  int // without a lock of its own
	ours     atomic.Int32
	theirs   atomic.Int32
	deadline time.Time // until then it stays open
}

// openRoom opens a room for as long as the kind of test run allows.
func openRoom() *room {
	length := 6 * time.Second
	if !long.Tests() {
		length = time.Second
	}
	return &room{deadline: time.Now().Add(length)}
}

// check checks, when all have left, what the visits of redlock and of another library came to.
func (r *room) check(t *testing.T, other string) {
	t.Helper()
	t.Logf("%d visits with redlock, %d with %s", r.ours.Load(), r.theirs.Load(), other)
	assert.Zero(t, r.crowded.Load(), "two visitors at the same time")
	assert.EqualValues(t, r.ours.Load()+r.theirs.Load(), r.counter, "visits were overwritten")
	assert.GreaterOrEqual(t, r.ours.Load(), int32(minTurns), "redlock must get its turns")
	assert.GreaterOrEqual(t, r.theirs.Load(), int32(minTurns), "%s must get its turns", other)
}

func (r *room) enter(visits *atomic.Int32) {
	if r.inside.Add(1) != 1 {
		r.crowded.Add(1)
	}
	counted := r.counter
	time.Sleep(500 * time.Microsecond)
	r.counter = counted + 1
	visits.Add(1)
	r.inside.Add(-1)
}

// minTurns is how often each kind of client must get into the room before it closes.
const minTurns = 30

// open reports whether clients are to come in: until the deadline, and for as long
// as a kind of client has had too few turns, but not for more than a minute after
// the deadline.
func (r *room) open() bool {
	left := time.Until(r.deadline)
	return left > 0 || left > -time.Minute && min(r.ours.Load(), r.theirs.Load()) < minTurns
}

func TestMutualExclusionHoldsBetweenTheTwoClientsUnderContention(t *testing.T) {
	t.Parallel()
	nodes := cluster.Use(t, 5)
	r := openRoom()
	var workers sync.WaitGroup
	for range 3 {
		workers.Go(func() { r.visitWithRedlock(t, openClient(t, nodes.URLs(), redlock.WithPrefix(""))) })
		workers.Go(func() { r.visitWithRedsync(t, newRedsync(t, nodes)) })
	}
	workers.Wait()
	r.check(t, "redsync")
	assertNoKeys(t, nodes)
}

func (r *room) visitWithRedlock(t *testing.T, client *redlock.Client) {
	for r.open() {
		lease, err := client.Mutex("room").Lock(within(t, 2*time.Minute))
		if !assert.NoError(t, err) {
			return
		}
		r.enter(&r.ours)
		assert.NoError(t, lease.Unlock(t.Context()))
		// While our clients hand off to each other, foreign clients find the lock held
		// (docs/protocol.md): they get it when none of ours waits.
		time.Sleep(10 * time.Millisecond)
	}
}

func (r *room) visitWithRedsync(t *testing.T, rs *redsync.Redsync) {
	for r.open() {
		mutex := rs.NewMutex("room", redsync.WithExpiry(ttl), redsync.WithTries(40_000),
			redsync.WithRetryDelayFunc(func(int) time.Duration { return 3 * time.Millisecond }))
		if !assert.NoError(t, mutex.Lock()) {
			return
		}
		r.enter(&r.theirs)
		ok, err := mutex.Unlock()
		assert.NoError(t, err)
		assert.True(t, ok)
		time.Sleep(time.Millisecond)
	}
}

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
