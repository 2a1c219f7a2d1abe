package top

import (
	"strconv"
	"strings"
	"time"

	"github.com/redlock-go/redlock/internal/overview"
)

// instant is when all snapshots of these tests were taken.
var instant = time.Date(2026, 11, 24, 17, 2, 11, 0, time.UTC)

func ago(d time.Duration) time.Time { return instant.Add(-d) }

// words writes what masters say: "●●●✕●".
func words(signs string) (all []overview.Word) {
	for _, r := range signs {
		for _, w := range overview.Words() {
			if w.Sign().Glyph == string(r) {
				all = append(all, w)
			}
		}
	}
	return all
}

func name(raw string) overview.Name { return overview.Name{Raw: raw, Text: raw} }

// held returns a row of a lock that one owner holds.
func held(title, by string, since, left time.Duration, to overview.Direction, votes string, token int64) *overview.Row {
	r := &overview.Row{ID: "l" + title, Title: title, Names: []overview.Name{name(title)}, Kind: overview.Exclusive, State: overview.Held, Level: overview.OK,
		Need: overview.Rest, HeldBy: by, Left: left, Direction: to, Words: words(votes), Token: token, Looked: instant}
	h := overview.Holder{Label: by, Owner: "K7QF2M4XABCDEFGHIJKLMNOPQR@" + by, Names: r.Names, Left: left, Direction: to, Token: token,
		Masters: strings.Count(votes, "●"), Holds: true, Words: r.Words}
	if since > 0 {
		r.Since, h.Since = ago(since), ago(since)
	}
	r.Holders = []overview.Holder{h}
	return r
}

// waitedFor adds waiters to a row: "label", "what", since, ….
func waitedFor(r *overview.Row, all ...any) *overview.Row {
	r.Need = overview.Waiting
	for i := 0; i+2 < len(all); i += 3 {
		r.Waiters = append(r.Waiters, overview.Waiter{Label: all[i].(string), Ticket: strconv.Itoa(i), Wants: all[i+1].(string), Since: ago(all[i+2].(time.Duration)), Nodes: 4})
	}
	return r
}

func odd(r *overview.Row, level overview.Level, why string) *overview.Row {
	if r.Need = overview.Odd; len(r.Waiters) > 0 {
		r.Need = overview.Waiting
	}
	r.Level, r.Odd = level, why
	return r
}

// permits is a semaphore; two owners have permits of it.
func permits(votes string) *overview.Row {
	r := held("deployments", "ci-1:17", 191*time.Second, 9100*time.Millisecond, overview.Renews, votes, 8041)
	r.ID, r.Kind, r.HeldBy, r.Limit = "pdeployments", overview.Permits, "3 permits", 3
	r.Holders[0].Names, r.Holders[0].Slots = []overview.Name{name("deployments#0")}, []int{0}
	two := held("", "ci-2:40", 58*time.Second, 8800*time.Millisecond, overview.Renews, votes, 8012).Holders[0]
	two.Names, two.Slots = []overview.Name{name("deployments#1"), name("deployments#2")}, []int{1, 2}
	r.Holders = append(r.Holders, two)
	return r
}

// demo is a day's picture, with a master that is down.
func demo() *overview.Snapshot {
	const votes, minute = "●●●✕●", time.Minute
	s := &overview.Snapshot{Taken: instant, Listed: ago(2 * time.Second), Took: time.Second}
	s.Headline = overview.Headline{Text: "Locks are available: 4 of 5 masters vote, 1 more may fail.", Level: overview.Warning, Available: true,
		Masters: 5, Voting: 4, Quorum: 3, MayFail: 1}
	for i, trip := range []time.Duration{412, 520, 498, 0, 10950} {
		m := overview.Master{Index: i, Node: "node " + strconv.Itoa(i) + " (10.0." + strconv.Itoa(i) + ".1:6379)", State: "up", Level: overview.OK, RoundTrip: trip * time.Microsecond}
		if i == 3 {
			m.State, m.Level, m.Since, m.Cause = "down", overview.Error, ago(130*time.Second), "dial tcp 10.0.3.1:6379: connect: connection refused"
			m.Remedy, m.Anchor = "Start the server, or see to the network and to firewalls between here and there.", "one-master-is-down"
		}
		s.Masters = append(s.Masters, m)
	}
	catalog := held("catalog", "report-1:8", 12*time.Second, 9900*time.Millisecond, overview.Renews, votes, 310)
	catalog.Kind, catalog.HeldBy = overview.Shared, "4 readers"
	accounts := held("account-3", "pay-1:77", time.Second, 9600*time.Millisecond, overview.Renews, votes, 555)
	accounts.Kind, accounts.Title = overview.Set, "account-3 +1"
	accounts.Names = []overview.Name{name("account-3"), name("account-7")}
	accounts.Holders[0].Names = accounts.Names
	export := held("export", "etl-1:12", 2*minute, 9*time.Second, overview.Renews, votes, 17)
	export.Asks = true
	nightly := held("nightly", "cron-1:5", 20*time.Second, 38*time.Second, overview.RunsDown, "◐◐◐✕◐", 3)
	nightly.State, nightly.Holders[0].Holds = overview.Resting, false
	s.Rows = []*overview.Row{
		waitedFor(held("backup", "cron-7:88", 41*minute+2*time.Second, 9800*time.Millisecond, overview.Renews, votes, 2007),
			"cron-2:91", "the lock", 64*time.Second, "cron-4:12", "the lock", 20*time.Second),
		waitedFor(permits(votes), "ci-4:22", "2 permits", 31*time.Second, "ci-9:3", "1 permit", 5*time.Second),
		waitedFor(catalog, "web-1:40", "to write", 9*time.Second, "web-2:41", "to read", 3*time.Second),
		odd(held("legacy-job", "worker", 0, -1, overview.Endless, votes, 1), overview.Warning, "no ttl: no client of this library leaves such a key"),
		odd(held("report", "etl-3:9", 580*time.Second, 3100*time.Millisecond, overview.RunsDown, "●●○✕●", 90), overview.Warning, "runs down: nobody renews it"),
		odd(nightly, overview.OK, "rests: its lease has ended, and its minimum hold has not"),
		accounts, export, held("invoice-42", "web-3:4711", 4*time.Second, 9900*time.Millisecond, overview.Renews, votes, 42),
	}
	s.Matching = len(s.Rows)
	s.Counts = overview.Counts{Locks: 9, Callers: 6, WaitedFor: 3, LongestWait: 64 * time.Second, Endless: 1, Odd: 3}
	return s
}

// withoutQuorum is demo when two more masters are down.
func withoutQuorum() *overview.Snapshot {
	s := demo()
	s.Headline = overview.Headline{Text: "Locks are not available: 2 of 5 masters vote, and 3 must.", Level: overview.Error, Masters: 5, Voting: 2, Quorum: 3}
	s.Stale, s.Listed, s.Cause = true, ago(14*time.Second), "2 of 5 masters answered, and 3 must"
	for _, i := range []int{1, 2} {
		m := s.Masters[3]
		m.Index, m.Node, m.Since = i, s.Masters[i].Node, ago(14*time.Second)
		s.Masters[i] = m
	}
	for i, r := range s.Rows {
		stale := *r
		stale.Stale, stale.Words, stale.Says = true, words("●✕✕✕●"), r.HeldBy+" for another 3s: say the 2 masters that answer"
		s.Rows[i] = &stale
	}
	return s
}

// hostile has names and labels as overview makes them of hostile ones; Raw is what a client gave.
func hostile() *overview.Snapshot {
	s := demo()
	raw := []string{"a\x1b[2Jname", "two\nlines: free", "\u202eright-to-left", "<script>alert(1)</script>", strings.Repeat("long-", 60)}
	text := []string{`"a\x1b[2Jname"`, `"two\nlines: free"`, `"\u202eright-to-left"`, "<script>alert(1)</script>", strings.Repeat("long-", 40) + "… (300 bytes)"}
	s.Rows = nil
	for i := range raw {
		r := waitedFor(held(text[i], text[i], time.Second, time.Second, overview.Renews, "●●●✕●", 1<<62), text[i], "the lock", time.Minute)
		r.Names[0].Raw = raw[i]
		s.Rows = append(s.Rows, r)
	}
	s.Rows = append(s.Rows, held("漢字のロック名前がとても長いのですよ", "größer é", 100*time.Hour, 100*time.Hour, overview.Renews, "●●●✕●", 12))
	s.Matching = len(s.Rows)
	return s
}

// empty is a cluster without locks.
func empty() *overview.Snapshot {
	s := demo()
	s.Rows, s.Counts, s.Matching = nil, overview.Counts{}, 0
	return s
}
