package redlockweb

import (
	"fmt"
	"net/http"
	"strings"

	"github.com/redlock-go/redlock/internal/overview"
)

// gauge is a metric of /metrics.
type gauge struct {
	name, help string
	of         func(*overview.Snapshot) float64
	needsList  bool // without a quorum it is not known
}

// gauges are what no single client knows.
var gauges = []gauge{
	{"redlock_cluster_locks", "Locks that are held or waited for; a semaphore, and names that one owner holds together, count once.",
		func(s *overview.Snapshot) float64 { return float64(s.Counts.Locks) }, true},
	{"redlock_cluster_callers_waiting", "Callers of all clients that wait for a lock.",
		func(s *overview.Snapshot) float64 { return float64(s.Counts.Callers) }, true},
	{"redlock_cluster_longest_wait_seconds", "For how long the caller waits that has waited longest.",
		func(s *overview.Snapshot) float64 { return s.Counts.LongestWait.Seconds() }, true},
	{"redlock_cluster_endless_locks", "Locks without a time-to-live: no client of the library leaves such a key.",
		func(s *overview.Snapshot) float64 { return float64(s.Counts.Endless) }, true},
	{"redlock_cluster_masters_up", "Masters that vote.",
		func(s *overview.Snapshot) float64 { return float64(s.Headline.Voting) }, false},
}

// serveMetrics writes the gauges in Prometheus' text format. Those that need a list are absent without a quorum.
func (h *Handler) serveMetrics(w http.ResponseWriter, r *http.Request) {
	s := h.snapshot(w, r, overview.View{})
	if s == nil {
		return
	}
	var b strings.Builder
	for _, g := range gauges {
		if !g.needsList || !s.Stale {
			fmt.Fprintf(&b, "# HELP %s %s\n# TYPE %s gauge\n%s %g\n", g.name, g.help, g.name, g.name, g.of(s))
		}
	}
	w.Header().Set("Content-Type", "text/plain; version=0.0.4; charset=utf-8")
	_, _ = w.Write([]byte(b.String()))
}
