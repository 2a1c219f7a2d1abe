package overview_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/redlock-go/redlock"
	"github.com/redlock-go/redlock/internal/endpoint"
	"github.com/redlock-go/redlock/internal/overview"
	"github.com/redlock-go/redlock/internal/protocol"
	"github.com/redlock-go/redlock/internal/system"
	"github.com/redlock-go/redlock/internal/test/testnet"
)

// ours returns an owner of this library, with a label; another one for each n.
func ours(label string, n int) string {
	id := system.ID([]byte("ABCDEFGHIJKLMNOPQRSTUVWXYZ"))
	id[0], id[1] = system.Digits[n/32%32], system.Digits[n%32]
	return protocol.Owner(id, time.Unix(int64(n)*1000, 0), "", label)
}

func waiter(ticket, label string, ago time.Duration) redlock.WaiterStatus {
	return redlock.WaiterStatus{Ticket: ticket, Label: label, Since: time.Now().Add(-ago), Nodes: 3}
}

// withWaiters is a lock for which callers wait.
func withWaiters(s redlock.Status, all ...redlock.WaiterStatus) redlock.Status {
	s.Queue = all
	return s
}

func left(s redlock.Status, d time.Duration) redlock.Status {
	s.Remaining = d
	return s
}

func TestViewsFilterAndSort(t *testing.T) {
	f := &fake{}
	withFake(t, f, func(t *testing.T, m *overview.Model) {
		f.set(
			left(held("alpha", ours("web-1", 1)), 40*time.Second),
			withWaiters(left(held("beta", ours("web-2", 2)), 20*time.Second), waiter("2", "ci-9", time.Second), waiter("3", "ci-9", time.Second)),
			withWaiters(left(held("gamma", ours("CI-2", 3)), 30*time.Second), waiter("1", "cron", time.Minute)),
			left(held("endless", ours("web-4", 4)), -1),
		)
		f.since = time.Time{}
		for order, want := range map[overview.Order][]string{
			"":                 {"gamma", "beta", "endless", "alpha"},
			overview.ByNeed:    {"gamma", "beta", "endless", "alpha"},
			overview.ByName:    {"alpha", "beta", "endless", "gamma"},
			overview.ByLeft:    {"beta", "gamma", "alpha", "endless"},
			overview.ByWaiters: {"beta", "gamma", "alpha", "endless"},
		} {
			s, err := m.Snapshot(t.Context(), overview.View{Order: order})
			require.NoError(t, err)
			require.Equal(t, want, titles(s), "by %q", order)
			require.Equal(t, overview.View{Order: order}, s.View)
		}
		for filter, want := range map[string][]string{
			"":     {"gamma", "beta", "endless", "alpha"},
			"A":    {"gamma", "beta", "alpha"},
			"ci-":  {"gamma", "beta"}, // of a holder, and of a waiter
			"less": {"endless"},
			"none": nil,
		} {
			s, err := m.Snapshot(t.Context(), overview.View{Filter: filter})
			require.NoError(t, err)
			require.Equal(t, want, titles(s), "with %q", filter)
			require.Equal(t, len(want), s.Matching)
			require.Equal(t, 4, s.Counts.Locks, "of all")
		}
	})
}

func TestAViewThatChangesIsShownAtOnce(t *testing.T) {
	f := &fake{locks: many(500)}
	withFake(t, f, func(t *testing.T, m *overview.Model) {
		w := m.Watch(overview.View{})
		defer w.Close()
		s := <-w.Updates()
		require.Len(t, s.Rows, overview.MaxVisible)
		require.Equal(t, 500, s.Matching)
		begun := time.Now()
		for v := range map[overview.View]bool{{Filter: "-0049"}: true, {All: true}: true} {
			w.Show(v)
			s = await(t, w, func(s *overview.Snapshot) bool { return s.View == v })
			require.Zero(t, time.Since(begun))
		}
		require.LessOrEqual(t, len(s.Rows), 500)
		s, err := m.Snapshot(t.Context(), overview.View{All: true})
		require.NoError(t, err)
		require.Len(t, s.Rows, 500)
	})
}

// What others wrote must not control a terminal or forge a line; the raw name is for unlock alone.
func TestTextOfOthersIsSafeToPrint(t *testing.T) {
	const name, label = "<script>\x1b[2J\nname\u202e", "\x1b]0;label\a\nx\u202e"
	f := &fake{}
	withFake(t, f, func(t *testing.T, m *overview.Model) {
		s := withWaiters(held(name, ours(label, 1)), waiter("1\x1b", label, time.Minute))
		f.set(s, withWaiters(redlock.Status{Name: "split\n", Nodes: held("", "fo\x1breign").Nodes[:1]}))
		all, err := m.Snapshot(t.Context(), overview.View{})
		require.NoError(t, err)
		require.Len(t, all.Rows, 2)
		for _, r := range all.Rows {
			texts := []string{r.Title, r.HeldBy, r.Odd, r.Says, string(r.State)}
			for _, n := range r.Names {
				texts = append(texts, n.Text)
			}
			for _, h := range r.Holders {
				texts = append(texts, h.Label, h.Owner, h.Names[0].Text)
			}
			for _, w := range r.Waiters {
				texts = append(texts, w.Label, w.Ticket, w.Wants)
			}
			for _, text := range texts {
				require.NotContains(t, text, "\x1b")
				require.NotContains(t, text, "\n")
				require.NotContains(t, text, "\u202e")
			}
		}
		require.Equal(t, name, all.Rows[0].Names[0].Raw)
		require.Equal(t, `"<script>\x1b[2J\nname\u202e"`, all.Rows[0].Title)
		require.Equal(t, `"\x1b]0;label\a\nx\u202e"`, all.Rows[0].Waiters[0].Label)
	})
}

func TestNamesOfOneOwnerStandTogetherAndApartAgain(t *testing.T) {
	f := &fake{}
	withFake(t, f, func(t *testing.T, m *overview.Model) {
		set, other := ours("pay-1", 1), ours("pay-2", 2)
		f.set(held("b", set), held("a", set), held("c", other), held("x", "worker"), held("y", "worker"))
		w := m.Watch(overview.View{Order: overview.ByName})
		defer w.Close()
		s := <-w.Updates()
		require.Equal(t, []string{"a +1", "c", "x", "y"}, titles(s), "a foreign program's value is no owner")
		require.Equal(t, overview.Set, s.Rows[0].Kind)
		require.Equal(t, []overview.Name{{Raw: "a", Text: "a"}, {Raw: "b", Text: "b"}}, s.Rows[0].Holders[0].Names)
		f.set(held("b", other), held("a", set), held("c", other), held("x", "worker"), held("y", "worker"))
		s = awaitTitles(t, w, "a", "b +1", "x", "y")
		require.Equal(t, overview.Set, s.Rows[1].Kind)
		require.Equal(t, overview.Exclusive, s.Rows[0].Kind)
	})
}

// await returns the first snapshot of which a condition is true.
func await(t *testing.T, w *overview.Watcher, is func(*overview.Snapshot) bool) *overview.Snapshot {
	t.Helper()
	timeout := time.After(10 * time.Minute)
	for {
		select {
		case s := <-w.Updates():
			if is(s) {
				return s
			}
		case <-timeout:
			require.FailNow(t, "no such snapshot")
		}
	}
}

// awaitTitles awaits a snapshot with these rows.
func awaitTitles(t *testing.T, w *overview.Watcher, want ...string) *overview.Snapshot {
	t.Helper()
	return await(t, w, func(s *overview.Snapshot) bool { return slices.Equal(want, titles(s)) })
}

// A visible row whose lock becomes free shows that until the next pass: it may be held again soon.
func TestRowThatBecomesFreeStaysUntilTheNextPass(t *testing.T) {
	f := &fake{perLock: 3 * time.Second}
	withFake(t, f, func(t *testing.T, m *overview.Model) {
		f.set(held("a", ours("one", 1)), held("b", ours("two", 2)), held("jobs#1", ours("three", 3)))
		w := m.Watch(overview.View{})
		defer w.Close()
		awaitTitles(t, w, "a", "b", "jobs")
		f.set(held("a", ours("one", 1)))
		begun := time.Now()
		s := await(t, w, func(s *overview.Snapshot) bool {
			return len(s.Rows) == 3 && s.Rows[1].State == overview.Free && s.Rows[2].State == overview.Free
		})
		require.Less(t, time.Since(begun), 3*time.Second, "long before the next pass")
		require.Equal(t, overview.None, s.Rows[1].Kind)
		require.Empty(t, s.Rows[1].HeldBy+s.Rows[2].HeldBy)
		require.Equal(t, 1, s.Counts.Locks)
		awaitTitles(t, w, "a")
	})
}

func TestAPasswordThatCannotBeReadIsNoDeadServer(t *testing.T) {
	err := fmt.Errorf("cannot connect: no credentials: %w", &endpoint.PasswordError{Why: errors.New("it is empty")})
	c := overview.CauseOf(err, false)
	require.Equal(t, "password", c.Code)
	require.Contains(t, c.Remedy, "--password-file")
}

// panicking is set in the process in which the Model panics.
const panicking = "REDLOCK_TEST_PANICKING"

// The text of a panic must be readable: what OnPanic does comes first.
func TestOnPanicIsCalledAheadOfAPanic(t *testing.T) {
	if os.Getenv(panicking) != "" {
		m, _ := overview.Start(&fake{looks: make(map[string]int)}, overview.Options{
			Wall: func() time.Time { panic("a bug") }, OnPanic: func() { fmt.Fprintln(os.Stderr, "restored") }})
		_, _ = m.Snapshot(t.Context(), overview.View{})
		return
	}
	cmd := exec.Command(os.Args[0], "-test.run=^TestOnPanicIsCalledAheadOfAPanic$")
	cmd.Env = append(os.Environ(), panicking+"=1")
	out, err := cmd.CombinedOutput()
	require.Error(t, err)
	require.Regexp(t, `(?s)^restored\npanic: a bug`, string(out))
}

func TestStopOfAModelAwaitsWhatItHasStarted(t *testing.T) {
	f := &fake{perLock: time.Second, locks: many(10), looks: make(map[string]int)}
	synctest.Test(t, func(t *testing.T) {
		m, stop := overview.Start(f, overview.Options{})
		w := m.Watch(overview.View{})
		defer w.Close()
		time.Sleep(100 * ms)
		f.mu.Lock()
		require.Equal(t, 1, f.under, "a pass")
		f.mu.Unlock()
		stop()
		f.mu.Lock()
		require.Zero(t, f.under)
		f.mu.Unlock()
		stop()
	})
}

// told writes changes in short.
func told(all []overview.Change) (texts []string) {
	for _, c := range all {
		text := string(c.Kind) + " " + c.Name + c.Node
		for _, more := range []string{c.Before, c.Holder, c.Waiter} {
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
			"granted s1 set", "granted s2 set", "waiter left waited x", "waiter came waited z"}, told(overview.Changes(before, after)))
		require.Empty(t, overview.Changes(after, after))

		stale := *after
		stale.Stale, stale.Rows = true, nil
		stale.Masters = append([]overview.Master(nil), after.Masters...)
		stale.Masters[1].State, stale.Masters[1].Cause = "down", "cut"
		require.Equal(t, []string{"node down node 1"}, told(overview.Changes(after, &stale)), "what is not known has not changed")
		require.Equal(t, []string{"node up node 1"}, told(overview.Changes(&stale, after)))
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
		net.Nodes.Refuse("NOPERM no right\x1b", "scan")
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
