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
	"github.com/redlock-go/redlock/internal/test/testnet"
)

// plant makes a lock of each state.
func plant(t *testing.T, net *testnet.Net) {
	t.Helper()
	queue(t, net, "free", 40*time.Second)

	lock(t, net, "exclusive", "web-3:4711")
	waiter := net.Client(redlock.WithOwnerLabel("web-4:12"))
	go func() { _, _ = waiter.Mutex("exclusive").Lock(t.Context()) }()

	for _, label := range []string{"reader-1", "reader-2"} {
		_, err := net.Client(redlock.WithOwnerLabel(label)).RWMutex("catalog").RLock(t.Context())
		require.NoError(t, err)
	}
	_, err := net.Client(redlock.WithOwnerLabel("ci-1:17")).Semaphore("deployments", 3).Acquire(t.Context(), 2)
	require.NoError(t, err)
	_, err = net.Client(redlock.WithOwnerLabel("ci-2:40")).Semaphore("deployments", 3).Acquire(t.Context(), 1)
	require.NoError(t, err)
	time.Sleep(time.Second)
	go func() { _, _ = waiter.Semaphore("deployments", 3).Acquire(t.Context(), 2) }()

	_, err = net.Client(redlock.WithOwnerLabel("pay-1:77")).Multi([]string{"account-7", "account-3"}).Lock(t.Context())
	require.NoError(t, err)

	rests, err := net.Client(redlock.WithOwnerLabel("cron-1:5"), redlock.WithTTL(time.Minute)).Mutex("nightly", redlock.WithMinHold(time.Minute)).Lock(t.Context())
	require.NoError(t, err)
	require.NoError(t, rests.Unlock(t.Context()))

	// Its lease expires, and its key stays for the delay.
	_, err = net.Client(redlock.WithOwnerLabel("late-1"), redlock.WithoutRenewal(), redlock.WithTTL(3*time.Second)).
		Mutex("delayed", redlock.WithLockDelay(time.Minute)).Lock(t.Context())
	require.NoError(t, err)

	put(t, net, "split", "one", time.Hour, 0, 1)
	put(t, net, "split", "two", time.Hour, 2, 3)
	put(t, net, "legacy-job", "worker", 0, 0, 1, 2, 3, 4)
	lock(t, net, "report", "etl-3:9", redlock.WithoutRenewal(), redlock.WithTTL(time.Minute))
}

// planted are the rows of plant, as a snapshot must show them after a minute of looks, by need.
var planted = []struct {
	title, heldBy string
	kind          overview.Kind
	state         overview.State
	direction     overview.Direction
	words, odd    string
	waiters       []string
	holders       int
}{
	{"free", "", overview.None, overview.WaitedFor, overview.Unknown, "○○○○✕", "", []string{"(gone?): the lock"}, 0},
	{"exclusive", "web-3:4711", overview.Exclusive, overview.Held, overview.Renews, "●●●●✕", "", []string{"web-4:12: the lock"}, 1},
	{"deployments", "3 permits", overview.Permits, overview.Held, overview.Renews, "●●●●✕", "", []string{"web-4:12: 2 permits"}, 2},
	{"split", "", overview.Exclusive, overview.Split, overview.RunsDown, "◆◆◆◆✕",
		"nobody holds it: the votes are split, or the last keys of a lease expire", nil, 2},
	{"legacy-job", "worker", overview.Exclusive, overview.Held, overview.Endless, "●●●●✕",
		"no ttl: no client of this library leaves such a key", nil, 1},
	{"delayed", "late-1", overview.Exclusive, overview.Held, overview.RunsDown, "●●●●✕", "runs down: nobody renews it", nil, 1},
	{"report", "etl-3:9", overview.Exclusive, overview.Held, overview.RunsDown, "●●●●✕", "runs down: nobody renews it", nil, 1},
	{"nightly", "cron-1:5", overview.Exclusive, overview.Resting, overview.RunsDown, "rrrr✕",
		"rests: its lease has ended, and its minimum hold has not", nil, 1},
	{"account-3 +1", "pay-1:77", overview.Set, overview.Held, overview.Renews, "●●●●✕", "", nil, 1},
	{"catalog", "2 readers", overview.Shared, overview.Held, overview.Renews, "●●●●✕", "", nil, 2},
}

func TestPlantedStatesShowAsInspectHasThem(t *testing.T) {
	testnet.InBubble(t, 5, func(t *testing.T, net *testnet.Net) {
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		plant(t, net)
		c := net.Client()
		net.Nodes[4].Down()
		w, stop := watch(t, net, c, overview.View{})
		defer stop()
		s := latest(t, w, nil, 40*time.Second)

		var order []string
		for _, p := range planted {
			order = append(order, p.title)
		}
		require.Equal(t, order, titles(s))
		for i, p := range planted {
			r := s.Rows[i]
			assert.Equal(t, p.kind, r.Kind, p.title)
			assert.Equal(t, p.state, r.State, p.title)
			assert.Equal(t, p.heldBy, r.HeldBy, p.title)
			assert.Equal(t, p.direction, r.Direction, p.title)
			assert.Equal(t, p.words, letters(r.Words), p.title)
			assert.Equal(t, p.odd, r.Odd, p.title)
			assert.Len(t, r.Holders, p.holders, p.title)
			var waiters []string
			for _, waiter := range r.Waiters {
				waiters = append(waiters, waiter.Label+": "+waiter.Wants)
			}
			assert.Equal(t, p.waiters, waiters, p.title)
			for _, name := range r.Names {
				requireAsInspect(t, ctx, c, name.Raw, r)
			}
		}
		assert.Equal(t, overview.Counts{Locks: 10, Callers: 3, WaitedFor: 3, LongestWait: s.Counts.LongestWait, Endless: 1, Odd: 5}, s.Counts)
		assert.InDelta(t, 80*time.Second, s.Counts.LongestWait, float64(5*time.Second))
		assert.Equal(t, "Locks are available: 4 of 5 masters vote, 1 more may fail.", s.Headline.Text)
		assert.Equal(t, overview.Warning, s.Headline.Level)
		assert.Equal(t, 3, rowOf(t, s, "deployments").Limit)
	})
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
		assert.Equal(t, w.Since, r.Waiters[i].Since, name)
		assert.Equal(t, w.Nodes, r.Waiters[i].Masters, name)
	}
	if r.Kind != overview.Permits {
		assert.Equal(t, overview.HeldSince(is).Unix(), r.Since.Unix(), name)
		assert.Equal(t, is.Token, r.Token, name)
		if state != overview.Split { // each owner has its own time
			assert.InDelta(t, is.Remaining, r.LeftAt(time.Now()), float64(11*time.Second), name)
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
		put(t, net, "taken", "one", time.Hour, 0, 1, 2, 3, 4)
		c := net.Client()
		w, stop := watch(t, net, c, overview.View{})
		defer stop()
		whole := latest(t, w, nil, 3*time.Second)
		require.False(t, whole.Stale)
		require.Empty(t, whole.Cause)

		for _, i := range []int{0, 1, 2} {
			net.Nodes[i].Down()
		}
		put(t, net, "taken", "two", time.Hour, 3)
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
		require.Equal(t, "cron-7:88 for another 58m: say the 2 masters that answer", backup.Says)
		require.Equal(t, "✕✕✕●●", letters(backup.Words))
		require.Equal(t, "✕✕✕◆●", letters(rowOf(t, s, "taken").Words), "of the holder that was known")
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
		require.Equal(t, "●●●●●", letters(backup.Words))
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
		require.Equal(t, "✕✕●", letters(r.Words))
		net.Nodes[0].Up()
		net.Nodes[1].Up()
		s = latest(t, w, s, 10*time.Second)
		require.Equal(t, overview.Held, rowOf(t, s, "backup").State)
		synctest.Wait()
	})
}
