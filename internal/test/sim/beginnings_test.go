package sim

import (
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/redlock-go/redlock"
	"github.com/redlock-go/redlock/internal/protocol"
)

// Where no quorum remembers its counters, a node's counters begin from the clock. Tokens then need A8
// (docs/safety.md): the clocks and counts that the client knows which admits the node are later than any token
// handed out before. A clock that is stepped can break that, and a wall clock that is wrong.

// simBeginning is a node whose counters began from the clock.
type simBeginning struct {
	at     time.Duration
	client string // that admitted it
	latest int64  // the latest time that it knew of, in microseconds
}

// excuses reports whether A8 is broken for the token of a, and b counts on from there: a was granted
// before the beginning, b after it, and the client knew of no time or count above a's token. The proof needs
// A8 for a's token alone. So two leases stay in order where A8 is broken for a third one only.
func (g *simBeginning) excuses(a, b *simVisit, seen int64) bool {
	return a.answered <= g.at && g.at < b.answered && max(g.latest, seen) <= a.token
}

// breaksA8 reports whether the tokens of a, and of b which was granted later, need not be in order.
// In a run without steps the servers' clocks agree within the twenty seconds for which A8 holds by itself: there
// only a token that began from a client's wall clock is excused.
func (h *simHistory) breaksA8(a, b *simVisit) bool {
	excuses := func(g *simBeginning) bool { return g.excuses(a, b, h.seenBy(g.client, g.at)) }
	return (h.plan.setBack || h.plan.kind == simClocks || a.token > h.run.latestClock(a.answered)) &&
		slices.ContainsFunc(h.run.beginnings.all, excuses)
}

// seenBy returns the greatest token that a client knew at an instant: of its own leases.
func (h *simHistory) seenBy(client string, at time.Duration) (seen int64) {
	for _, v := range h.visits {
		if v.lease != nil && v.answered <= at && v.caller.client.name() == client {
			seen = max(seen, v.token)
		}
	}
	return seen
}

// latestClock returns the latest of the servers' clocks at an instant, in microseconds.
func (r *simRun) latestClock(at time.Duration) (latest int64) {
	for _, c := range r.clocks {
		latest = max(latest, c.show(at).Microseconds())
	}
	return latest
}

// simBeginnings records the beginnings, from the commands that the nodes execute. It takes the clocks'
// times from there, and not from the counters, which a wrong client could have begun from another time.
// A node that executes TIME counts as one that answered, though its answer may be lost. So it can
// excuse too little then, and never too much.
type simBeginnings struct {
	quorum int
	clock  func(client string, at time.Duration) time.Duration // a client's
	wall   func(client string, at time.Duration) time.Time

	mu    sync.Mutex // protects what follows
	asked map[simAdmitter]*simInquiry
	begun map[string]bool         // the records that nodes were admitted with
	knows map[string]simKnowledge // by client
	all   []*simBeginning
}

// simKnowledge is what a client knows of clocks, at least.
type simKnowledge struct {
	ahead int64 // by how much a server's clock was ahead of its own at most, in microseconds
	voted bool  // it has seen a node vote
}

// simTrip is how much later than a server's clock a client may read it.
const simTrip = time.Second

// learns records that a client was shown a server's clock.
func (s *simBeginnings) learns(client string, at time.Duration, micros int64) {
	know := s.knows[client]
	if ahead := micros - (s.clock(client, at) + simTrip).Microseconds(); know.ahead == 0 || ahead > know.ahead {
		know.ahead = ahead
	}
	s.knows[client] = know
}

// latestOf returns the latest time that a client knows of by itself: by its clock and the servers' clocks that it was shown
// ever, and by its wall clock if it has seen no node vote.
func (s *simBeginnings) latestOf(client string, at time.Duration) int64 {
	know := s.knows[client]
	latest := s.clock(client, at).Microseconds() + know.ahead
	if !know.voted {
		latest = max(latest, s.wall(client, at).UnixMicro())
	}
	return latest
}

// simAdmitter is a client that probes a node.
type simAdmitter struct {
	client string
	node   int
}

// simInquiry is what a client can have learned between its probe of a node and the node's admission.
type simInquiry struct {
	first  string       // the first quarantine of the node since its loss
	admits map[int]bool // by other node: whether it has a record
	latest int64        // in microseconds
}

// executed records a command that a node executed for a client.
func (s *simBeginnings) executed(at time.Duration, node int, client string, args []string, reply any) {
	s.mu.Lock()
	defer s.mu.Unlock()
	answer, _ := reply.([]any)
	args = asText(args)
	if s.knows == nil {
		s.knows = make(map[string]simKnowledge)
	}
	switch me := (simAdmitter{client, node}); {
	case args[0] == "TIME" && len(answer) == 2:
		s.learns(client, at, microseconds(answer))
		s.tells(client, func(_ int, q *simInquiry) { q.latest = max(q.latest, microseconds(answer)) })
	case args[0] != "EVAL":
	case args[1] == protocol.Record.Text():
		s.tells(client, func(other int, q *simInquiry) {
			if other != node {
				q.admits[node] = slices.ContainsFunc(answer, func(field any) bool { return simText(field) == "nodes" })
			}
		})
	case args[1] == protocol.Probe.Text() && len(answer) == 8:
		s.knows[client] = simKnowledge{s.knows[client].ahead, true}
	case args[1] == protocol.Probe.Text() && len(answer) == 9:
		if s.asked == nil {
			s.asked, s.begun = make(map[simAdmitter]*simInquiry), make(map[string]bool)
		}
		s.asked[me] = &simInquiry{first: simText(answer[8]), admits: make(map[int]bool)}
	case args[1] == protocol.Admit.Text() && reply == int64(1):
		s.admitted(at, client, s.asked[me], args[3:])
	}
}

// tells calls f for each node that a client may be about to admit.
func (s *simBeginnings) tells(client string, f func(node int, q *simInquiry)) {
	for by, q := range s.asked {
		if by.client == client {
			f(by.node, q)
		}
	}
}

// admitted records an admission: with the script's keys and arguments. One that comes second changes
// nothing. Counters come from a quorum of other nodes, if so many have a record; from one node, if its
// record lists this one's first quarantine; else from the clock.
func (s *simBeginnings) admitted(at time.Duration, client string, q *simInquiry, args []string) {
	const keys = 10
	record, together := args[0], args[keys+3]
	if s.begun[record] || q == nil {
		return
	}
	s.begun[record] = true
	others := 0
	for _, has := range q.admits {
		if has {
			others++
		}
	}
	if others < s.quorum && !slices.Contains(strings.Fields(together), q.first) {
		s.all = append(s.all, &simBeginning{at, client, max(q.latest, s.latestOf(client, at))})
	}
}

// microseconds returns the time of an answer to TIME.
func microseconds(answer []any) int64 {
	seconds, _ := strconv.ParseInt(simText(answer[0]), 10, 64)
	micros, _ := strconv.ParseInt(simText(answer[1]), 10, 64)
	return seconds*1e6 + micros
}

// A pair of tokens may be out of order where A8 is broken for the first of them, and nowhere else.
func TestTokensMustGrowButWhereA8IsBroken(t *testing.T) {
	const second = time.Second
	for _, row := range []struct {
		name    string
		plan    simPlan
		begins  []*simBeginning
		s, t    int64 // the tokens of leases that were granted at 1 s and at 5 s
		excused bool
	}{
		{"no beginning", simPlan{setBack: true}, nil, 100, 90, false},
		{"an earlier clock", simPlan{setBack: true}, []*simBeginning{{3 * second, "client 0", 89}}, 100, 90, true},
		{"an earlier clock, the same token", simPlan{setBack: true}, []*simBeginning{{3 * second, "client 0", 89}}, 100, 100, true},
		{"a clock at the token", simPlan{setBack: true}, []*simBeginning{{3 * second, "client 0", 100}}, 100, 100, true},
		{"a later clock", simPlan{setBack: true}, []*simBeginning{{3 * second, "client 0", 101}}, 100, 90, false},
		{"a later clock, the same token", simPlan{setBack: true}, []*simBeginning{{3 * second, "client 0", 101}}, 100, 100, false},
		{"a later clock, behind an earlier one", simPlan{setBack: true}, []*simBeginning{{2 * second, "client 0", 101}, {3 * second, "client 0", 89}}, 100, 90, true},
		{"before the first lease", simPlan{setBack: true}, []*simBeginning{{second - 1, "client 0", 89}}, 100, 90, false},
		{"after the second lease", simPlan{setBack: true}, []*simBeginning{{5 * second, "client 0", 89}}, 100, 90, false},
		{"a clock is stepped forward", simPlan{kind: simClocks}, []*simBeginning{{3 * second, "client 0", 89}}, 100, 90, true},
		{"no clock is stepped", simPlan{kind: simAnything}, []*simBeginning{{3 * second, "client 0", 89}}, 100, 90, false},
		{"a token of a wall clock that is ahead", simPlan{kind: simAnything}, []*simBeginning{{3 * second, "client 0", 89}}, 1 << 52, 90, true},
		{"a token of the client that begins", simPlan{setBack: true}, []*simBeginning{{3 * second, "client 1", 89}}, 100, 90, false},
	} {
		t.Run(row.name, func(t *testing.T) {
			h := &simHistory{plan: &row.plan, run: &simRun{beginnings: simBeginnings{all: row.begins}, clocks: []*simServerClock{{}}}}
			c := &simCaller{client: &simClient{}}
			h.visits = []*simVisit{{lease: &redlock.Lease{}, token: 101, answered: second, caller: &simCaller{client: &simClient{index: 1}}}}
			a := &simVisit{history: h, caller: c, token: row.s, began: second, answered: second, ended: 2 * second}
			b := &simVisit{history: h, caller: c, token: row.t, began: 5 * second, answered: 5 * second, ended: 6 * second}
			wrong := h.tokens([]*simVisit{a, b})
			require.Equal(t, row.excused, len(wrong) == 0, wrong)
		})
	}
}

// A beginning is an admission that neither a quorum of others nor a list of those that forgot together
// explains. Its clock is the latest of those that the client was shown since its probe.
func TestBeginningsAreFoundInWhatNodesExecute(t *testing.T) {
	text := func(words ...string) (all []any) {
		for _, w := range words {
			all = append(all, []byte(w))
		}
		return all
	}
	var s *simBeginnings
	client := "client 0"
	clock := func(_ string, at time.Duration) time.Duration { return 100 * at } // nanoseconds
	wall := func(client string, _ time.Duration) time.Time {
		if client == "client 2" {
			return time.Unix(30, 0)
		}
		return time.Time{}
	}
	probe := func(node int, first string) {
		s.executed(0, node, client, []string{"EVAL", protocol.Probe.Text().(string)}, text("barred", "1", "", "", "", "name", "0", "20000", first))
	}
	time := func(node int, seconds string) { s.executed(0, node, client, []string{"TIME"}, text(seconds, "7")) }
	record := func(node int, answer ...string) {
		s.executed(0, node, client, []string{"EVAL", protocol.Record.Text().(string)}, text(answer...))
	}
	admit := func(node int, record, together string, reply int64) {
		args := []string{"EVAL", protocol.Admit.Text().(string), "10", record, "", "", "", "", "", "", "", "", "", "name", "5", "6000", together}
		s.executed(9, node, client, args, reply)
	}
	for _, row := range []struct {
		name   string
		do     func()
		begins []*simBeginning
	}{
		{"all have forgotten", func() {
			time(0, "9") // of an earlier handshake, and so it may have been read a second later
			probe(0, "q0")
			record(1, "first", "q1", "left", "0")
			record(2, "first", "q2", "left", "0")
			record(3, "first", "q3", "left", "1")
			record(4)
			time(1, "8")
			time(0, "7")
			admit(0, "r0", "q1 q2 q3", 1)
		}, []*simBeginning{{9, client, 8_000_007}}},
		{"an admission comes twice", func() {
			probe(0, "q0")
			time(0, "7")
			admit(0, "r0", "q1", 1)
			probe(0, "q0")
			time(0, "6")
			admit(0, "r0", "q1", 1)
		}, []*simBeginning{{9, client, 7_000_007}}},
		{"an admission is refused", func() {
			probe(0, "q0")
			admit(0, "r0", "q1", 0)
		}, nil},
		{"another client's answers", func() {
			probe(0, "q0")
			time(0, "7")
			client = "client 1"
			time(1, "8")
			client = "client 0"
			admit(0, "r0", "q1", 1)
		}, []*simBeginning{{9, client, 7_000_007}}},
		{"a quorum of others remembers", func() {
			probe(0, "q0")
			record(1, "nodes", "5")
			record(2, "nodes", "5")
			record(3, "nodes", "5")
			admit(0, "r0", "", 1)
		}, nil},
		{"fewer than a quorum remember", func() {
			probe(0, "q0")
			record(1, "nodes", "5")
			record(2, "nodes", "5")
			record(3)
			record(4)
			time(3, "5")
			admit(0, "r0", "", 1)
		}, []*simBeginning{{9, client, 5_000_007}}},
		{"the client has read a later clock before", func() {
			time(3, "50")
			probe(0, "q0")
			time(0, "7")
			admit(0, "r0", "q1", 1)
		}, []*simBeginning{{9, client, 49_000_007}}},
		{"the client's wall clock is ahead, and it has seen no vote", func() {
			client = "client 2"
			probe(0, "q0")
			time(0, "7")
			admit(0, "r0", "q1", 1)
		}, []*simBeginning{{9, "client 2", 30_000_000}}},
		{"the client's wall clock is ahead, and it has seen a vote", func() {
			s.executed(0, 1, client, []string{"EVAL", protocol.Probe.Text().(string)}, text("whole", "1", "", "", "", "r1", "5", "1"))
			probe(0, "q0")
			time(0, "7")
			admit(0, "r0", "q1", 1)
			client = "client 0"
		}, []*simBeginning{{9, "client 2", 7_000_007}}},
		{"it forgot together with another", func() {
			probe(0, "q0")
			record(1, "nodes", "5")
			admit(0, "r0", "q2 q0", 1)
		}, nil},
	} {
		t.Run(row.name, func(t *testing.T) {
			s = &simBeginnings{quorum: 3, clock: clock, wall: wall}
			row.do()
			require.Equal(t, row.begins, s.all)
		})
	}
}
