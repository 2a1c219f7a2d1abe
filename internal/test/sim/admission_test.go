package sim

import (
	"fmt"
	"math"
	"slices"
	"sync"
	"time"

	"github.com/redlock-go/redlock/internal/admission"
	"github.com/redlock-go/redlock/internal/protocol"
	"github.com/redlock-go/redlock/internal/quorum"
)

// Nodes that lost their memory are admitted again in time. The check of progress cannot find that, since
// a node that is not admitted counts as one that is not well.

// simAdmissions are the quarantines of the nodes, by the true time.
type simAdmissions struct {
	mu       sync.Mutex // protects what follows
	lost     quorum.NodeSet
	majority bool // a majority was lost at once: then nodes do not vote for twenty seconds
	open     map[int]*simQuarantine
	all      []*simQuarantine
	over     bool // the clients close: nobody admits nodes any more
}

// simQuarantine is a node's, from the first probe that found it until it was admitted, or its memory was lost once more.
type simQuarantine struct {
	node     int
	wiped    bool           // without the end of its connections: a client finds that by its next probe
	with     quorum.NodeSet // those that forgot together with it, a quorum; empty: it is not known
	from, to time.Duration
	last     time.Duration // when one of those that forgot together with it forgot once more; 0: none did
}

// tooLong says that a client could have admitted the node in that time.
func (q *simQuarantine) tooLong(c *simClient, free simSpan) string {
	return fmt.Sprintf("node %d was in quarantine from %v to %v, though client %d could admit it from %v to %v",
		q.node, q.from, q.to, c.index, free.from, free.to)
}

// loses records that a node's memory is lost. A quarantine that is under way does not count. Those that await the node, which forgot
// together with them, now await it for longer.
func (a *simAdmissions) loses(now time.Duration, node int, wiped bool, most int) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.lost.Add(node)
	a.majority = a.majority || a.lost.Len() > most
	if a.open == nil {
		a.open = make(map[int]*simQuarantine)
	}
	for _, q := range a.open {
		if q.with.Has(node) {
			q.last = now
		}
	}
	a.open[node] = &simQuarantine{node: node, wiped: wiped}
}

// executed records the probes and the admissions that a node executes.
func (a *simAdmissions) executed(at time.Duration, node int, args []string, reply any) {
	if len(args) < 2 {
		return
	}
	if args = asText(args); args[0] != "EVAL" {
		return
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	q := a.open[node]
	switch args[1] {
	case protocol.Probe.Text():
		if answer, _ := reply.([]any); q != nil && q.from == 0 && len(answer) > 0 && simText(answer[0]) == "barred" {
			q.from = at
		}
	case protocol.Admit.Text():
		if reply != int64(1) {
			return
		}
		a.lost.Remove(node)
		if q != nil && q.from > 0 && !a.over {
			q.to = at
			a.all = append(a.all, q)
		}
		delete(a.open, node)
	}
}

// end records that the clients are about to close.
func (a *simAdmissions) end(now time.Duration) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.over = true
	for _, q := range a.open {
		if q.from > 0 {
			q.to = now
			a.all = append(a.all, q)
		}
	}
}

// simAdmitting is how long an admission may take beside its quarantine: other nodes are asked for their counters, and a
// silent one is awaited for up to two seconds.
const simAdmitting = 5 * time.Second

// admissionTakes returns how long a node may stay in quarantine at most while a client can admit it. A client that uses a
// longer ttl than those before begins a quarantine anew.
func (p *simPlan) admissionTakes(wiped bool) time.Duration {
	ttls := slices.Clone(p.ttls)
	for _, ttl := range p.ttls {
		ttls = append(ttls, p.longestOf(ttl), ttl+p.uses.delay, p.longestOf(ttl)-p.uses.delay)
	}
	slices.Sort(ttls)
	var takes time.Duration
	for _, ttl := range slices.Compact(ttls) {
		takes += ttl
	}
	if wiped {
		takes = max(takes, admission.ProbeInterval)
	}
	return takes*102/100 + simAdmitting // by the slowest clock
}

// admissions checks that a node that lost its memory is admitted in time, if a client reaches it, and a quorum of other nodes that
// vote. Where majorities forget, or leases get ttls of any length, it checks nothing.
func admissions(h *simHistory) (wrong []string) {
	a := &h.run.admissions
	if a.majority || h.plan.uses.lengths {
		return admittedTogether(h)
	}
	for _, q := range a.all {
		for _, c := range h.run.clients {
			takes := h.plan.admissionTakes(q.wiped) * time.Duration(1+h.stepsIn(q.from, q.to)) // each step begins a guard anew
			if free := keptFromAdmitting(c, q).longest(q.from, q.to); free.to-free.from > takes {
				wrong = append(wrong, q.tooLong(c, free))
			}
		}
	}
	return wrong
}

// keptFromAdmitting returns when a client could not admit a node.
func keptFromAdmitting(c *simClient, q *simQuarantine) simSpans {
	w, p := c.run.wellness, c.run.plan
	var others []simSpans
	for n := range p.nodes {
		if n != q.node {
			others = append(others, w.ill(n, c.index))
		}
	}
	all := slices.Concat(crowded(others, p.nodes-1-p.quorum()), w.illBut(notAdmitted, q.node, c.index))
	return merged(slices.Concat(all, c.ended()))
}

// ended returns from when on the client was dead or closed.
func (c *simClient) ended() (all simSpans) {
	for _, at := range []time.Duration{c.diedAt, c.closedAt} {
		if at > 0 {
			all = append(all, simSpan{at, math.MaxInt64})
		}
	}
	return all
}
