package overview_test

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/redlock-go/redlock"
	"github.com/redlock-go/redlock/internal/overview"
	"github.com/redlock-go/redlock/internal/test/planted"
	"github.com/redlock-go/redlock/internal/test/testnet"
)

func TestPlantedStatesShowAsInspectHasThem(t *testing.T) {
	testnet.InBubble(t, planted.Masters, func(t *testing.T, net *testnet.Net) {
		planted.Plant(t, net)
		c := net.Client()
		w, stop := watch(t, net, c, overview.View{})
		defer stop()
		planted.Settle()
		var s *overview.Snapshot
		for i := range planted.Clusters {
			cluster := &planted.Clusters[i]
			cluster.Enter(net)
			s = latest(t, w, s, time.Millisecond)
			requirePlanted(t, c, cluster, s)
		}
	})
}

// requirePlanted compares a snapshot with the table of planted, and with what Inspect says.
func requirePlanted(t *testing.T, c *redlock.Client, cluster *planted.Cluster, s *overview.Snapshot) {
	t.Helper()
	assert.Equal(t, cluster.Shows[0], s.Headline.Text)
	assert.Equal(t, cluster.Stale, s.Stale)
	for i := range s.Masters {
		assert.Equal(t, i < cluster.Up, s.Masters[i].State == "up", "%s: master %d", cluster.Planted, i)
	}
	assert.Equal(t, overview.Counts{Locks: 10, Callers: 3, WaitedFor: 3, LongestWait: s.Counts.LongestWait, Endless: 1, Odd: 5}, s.Counts)
	assert.InDelta(t, 160*time.Second, s.Counts.LongestWait, float64(30*time.Second))
	assert.Equal(t, 3, rowOf(t, s, "deployments").Limit)
	var order []string
	for _, p := range planted.Locks {
		order = append(order, p.Title)
	}
	require.Equal(t, order, titles(s), cluster.Planted)
	for i := range planted.Locks {
		p, r := &planted.Locks[i], s.Rows[i]
		about := cluster.Planted + ", " + p.Planted
		assert.Equal(t, p.Title, r.Title, about)
		assert.Equal(t, p.Kind, r.Kind, about)
		assert.Equal(t, p.State, r.State, about)
		assert.Equal(t, p.HeldBy, r.HeldBy, about)
		assert.Equal(t, p.Direction, r.Direction, about)
		assert.Equal(t, cluster.Signs(p), signs(r.Words), about)
		assert.Equal(t, p.Odd, r.Odd, about)
		assert.Len(t, r.Holders, p.Holders, about)
		assert.Equal(t, cluster.Stale, r.Stale, about)
		var waiters []string
		for _, waiter := range r.Waiters {
			wants := ""
			if waiter.Wants != overview.WantsLock {
				wants = " wants " + waiter.Wants
			}
			waiters = append(waiters, waiter.Text()+wants)
		}
		assert.Equal(t, p.Waiters, waiters, about)
		for k, name := range r.Names {
			assert.Equal(t, p.Names[k], name.Raw, about)
			if !cluster.Stale {
				requireAsInspect(t, t.Context(), c, name.Raw, r)
			}
		}
	}
}

// requireAsInspect compares what a row says of one of its names with what Inspect does.
func requireAsInspect(t *testing.T, ctx context.Context, c *redlock.Client, name string, r *overview.Row) {
	t.Helper()
	is, err := c.Inspect(ctx, name)
	require.NoError(t, err)
	state := overview.StateOf(is)
	assert.Equal(t, state, r.State, name)
	assert.Equal(t, overview.HeldBy(is, state), r.HeldBy, name)
	assert.Len(t, r.Waiters, len(is.Queue), name)
	for i, w := range is.Queue {
		assert.Equal(t, w.Since.UTC(), r.Waiters[i].Since, name)
		assert.Equal(t, w.Nodes, r.Waiters[i].Nodes, name)
	}
	if r.Kind != overview.Permits {
		assert.Equal(t, overview.HeldSince(is).Unix(), r.Since.Unix(), name)
		assert.Equal(t, is.Token, r.Token, name)
		if state != overview.Split { // each owner has its own time
			assert.InDelta(t, is.Remaining, r.LeftAt(r.Left, time.Now()), float64(11*time.Second), name)
		}
		return
	}
	assert.Equal(t, is.Permits[0].Since.Unix(), r.Since.Unix(), name)
	held := 0
	for _, h := range r.Holders {
		held += len(h.Slots)
	}
	assert.Equal(t, len(overview.HeldPermits(is)), held, name)
}

// Without a quorum the rows stay, with what the others say of them; then all is back by itself.
func TestWithoutAQuorumTheLastPictureStays(t *testing.T) {
	testnet.InBubble(t, 5, func(t *testing.T, net *testnet.Net) {
		lock(t, net, "backup", "cron-7:88", redlock.WithTTL(time.Hour))
		planted.Put(t, net, "taken", "one", time.Hour, 0, 1, 2, 3, 4)
		c := net.Client()
		w, stop := watch(t, net, c, overview.View{})
		defer stop()
		whole := latest(t, w, nil, 3*time.Second)
		require.False(t, whole.Stale)
		require.Empty(t, whole.Cause)

		for _, i := range []int{0, 1, 2} {
			net.Nodes[i].Down()
		}
		planted.Put(t, net, "taken", "two", time.Hour, 3)
		s := latest(t, w, whole, 2*time.Second)
		require.Equal(t, overview.Error, s.Headline.Level, "within two seconds")
		require.Equal(t, "Locks are not available: 2 of 5 masters vote, and 3 must.", s.Headline.Text)
		require.True(t, s.Stale)
		s = latest(t, w, s, 60*time.Second)
		require.Equal(t, titles(whole), titles(s))
		require.Equal(t, "2 of 5 masters answered, and 3 must", s.Cause)
		require.InDelta(t, 60*time.Second, s.Age(), float64(4*time.Second))
		backup := rowOf(t, s, "backup")
		require.True(t, backup.Stale)
		require.Equal(t, "cron-7:88", backup.HeldBy)
		require.Equal(t, "cron-7:88 for another 58m55s: say the 2 masters that answer", backup.Says)
		require.Equal(t, "✕✕✕●●", signs(backup.Words))
		require.Equal(t, "✕✕✕◆●", signs(rowOf(t, s, "taken").Words), "of the holder that was known")
		for i, m := range s.Masters {
			require.Equal(t, i > 2, m.State == "up")
			if i < 3 {
				require.Contains(t, m.Cause, "connection refused")
				require.Equal(t, "a-majority-is-down", m.Anchor)
				require.InDelta(t, 62*time.Second, s.Taken.Sub(m.Since), float64(3*time.Second))
			}
		}

		for _, i := range []int{0, 1, 2} {
			net.Nodes[i].Up()
		}
		s = latest(t, w, s, 10*time.Second)
		require.False(t, s.Stale)
		require.Empty(t, s.Cause)
		require.True(t, s.Headline.Available)
		backup = rowOf(t, s, "backup")
		require.False(t, backup.Stale)
		require.Empty(t, backup.Says)
		require.Equal(t, "●●●●●", signs(backup.Words))
	})
}

// The model is started when there is no quorum: it shows what the others say.
func TestAModelThatStartsWithoutAQuorumShowsWhatTheOthersSay(t *testing.T) {
	testnet.InBubble(t, 3, func(t *testing.T, net *testnet.Net) {
		lock(t, net, "backup", "cron-7:88", redlock.WithTTL(time.Hour))
		net.Nodes[0].Down()
		net.Nodes[1].Down()
		w, stop := watch(t, net, net.NewClient(), overview.View{})
		defer stop()
		s := latest(t, w, nil, 5*time.Second)
		require.True(t, s.Stale)
		require.Zero(t, s.Age())
		r := rowOf(t, s, "backup")
		require.Equal(t, overview.Incomplete, r.State)
		require.Equal(t, overview.Error, r.Level)
		require.Equal(t, "cron-7:88", r.HeldBy)
		require.Equal(t, "too few masters answer: the holder is unknown", r.Odd)
		require.Equal(t, "✕✕●", signs(r.Words))
		net.Nodes[0].Up()
		net.Nodes[1].Up()
		s = latest(t, w, s, 10*time.Second)
		require.Equal(t, overview.Held, rowOf(t, s, "backup").State)
		synctest.Wait()
	})
}
