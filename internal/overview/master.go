package overview

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/redlock-go/redlock"
	"github.com/redlock-go/redlock/internal/node"
	"github.com/redlock-go/redlock/internal/printable"
)

// Master is a node of the cluster. Its texts are safe to print.
type Master struct {
	Index  int
	Node   string // its name in errors and logs, with the address
	State  string // as redlock.NodeStats has it
	Level  Level
	Since  time.Time // when the state began, or the model saw it first
	Cause  string    // why it is not up; "" if it is
	Remedy string    // what to do, in a sentence; "" if it is up
	Anchor string    // of the section in docs/operations.md; "" if it is up

	// RoundTrip is the last Ping's, if a Trips was given; 0: not known.
	RoundTrip time.Duration
}

// masters has the state of all masters.
type masters struct {
	all      []Master
	headline Headline
}

// observe updates the masters after a Ping, which may have failed, and reports whether a person
// sees a change; round trips alone are none.
func (m *masters) observe(stats []redlock.NodeStats, ping error, trips *Trips, now time.Time) (changed bool) {
	voting := 0
	for i := range stats {
		if stats[i].State == "up" {
			voting++
		}
	}
	headline := newHeadline(len(stats), voting, ping)
	changed = headline != m.headline || len(m.all) != len(stats)
	all := make([]Master, len(stats))
	for i := range stats {
		all[i] = newMaster(&stats[i], headline.Available)
		all[i].Since, all[i].RoundTrip = now, trips.of(stats[i].Index)
		if !stats[i].Since.IsZero() {
			all[i].Since = stats[i].Since
		}
		if i >= len(m.all) {
			continue
		}
		before := m.all[i]
		if before.State == all[i].State {
			all[i].Since = before.Since
		}
		before.RoundTrip = all[i].RoundTrip
		changed = changed || before != all[i]
	}
	m.all, m.headline = all, headline
	return changed
}

// quarantined reports by master whether it answers and does not vote.
func (m *masters) quarantined() []bool {
	is := make([]bool, len(m.all))
	for i := range m.all {
		is[i] = m.all[i].State == "quarantined"
	}
	return is
}

// newHeadline makes the one sentence.
func newHeadline(n, voting int, ping error) Headline {
	h := Headline{Masters: n, Voting: voting, Quorum: n/2 + 1}
	h.Available = ping == nil && voting >= h.Quorum
	vote := fmt.Sprintf("%d of %d masters vote", voting, n)
	if n == 1 {
		vote = fmt.Sprintf("%d of 1 master votes", voting)
	}
	switch {
	case h.Available:
		h.MayFail, h.Level = voting-h.Quorum, OK
		if voting < n {
			h.Level = Warning
		}
		may := fmt.Sprintf("%d more may fail", h.MayFail)
		if h.MayFail == 0 {
			may = "none of them may fail"
		}
		h.Text = "Locks are available: " + vote + ", " + may + "."
	case voting >= h.Quorum:
		h.Level = Error
		h.Text = fmt.Sprintf("Locks are not available: %s, but fewer than %d answered in time.", vote, h.Quorum)
	default:
		h.Level = Error
		h.Text = fmt.Sprintf("Locks are not available: %s, and %d must.", vote, h.Quorum)
	}
	var q *redlock.QuorumError
	if !h.Available && errors.As(ping, &q) && q.RetryAfter > 0 {
		h.Text += " They vote again in " + printable.Age(q.RetryAfter+time.Second-1) + "."
	}
	return h
}

// newMaster describes a master.
func newMaster(n *redlock.NodeStats, available bool) Master {
	m := Master{Index: n.Index, Node: printable.Line(n.Node), State: n.State, Level: OK}
	if n.Err != nil {
		m.Cause = printable.Line(n.Err.Error())
	}
	oneDown := "one-master-is-down"
	if !available {
		oneDown = "a-majority-is-down"
	}
	switch n.State {
	case "up":
		m.Cause = ""
	case "stalled":
		m.Level, m.Cause = Warning, "its answers are overdue"
		m.Remedy, m.Anchor = sentence(FindDelay), oneDown
	case "quarantined":
		m.Level = Warning
		m.Remedy, m.Anchor = sentence(WaitForIt), "it-does-not-vote-for-another-75s"
		if strings.Contains(m.Cause, "votes again with the counters") {
			m.Remedy = "Mend the network between this machine and the others: it needs a quorum of them beside it."
			m.Anchor = "it--votes-again-with-the-counters-of-2-other-nodes-that-vote-1-answered"
		}
	default:
		m.Level = Error
		cause := CauseOf(n.Err, n.Connects > 0)
		m.Remedy, m.Anchor = sentence(cause.Remedy), oneDown
		switch {
		case slices.Contains(refusals, cause.Code) || n.State == "refusing" || node.IsRefusal(n.Err):
			m.Anchor = "a-server-refuses-connections-or-locks"
		case n.State == "unfit" && cause.Code != "password":
			m.Remedy = "A person must act: the cause says what is wrong, and the log says it too."
			fallthrough
		case n.State == "unfit":
			m.Anchor = "an-unfit-node"
		}
		m.Cause = cmp.Or(m.Cause, cause.What)
	}
	return m
}

// refusals are codes that docs/operations.md has under "A server refuses connections or locks",
// beside the refusals of locks.
var refusals = []string{"protected-mode", "max-clients", "loading", "tls", "no-redis"}

// sentence makes a sentence of a remedy.
func sentence(remedy string) string {
	return strings.ToUpper(remedy[:1]) + remedy[1:] + "."
}
