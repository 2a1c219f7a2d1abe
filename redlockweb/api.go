package redlockweb

import (
	"encoding/json"
	"net/http"
	"time"

	"github.com/redlock-go/redlock/internal/overview"
)

// The JSON names are stable. Durations are in seconds.

type locksJSON struct {
	Taken     time.Time  `json:"taken"`
	Listed    time.Time  `json:"listed,omitzero"`
	Stale     bool       `json:"stale"` // the list is older than taken says, as there is no quorum
	Cause     string     `json:"cause,omitempty"`
	Available bool       `json:"available"`
	Text      string     `json:"text"`
	Locks     int        `json:"locks"` // all of them, whatever the filter
	Callers   int        `json:"callers_waiting"`
	WaitedFor int        `json:"locks_waited_for"`
	Longest   float64    `json:"longest_wait_s"`
	Endless   int        `json:"locks_without_end"`
	Rows      []lockJSON `json:"rows"`
}

type lockJSON struct {
	Names   []string     `json:"names"`
	Kind    string       `json:"kind"`
	State   string       `json:"state"`
	Odd     string       `json:"odd,omitempty"`
	HeldBy  string       `json:"held_by,omitempty"`
	Holders []holderJSON `json:"holders"`
	Waiters []waiterJSON `json:"waiters"`
	Token   int64        `json:"token"`
	Asks    bool         `json:"lets_go_if_asked"`
	Limit   int          `json:"limit,omitempty"`
	Words   []string     `json:"nodes"`
	Looked  time.Time    `json:"looked"`
	Stale   bool         `json:"stale"`
	Says    string       `json:"says,omitempty"`
}

type holderJSON struct {
	Label     string    `json:"label"`
	Owner     string    `json:"owner"`
	Slots     []int     `json:"slots,omitempty"`
	Since     time.Time `json:"since,omitzero"`
	Left      *float64  `json:"left_s"` // null: without an end
	Direction string    `json:"direction,omitempty"`
	Token     int64     `json:"token,omitempty"`
	Masters   int       `json:"masters"`
	Holds     bool      `json:"holds"`
}

type waiterJSON struct {
	Label   string    `json:"label"`
	Ticket  string    `json:"ticket"`
	Since   time.Time `json:"since"`
	Masters int       `json:"masters"`
	Wants   string    `json:"wants"`
}

type nodesJSON struct {
	Available bool       `json:"available"`
	Text      string     `json:"text"`
	Voting    int        `json:"voting"`
	Quorum    int        `json:"quorum"`
	MayFail   int        `json:"may_fail"`
	Nodes     []nodeJSON `json:"nodes"`
}

type nodeJSON struct {
	Node      string    `json:"node"`
	State     string    `json:"state"`
	Since     time.Time `json:"since"`
	Cause     string    `json:"cause,omitempty"`
	Remedy    string    `json:"remedy,omitempty"`
	Runbook   string    `json:"runbook,omitempty"`
	RoundTrip float64   `json:"round_trip_s,omitempty"`
}

// serveLocks answers with all locks that the filter lets through.
func (h *Handler) serveLocks(w http.ResponseWriter, r *http.Request) {
	v := viewOf(r)
	v.All = true
	s := h.snapshot(w, r, v)
	if s == nil {
		return
	}
	all := locksJSON{Taken: s.Taken, Listed: s.Listed, Stale: s.Stale, Cause: s.Cause, Available: s.Headline.Available, Text: s.Headline.Text,
		Locks: s.Counts.Locks, Callers: s.Counts.Callers, WaitedFor: s.Counts.WaitedFor, Longest: s.Counts.LongestWait.Seconds(),
		Endless: s.Counts.Endless, Rows: make([]lockJSON, len(s.Rows))}
	for i, row := range s.Rows {
		all.Rows[i] = newLockJSON(row, s.Taken)
	}
	writeJSON(w, all)
}

func newLockJSON(r *overview.Row, now time.Time) lockJSON {
	v := lockJSON{Kind: string(r.Kind), State: string(r.State), Odd: r.Odd, HeldBy: r.HeldBy, Holders: make([]holderJSON, len(r.Holders)),
		Waiters: make([]waiterJSON, len(r.Waiters)), Token: r.Token, Asks: r.Asks, Limit: r.Limit, Looked: r.Looked, Stale: r.Stale, Says: r.Says}
	for _, n := range r.Names {
		v.Names = append(v.Names, n.Raw)
	}
	for i := range r.Holders {
		h := &r.Holders[i]
		v.Holders[i] = holderJSON{Label: h.Label, Owner: h.Owner, Slots: h.Slots, Since: h.Since, Direction: string(h.Direction), Token: h.Token,
			Masters: h.Masters, Holds: h.Holds}
		if h.Left >= 0 {
			left := max(h.Left-now.Sub(r.Looked), 0).Seconds()
			v.Holders[i].Left = &left
		}
	}
	for i, w := range r.Waiters {
		v.Waiters[i] = waiterJSON(w)
	}
	for _, word := range r.Words {
		v.Words = append(v.Words, string(word))
	}
	return v
}

// serveNodes answers with the masters.
func (h *Handler) serveNodes(w http.ResponseWriter, r *http.Request) {
	s := h.snapshot(w, r, overview.View{})
	if s == nil {
		return
	}
	all := nodesJSON{Available: s.Headline.Available, Text: s.Headline.Text, Voting: s.Headline.Voting, Quorum: s.Headline.Quorum, MayFail: s.Headline.MayFail}
	for i := range s.Masters {
		m := &s.Masters[i]
		v := nodeJSON{Node: m.Node, State: m.State, Since: m.Since, Cause: m.Cause, Remedy: m.Remedy, RoundTrip: m.RoundTrip.Seconds()}
		if m.Anchor != "" {
			v.Runbook = runbook + m.Anchor
		}
		all.Nodes = append(all.Nodes, v)
	}
	writeJSON(w, all)
}

func writeJSON(w http.ResponseWriter, v any) {
	w.Header().Set("Content-Type", "application/json")
	_ = json.NewEncoder(w).Encode(v) // the browser is gone
}
