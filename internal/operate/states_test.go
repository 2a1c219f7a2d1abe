package operate_test

import (
	"maps"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/redlock-go/redlock"
	"github.com/redlock-go/redlock/internal/test/testnet"
)

// states are what can stand at the nodes for a lock. begin brings a lock of this name into the state, and check
// checks what the list shows of it.
var states = map[string]struct {
	begin func(s *stage, name string)
	check func(s *stage, l redlock.Status)
}{
	"free and waited for": {(*stage).waitForFree, func(s *stage, l redlock.Status) {
		require.Empty(s.t, l.Holder)
		require.Empty(s.t, l.Reserved)
		require.Equal(s.t, []string{"waiter"}, labels(l))
	}},
	"reserved": {(*stage).waitAndDie, func(s *stage, l redlock.Status) {
		require.Empty(s.t, l.Holder)
		require.Contains(s.t, l.Reserved, "-")
		require.Equal(s.t, l.Reserved, l.Nodes[0].Reserved)
		require.Empty(s.t, l.Queue, "a reservation takes the ticket out of the queue")
	}},
	"exclusive": {(*stage).lock, func(s *stage, l redlock.Status) { require.Equal(s.t, "holder", l.Label) }},
	"readers": {(*stage).read, func(s *stage, l redlock.Status) {
		require.Empty(s.t, l.Holder)
		require.Len(s.t, l.Readers, 2)
		require.Positive(s.t, l.Readers[0].Remaining)
	}},
	"permits": {(*stage).acquire, func(s *stage, l redlock.Status) { s.t.Error("a semaphore for which nobody waits shows by its slots") }},
	"semaphore with waiters": {(*stage).waitForPermits, func(s *stage, l redlock.Status) {
		require.Len(s.t, l.Permits, 3)
		require.Equal(s.t, "holder", l.Permits[0].Label)
		require.Equal(s.t, []string{"waiter"}, labels(l))
		require.Equal(s.t, 2, l.Queue[0].Permits)
		require.Equal(s.t, 3, l.Queue[0].Limit)
	}},
	"set": {(*stage).lockSet, func(s *stage, l redlock.Status) {
		require.Equal(s.t, "holder", l.Label)
		require.Equal(s.t, []string{"waiter"}, labels(l), "who waits for several names waits for each")
	}},
	"resting": {(*stage).rest, func(s *stage, l redlock.Status) {
		require.True(s.t, l.Resting)
		require.Equal(s.t, "holder", l.Label)
	}},
	"delayed": {(*stage).delay, func(s *stage, l redlock.Status) {
		require.Equal(s.t, "holder", l.Label, "its lease has ended, and its lock delay has not")
		require.Positive(s.t, l.Remaining)
	}},
	"no ttl": {(*stage).endless, func(s *stage, l redlock.Status) {
		require.Equal(s.t, "owner", l.Holder)
		require.Negative(s.t, l.Remaining)
	}},
	"split": {(*stage).split, func(s *stage, l redlock.Status) {
		require.Empty(s.t, l.Holder)
		require.Zero(s.t, l.Remaining)
		require.Equal(s.t, "one", l.Nodes[0].Holder)
		require.Equal(s.t, "two", l.Nodes[2].Holder)
	}},
}

// slotsOfPermits are the names under which the permits of the states "permits" and "semaphore with waiters" show.
var slotsOfPermits = []string{"permits#0", "permits#1", "permits#2", "semaphore with waiters#0", "semaphore with waiters#1", "semaphore with waiters#2"}

func TestLocksShowsEachStateOfALock(t *testing.T) {
	testnet.InBubble(t, 5, func(t *testing.T, net *testnet.Net) {
		s := newStage(t, net)
		defer s.end()
		listed, err := s.list()
		require.NoError(t, err)
		for name, state := range states {
			if name == "permits" {
				continue
			}
			require.Contains(t, slices.Collect(maps.Keys(listed)), name)
			require.False(t, listed[name].Incomplete, name)
			state.check(s, listed[name])
			delete(listed, name)
		}
		for _, name := range slotsOfPermits {
			require.Equal(t, "holder", listed[name].Label, name)
			delete(listed, name)
		}
		require.Equal(t, "holder", listed["set too"].Label)
		delete(listed, "set too")
		require.Empty(t, listed)
	})
}

// The masters that answer are too few to say who holds a lock. Each lock shows nevertheless, with what they say.
func TestLocksShowsWhatAMinoritySaysAndThenFails(t *testing.T) {
	testnet.InBubble(t, 5, func(t *testing.T, net *testnet.Net) {
		s := newStage(t, net)
		defer s.end()
		for _, i := range []int{1, 3, 4} {
			net.Nodes[i].Down()
		}
		time.Sleep(10 * ms)
		listed, err := s.list()
		var q *redlock.QuorumError
		require.ErrorAs(t, err, &q)
		require.Equal(t, "list", q.Op)
		require.Equal(t, "*", q.Name)
		for name := range states {
			if name != "permits" {
				require.Contains(t, slices.Collect(maps.Keys(listed)), name)
			}
		}
		require.Len(t, listed, len(states)-1+len(slotsOfPermits)+1)
		for name, l := range listed {
			require.True(t, l.Incomplete, name)
			require.Empty(t, l.Holder, "two of five do not say who holds a lock")
			require.Empty(t, l.Reserved)
			require.Error(t, l.Nodes[1].Err)
		}
		require.Contains(t, listed["exclusive"].Nodes[0].Holder, "@holder")
		require.Len(t, listed["readers"].Nodes[2].Readers, 2)
		require.Len(t, listed["semaphore with waiters"].Nodes[2].Permits, 3)
		require.NotEmpty(t, listed["reserved"].Nodes[2].Reserved)
		require.Equal(t, []string{"waiter"}, labels(listed["free and waited for"]))

		inspected, err := s.holder.Inspect(t.Context(), "exclusive")
		require.ErrorIs(t, err, redlock.ErrNoQuorum)
		require.True(t, inspected.Incomplete)
	})
}

// A loop that ends early gets no error after it.
func TestLocksEndsWithALoopThatSawAnIncompleteStatus(t *testing.T) {
	testnet.InBubble(t, 4, func(t *testing.T, net *testnet.Net) {
		c := net.Client()
		put(t, net, "redlock:x", "owner", 0, 1)
		require.NoError(t, c.Ping(t.Context()))
		net.Nodes[2].Down()
		net.Nodes[3].Down()
		time.Sleep(10 * ms)
		seen := 0
		for s, err := range c.Locks(t.Context(), "*") {
			require.NoError(t, err)
			require.True(t, s.Incomplete)
			seen++
			break
		}
		require.Equal(t, 1, seen)
		names, err := list(t.Context(), c, "*")
		require.Equal(t, []string{"x"}, names)
		require.ErrorIs(t, err, redlock.ErrNoQuorum, "two of four masters list all names, and say too little of each")
	})
}

// A Mutex and a Semaphore of one name are two locks, and each shows.
func TestLocksShowsAMutexAndASemaphoreOfOneName(t *testing.T) {
	testnet.InBubble(t, 3, func(t *testing.T, net *testnet.Net) {
		s := &stage{t: t, holder: net.Client(redlock.WithOwnerLabel("holder")), waiter: net.Client(redlock.WithOwnerLabel("waiter"))}
		defer s.end()
		s.waitForPermits("x")
		s.lock("x")
		time.Sleep(100 * ms)
		var mutex, semaphore int
		for l, err := range s.holder.Locks(t.Context(), "x") {
			require.NoError(t, err)
			if l.Holder == "" {
				semaphore++
				require.Len(t, l.Permits, 3)
				require.Len(t, l.Queue, 1)
				continue
			}
			mutex++
			require.Empty(t, l.Permits)
			require.Empty(t, l.Queue)
		}
		require.Equal(t, 1, mutex)
		require.Equal(t, 1, semaphore)
	})
}

// Waiters of a semaphore show to a user that may look at mutexes alone as if they were not there.
func TestLocksPassesOverSemaphoresThatItMayNotLookAt(t *testing.T) {
	testnet.InBubble(t, 3, func(t *testing.T, net *testnet.Net) {
		s := &stage{t: t, holder: net.Client(), waiter: net.Client()}
		defer s.end()
		s.waitForPermits("jobs")
		time.Sleep(100 * ms)
		requireListed(t, s.holder, "*", "jobs", "jobs#0", "jobs#1", "jobs#2")
		net.Nodes.Refuse("NOPERM User mutexes has no permissions to access one of the keys used as arguments", "inspectslots")
		requireListed(t, s.holder, "*", "jobs#0", "jobs#1", "jobs#2")
	})
}

// stage brings locks into states.
type stage struct {
	t              *testing.T
	net            *testnet.Net
	holder, waiter *redlock.Client
	leases         []*redlock.Lease
	awaited        *redlock.Lease
	gone           []*testnet.Cuttable // the pools of a client that was cut off
}

// newStage makes a lock in each state.
func newStage(t *testing.T, net *testnet.Net) *stage {
	s := &stage{t: t, net: net, holder: net.Client(redlock.WithOwnerLabel("holder")), waiter: net.Client(redlock.WithOwnerLabel("waiter"))}
	s.delay("delayed") // it takes as long as a lease
	for name, state := range states {
		if name != "delayed" {
			state.begin(s, name)
		}
	}
	time.Sleep(300 * ms) // no attempt of a waiter is parked any more, and none asks again yet
	s.free("free and waited for")
	require.NoError(t, s.awaited.Unlock(t.Context())) // its lock is reserved for half a second
	synctest.Wait()
	return s
}

func (s *stage) list() (map[string]redlock.Status, error) {
	listed := make(map[string]redlock.Status)
	for l, err := range s.holder.Locks(s.t.Context(), "*") {
		if err != nil {
			return listed, err
		}
		require.NotContains(s.t, listed, l.Name)
		listed[l.Name] = l
	}
	return listed, nil
}

// labels returns those of the waiters that stand in the queue at a node or more.
func labels(s redlock.Status) (all []string) {
	for _, w := range s.Queue {
		all = append(all, w.Label)
	}
	return all
}

// keep keeps a lease until the stage ends: one that is dropped is released.
func (s *stage) keep(l *redlock.Lease, err error) *redlock.Lease {
	require.NoError(s.t, err)
	s.leases = append(s.leases, l)
	return l
}

// end lets the test end. The leases are kept until then.
func (s *stage) end() { testnet.Hold(s.gone, false) }

func (s *stage) lock(name string) {
	s.keep(s.holder.Mutex(name).Lock(s.t.Context()))
}

func (s *stage) waitForFree(name string) {
	s.lock(name)
	go func() { _, _ = s.waiter.Mutex(name).Lock(s.t.Context()) }()
}

// free ends the holder's lease as a long pause of its process does: nobody is woken.
func (s *stage) free(name string) {
	for _, n := range s.net.Nodes {
		n.Redis.Del("redlock:" + name)
	}
}

// waitAndDie has a waiter wait for the lease awaited, and die.
func (s *stage) waitAndDie(name string) {
	var gone *redlock.Client
	gone, s.gone = s.net.CuttableClient()
	s.awaited = s.keep(s.holder.Mutex(name).Lock(s.t.Context()))
	go func() { _, _ = gone.Mutex(name).Lock(s.t.Context()) }()
	time.Sleep(100 * ms)
	testnet.Hold(s.gone, true)
}

func (s *stage) read(name string) {
	for range 2 {
		s.keep(s.holder.RWMutex(name).RLock(s.t.Context()))
	}
}

func (s *stage) acquire(name string) {
	s.keep(s.holder.Semaphore(name, 3).Acquire(s.t.Context(), 3))
}

func (s *stage) waitForPermits(name string) {
	s.acquire(name)
	go func() { _, _ = s.waiter.Semaphore(name, 3).Acquire(s.t.Context(), 2) }()
}

func (s *stage) lockSet(name string) {
	names := []string{name, name + " too"}
	s.keep(s.holder.Multi(names).Lock(s.t.Context()))
	go func() { _, _ = s.waiter.Multi(names).Lock(s.t.Context()) }()
}

func (s *stage) rest(name string) {
	l := s.keep(s.holder.Mutex(name, redlock.WithTTL(time.Minute), redlock.WithMinHold(time.Minute)).Lock(s.t.Context()))
	require.NoError(s.t, l.Unlock(s.t.Context()))
}

func (s *stage) delay(name string) {
	l := s.keep(s.holder.Mutex(name, redlock.WithLockDelay(time.Minute)).Lock(s.t.Context()))
	s.net.Die(s.holder, l)
	time.Sleep(l.Remaining() + ms)
	require.False(s.t, l.Valid())
}

func (s *stage) endless(name string) {
	for _, n := range s.net.Nodes {
		require.NoError(s.t, n.Redis.Set("redlock:"+name, "owner"))
	}
}

func (s *stage) split(name string) {
	put(s.t, s.net, "redlock:"+name, "one", 0, 1)
	put(s.t, s.net, "redlock:"+name, "two", 2, 3)
}
