package overview_test

import (
	"context"
	"encoding/json"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/redlock-go/redlock"
	"github.com/redlock-go/redlock/internal/overview"
	"github.com/redlock-go/redlock/internal/test/testnet"
)

// told writes changes in short.
func told(all []overview.Change) (texts []string) {
	for _, c := range all {
		text := string(c.Kind) + " " + c.Name + c.Master
		for _, more := range []string{c.Before, c.Holder, c.Waiter, c.Wants} {
			if more != "" {
				text += " " + more
			}
		}
		texts = append(texts, text)
	}
	return texts
}

func TestChangesBetweenTwoSnapshots(t *testing.T) {
	f := &fake{}
	withFake(t, f, func(t *testing.T, m *overview.Model) {
		see := func(locks ...redlock.Status) *overview.Snapshot {
			f.set(locks...)
			time.Sleep(time.Minute)
			s, err := m.Snapshot(t.Context(), overview.View{All: true})
			require.NoError(t, err)
			return s
		}
		set := ours("set", 9)
		slot := func(owner string, slots ...int) (all []redlock.Status) {
			for _, k := range slots {
				all = append(all, held("jobs#"+string(rune('0'+k)), owner))
			}
			return all
		}
		before := see(append(slot(ours("ci", 5), 0, 1), held("gone", ours("a", 1)), held("passed", ours("a", 2)),
			withWaiters(held("waited", ours("a", 3)), waiter("1", "x", time.Minute), waiter("2", "y", time.Minute)), held("same", ours("a", 4)))...)
		after := see(append(slot(ours("ci", 5), 1, 2), held("new", ours("b", 1)), held("passed", ours("b", 2)), held("s1", set), held("s2", set),
			withWaiters(held("waited", ours("a", 3)), waiter("2", "y", time.Minute), waiter("3", "z", time.Minute)), held("same", ours("a", 4)))...)
		require.Equal(t, []string{"released gone a", "released jobs#0 ci", "granted jobs#2 ci", "granted new b", "holder changed passed a b",
			"granted s1 set", "granted s2 set", "waiter left waited x the lock", "waiter came waited z the lock"}, told(overview.Changes(before, after)))
		require.Empty(t, overview.Changes(after, after))

		stale := *after
		stale.Stale, stale.Rows = true, nil
		stale.Masters = append([]overview.Master(nil), after.Masters...)
		stale.Masters[1].State, stale.Masters[1].Cause = "down", "cut"
		require.Equal(t, []string{"master down node 1"}, told(overview.Changes(after, &stale)), "what is not known has not changed")
		require.Equal(t, []string{"master up node 1"}, told(overview.Changes(&stale, after)))
		line, err := json.Marshal(overview.Changes(before, after)[4])
		require.NoError(t, err)
		require.Contains(t, string(line), `"change":"holder changed","name":"passed","holder":"b","before":"a","token":7,"held_s":`)
	})
}

func TestMastersSayWhyTheyDoNotVoteAndWhatToDo(t *testing.T) {
	testnet.InBubble(t, 3, func(t *testing.T, net *testnet.Net) {
		trips := &overview.Trips{}
		c := net.Client(redlock.WithTrace(&redlock.Trace{BallotVote: trips.Vote}))
		m, stop := run(t, net, c, overview.Options{Trips: trips})
		defer stop()
		w := m.Watch(overview.View{})
		defer w.Close()
		net.Delay(2 * ms)
		s := latest(t, w, nil, 3*time.Second)
		require.Equal(t, "Locks are available: 3 of 3 masters vote, 1 more may fail.", s.Headline.Text)
		require.Equal(t, overview.OK, s.Headline.Level)

		net.Nodes[1].Down()
		begun := time.Now()
		s = latest(t, w, s, 2*time.Second)
		down := s.Masters[1]
		require.Equal(t, "down", down.State, "within two seconds")
		require.Equal(t, overview.Error, down.Level)
		require.Contains(t, down.Cause, "connection refused")
		require.Equal(t, "one-master-is-down", down.Anchor)
		require.NotEmpty(t, down.Remedy)
		require.InDelta(t, 1, down.Since.Sub(begun).Seconds(), 1)
		require.Equal(t, "Locks are available: 2 of 3 masters vote, none of them may fail.", s.Headline.Text)
		require.Equal(t, 4*ms, s.Masters[0].RoundTrip)
		since := down.Since
		s = latest(t, w, s, time.Minute)
		require.Equal(t, since, s.Masters[1].Since, "of the state, not of the last look")
		net.Nodes[1].Up()
		s = latest(t, w, s, 5*time.Second)
		require.Equal(t, "up", s.Masters[1].State)
		require.Empty(t, s.Masters[1].Cause+s.Masters[1].Remedy+s.Masters[1].Anchor)
	})
}

// A listing that the servers refuse says so.
func TestSnapshotSaysThatAListingIsRefused(t *testing.T) {
	testnet.InBubble(t, 3, func(t *testing.T, net *testnet.Net) {
		for _, n := range net.Nodes {
			n.Set(func(n *testnet.Node) {
				n.Override = func(cmd string, _ []string) string {
					if strings.EqualFold(cmd, "scan") {
						return "NOPERM no right\x1b"
					}
					return ""
				}
			})
		}
		w, stop := watch(t, net, net.Client(), overview.View{})
		defer stop()
		s := latest(t, w, nil, 3*time.Second)
		require.True(t, s.Stale)
		require.Contains(t, s.Cause, "0 of 3 masters answered, and 2 must; NOPERM no right")
		require.Contains(t, s.Cause, "+scan")
		require.NotContains(t, s.Cause, "\x1b")
		require.True(t, s.Headline.Available)
	})
}

func TestSnapshotReturnsTheCauseOfItsContext(t *testing.T) {
	m := overview.New(&fake{}, overview.Options{}) // which does not run
	ctx, cancel := context.WithCancelCause(t.Context())
	cancel(errEnough)
	_, err := m.Snapshot(ctx, overview.View{})
	require.ErrorIs(t, err, errEnough)
}

var errEnough = errors.New("enough")
