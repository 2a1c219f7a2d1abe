package overview_test

import (
	"context"
	"fmt"
	"iter"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/redlock-go/redlock"
	"github.com/redlock-go/redlock/internal/overview"
	"github.com/redlock-go/redlock/internal/protocol"
)

// fake is a source of locks that a test sets. Each question takes its time.
type fake struct {
	perLock time.Duration // of a listing
	perLook time.Duration

	mu       sync.Mutex // protects what follows
	locks    []redlock.Status
	since    time.Time // they are as they were then; zero: their holders renew them all the time
	listings int       // begun
	under    int       // way
	busiest  int       // listings at a time
	listed   time.Duration
	looks    map[string]int
	pings    int
	asking   int // questions about names under way
	most     int
}

func (f *fake) Locks(ctx context.Context, _ string) iter.Seq2[redlock.Status, error] {
	return func(yield func(redlock.Status, error) bool) {
		begun := time.Now()
		f.mu.Lock()
		f.listings++
		f.under++
		f.busiest = max(f.busiest, f.under)
		locks, since := f.locks, f.since
		f.mu.Unlock()
		defer func() {
			f.mu.Lock()
			defer f.mu.Unlock()
			f.under--
			f.listed += time.Since(begun)
		}()
		for _, s := range locks {
			time.Sleep(f.perLock)
			if ctx.Err() != nil {
				yield(redlock.Status{}, ctx.Err())
				return
			}
			if !yield(aged(s, since), nil) {
				return
			}
		}
	}
}

func (f *fake) Inspect(_ context.Context, name string) (redlock.Status, error) {
	f.mu.Lock()
	f.looks[name]++
	f.asking++
	f.most = max(f.most, f.asking)
	f.mu.Unlock()
	time.Sleep(f.perLook)
	f.mu.Lock()
	defer f.mu.Unlock()
	f.asking--
	for _, s := range f.locks {
		if s.Name == name {
			return aged(s, f.since), nil
		}
	}
	return redlock.Status{Name: name, Nodes: make([]redlock.NodeStatus, 3)}, nil
}

func (f *fake) Ping(context.Context) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.pings++
	return nil
}

func (f *fake) Stats() redlock.Stats {
	var s redlock.Stats
	for i := range 3 {
		s.Nodes = append(s.Nodes, redlock.NodeStats{Index: i, Node: fmt.Sprintf("node %d", i), State: "up"})
	}
	return s
}

// set sets the locks, as the next questions find them. Nobody renews them.
func (f *fake) set(locks ...redlock.Status) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.locks, f.since = locks, time.Now()
}

// aged returns what is left of a lock that is as it was at an instant; at the zero one all is left.
func aged(s redlock.Status, since time.Time) redlock.Status {
	if !since.IsZero() {
		s.Remaining -= time.Since(since)
	}
	return s
}

// held is a lock that one owner holds for an hour, at three masters.
func held(name, owner string) redlock.Status {
	s := redlock.Status{Name: name, Holder: owner, Since: protocol.SinceOf(owner), Remaining: time.Hour, Token: 7}
	for i := range 3 {
		s.Nodes = append(s.Nodes, redlock.NodeStatus{Index: i, Holder: owner, Remaining: time.Hour})
	}
	return s
}

// withFake runs a model over a fake in virtual time.
func withFake(t *testing.T, f *fake, test func(t *testing.T, m *overview.Model)) {
	t.Helper()
	f.looks = make(map[string]int)
	synctest.Test(t, func(t *testing.T) {
		origin := time.Now()
		m, stop := overview.Start(f, overview.Options{Clock: func() time.Duration { return time.Since(origin) }})
		defer stop()
		test(t, m)
	})
}

func many(n int) (all []redlock.Status) {
	for i := range n {
		all = append(all, held(fmt.Sprintf("lock-%05d", i), "worker"))
	}
	return all
}

func TestOneListingAtATimeAndAQuarterOfTheTimeForTenWatchers(t *testing.T) {
	f := &fake{perLock: 3 * ms, locks: many(1000)}
	withFake(t, f, func(t *testing.T, m *overview.Model) {
		var all []*overview.Watcher
		for i := range 10 {
			all = append(all, m.Watch(overview.View{Filter: fmt.Sprintf("lock-0%d", i%3), Order: overview.Orders()[i%5]}))
			time.Sleep(100 * ms)
		}
		begun := time.Now()
		time.Sleep(5 * time.Minute)
		f.mu.Lock()
		busiest, listings, listed, pings := f.busiest, f.listings, f.listed, f.pings
		f.mu.Unlock()
		require.Equal(t, 1, busiest)
		require.Greater(t, listings, 20)
		require.LessOrEqual(t, listed, time.Since(begun)/4+4*time.Second)
		require.LessOrEqual(t, pings, 305)
		for _, w := range all {
			w.Close()
			w.Close()
		}
	})
}

func TestWithoutAWatcherNothingIsAsked(t *testing.T) {
	f := &fake{perLock: ms, locks: many(2000)}
	withFake(t, f, func(t *testing.T, m *overview.Model) {
		asked := func() int {
			f.mu.Lock()
			defer f.mu.Unlock()
			return f.listings + f.pings + len(f.looks)
		}
		time.Sleep(time.Minute)
		require.Zero(t, asked())
		w := m.Watch(overview.View{})
		time.Sleep(time.Second) // in the midst of a pass
		w.Close()
		synctest.Wait()
		time.Sleep(2 * ms)
		before := asked()
		time.Sleep(time.Minute)
		require.Equal(t, before, asked())
		f.mu.Lock()
		require.Zero(t, f.under, "the pass that nobody awaits has ended")
		f.mu.Unlock()

		s, err := m.Snapshot(t.Context(), overview.View{})
		require.NoError(t, err)
		require.Equal(t, 2000, s.Counts.Locks)
		require.Len(t, s.Rows, overview.MaxVisible)
		require.Equal(t, 2000, s.Matching)
	})
}

// Watchers that come and go do not make passes take more than a quarter of the time.
func TestSnapshotsOneAfterTheOtherShareAPass(t *testing.T) {
	f := &fake{perLock: ms, locks: many(2000)}
	withFake(t, f, func(t *testing.T, m *overview.Model) {
		begun := time.Now()
		for time.Since(begun) < time.Minute {
			s, err := m.Snapshot(t.Context(), overview.View{})
			require.NoError(t, err)
			require.LessOrEqual(t, s.Age(), 8*time.Second)
			time.Sleep(50 * ms)
		}
		f.mu.Lock()
		listed := f.listed
		f.mu.Unlock()
		require.LessOrEqual(t, listed, time.Since(begun)/4+3*time.Second)
	})
}

func TestVisibleRowsOfAllWatchersAreLookedAtEachSecond(t *testing.T) {
	f := &fake{perLook: 10 * ms, locks: many(1000)}
	withFake(t, f, func(t *testing.T, m *overview.Model) {
		a, b := m.Watch(overview.View{}), m.Watch(overview.View{Filter: "LOCK-009"})
		time.Sleep(1500 * ms)
		f.mu.Lock()
		f.looks = make(map[string]int)
		f.mu.Unlock()
		time.Sleep(10 * time.Second)
		f.mu.Lock()
		defer f.mu.Unlock()
		require.Len(t, f.looks, overview.MaxVisible, "all watchers together")
		require.LessOrEqual(t, f.most, 50)
		require.InDelta(t, 10, f.looks["lock-00000"], 1)
		require.InDelta(t, 10, f.looks["lock-00900"], 1, "each watcher has its first rows looked at")
		require.InDelta(t, 10, f.looks["lock-00999"], 1)
		require.Zero(t, f.looks["lock-00300"])
		a.Close()
		b.Close()
	})
}

func TestWatcherReceivesTheLatestSnapshotWhenSomethingChanges(t *testing.T) {
	f := &fake{locks: []redlock.Status{held("a", "one"), held("b", "worker")}}
	withFake(t, f, func(t *testing.T, m *overview.Model) {
		f.set(f.locks...)
		slow, quick, same := m.Watch(overview.View{}), m.Watch(overview.View{Filter: "a"}), m.Watch(overview.View{})
		defer slow.Close()
		defer quick.Close()
		defer same.Close()
		first := <-quick.Updates()
		require.Equal(t, []string{"a"}, titles(first))
		for i := range 20 {
			f.set(held("a", fmt.Sprintf("owner-%d", i)), held("b", "worker"))
			want := fmt.Sprintf("owner-%d", i)
			await(t, quick, func(s *overview.Snapshot) bool { return s.Rows[0].HeldBy == want })
		}
		synctest.Wait()
		s := <-slow.Updates()
		require.Equal(t, "owner-19", s.Rows[0].HeldBy, "the latest wins")
		require.Same(t, s, <-same.Updates(), "watchers of equal views")

		time.Sleep(20 * time.Second) // both keys are foreign ones, which run down from the second look on
		<-quick.Updates()
		select {
		case <-quick.Updates():
			require.Fail(t, "nothing has changed")
		case <-time.After(time.Minute):
		}
		f.set(held("a", "new"), held("b", "worker"))
		await(t, quick, func(s *overview.Snapshot) bool { return s.Rows[0].HeldBy == "new" })
		require.Equal(t, "one", first.Rows[0].HeldBy, "nobody changes a snapshot")
	})
}
