package redlockweb

import (
	"encoding/json"
	"net/http"
	"time"

	"github.com/redlock-go/redlock/internal/overview"
)

// The fields are stable. docs/reference/json.md documents those of a lock.

type locksJSON struct {
	Taken     time.Time           `json:"taken"`
	Listed    time.Time           `json:"listed,omitzero"`
	Stale     bool                `json:"stale"` // the list is older than taken says, as there is no quorum
	Cause     string              `json:"cause,omitempty"`
	Available bool                `json:"available"`
	Text      string              `json:"text"`
	Locks     int                 `json:"locks"` // all of them, whatever the filter
	Callers   int                 `json:"callers_waiting"`
	WaitedFor int                 `json:"locks_waited_for"`
	Longest   float64             `json:"longest_wait_s"`
	Endless   int                 `json:"locks_without_end"`
	Rows      []overview.LockJSON `json:"rows"`
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
	all := locksJSON{Taken: s.Taken.UTC(), Listed: s.Listed.UTC(), Stale: s.Stale, Cause: s.Cause,
		Available: s.Headline.Available, Text: s.Headline.Text,
		Locks: s.Counts.Locks, Callers: s.Counts.Callers, WaitedFor: s.Counts.WaitedFor, Longest: s.Counts.LongestWait.Seconds(),
		Endless: s.Counts.Endless, Rows: make([]overview.LockJSON, len(s.Rows))}
	for i, row := range s.Rows {
		all.Rows[i] = overview.NewLockJSON(row, s.Masters, s.Taken)
	}
	writeJSON(w, all)
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
		v := nodeJSON{Node: m.Node, State: m.State, Since: m.Since.UTC(), Cause: m.Cause, Remedy: m.Remedy,
			RoundTrip: m.RoundTrip.Seconds()}
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
