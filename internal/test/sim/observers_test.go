package sim

import (
	"cmp"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"sync"
	"time"

	"github.com/redlock-go/redlock"
	"github.com/redlock-go/redlock/internal/protocol"
)

// Observers: each client follows the holder of one lock. What it is told was so, and in the end it knows the present state.

// simObserved is the lock that is observed.
const simObserved = "lock-0"

// drawObservers decides whether clients observe a lock. It is about masters of one list: two lists have two holders.
func drawObservers(p *simPlan, draw *rand.Rand) {
	p.uses.observers = draw.IntN(6) == 0 && p.lists == nil && !p.changes
}

// mostObservers is how many clients observe the lock: their looks cost time.
const mostObservers = 3

// simObserver is what one client observes.
type simObserver struct {
	client *simClient

	mu    sync.Mutex // protects what follows
	began time.Duration
	shown map[string]map[int]time.Duration // by holder: when each server has shown it last
	seen  []simSight
	left  []string // what servers have in the end: the holder for each
}

// simSight is what an observer was told.
type simSight struct {
	redlock.Holding
	err    error
	at     time.Duration
	before time.Duration // the sight before
	showed int           // servers that have shown the holder since then
}

// follow observes the lock until the client is closed, or dies.
func (o *simObserver) follow() {
	c := o.client
	time.Sleep(c.callers[0].apart() + c.callers[0].span(0, 141, 50*time.Millisecond))
	h := c.run.history.now
	o.mu.Lock()
	o.began = h()
	o.mu.Unlock()
	for holding, err := range c.client.Mutex(simObserved, withRandom(c.random)).Observe(c.life) {
		if err != nil && !errors.Is(err, redlock.ErrNoQuorum) {
			return
		}
		o.add(simSight{Holding: holding, err: err, at: h()})
		c.run.history.note("client %d observes of %s: %q, token %d, shared: %t, error: %v", c.index, simObserved, holding.Owner, holding.Token, holding.Shared, err)
	}
}

func (o *simObserver) add(s simSight) {
	o.mu.Lock()
	defer o.mu.Unlock()
	s.before = o.began
	if n := len(o.seen); n > 0 {
		s.before = o.seen[n-1].at
	}
	for _, at := range o.shown[s.Owner] {
		if at >= s.before {
			s.showed++
		}
	}
	o.seen = append(o.seen, s)
}

// noteSight notes what a server shows an observer.
func noteSight(r *simRun, node int, client string, args []string, reply any) {
	if !r.plan.uses.observers || len(args) < 2 || args[1] != protocol.Observe.Text() {
		return
	}
	sights, err := protocol.ReadSights(reply, nil, (len(args)-4)/2)
	if err != nil { // the server refuses scripts
		return
	}
	o := r.clients[indexOf(client)].observer
	o.mu.Lock()
	defer o.mu.Unlock()
	owner := sights[0].Holder
	if o.shown == nil {
		o.shown = make(map[string]map[int]time.Duration)
	}
	if o.shown[owner] == nil {
		o.shown[owner] = make(map[int]time.Duration)
	}
	o.shown[owner][node] = r.now()
}

// end notes what the servers have for the lock when all is at rest.
func (o *simObserver) end() {
	c := o.client
	if !c.run.plan.uses.observers || c.index >= mostObservers || c.isOver() {
		return
	}
	o.mu.Lock()
	defer o.mu.Unlock()
	for _, n := range c.nodes[:c.run.plan.nodes] {
		holder := ""
		for _, k := range c.run.servers[n].Keys() {
			if k.Name == "redlock:"+simObserved {
				holder = protocol.HeldBy(k.Text)
			}
		}
		o.left = append(o.left, holder)
	}
}

// observed checks what observers were told.
func (h *simHistory) observed() (wrong []string) {
	if !h.plan.uses.observers {
		return nil
	}
	for _, c := range h.run.clients {
		wrong = append(wrong, c.observer.check(h)...)
	}
	return wrong
}

func (o *simObserver) check(h *simHistory) (wrong []string) {
	o.mu.Lock()
	defer o.mu.Unlock()
	fail := func(s *simSight, format string, args ...any) {
		wrong = append(wrong, fmt.Sprintf("the observer of client %d was told at %v of %q, token %d: %s", o.client.index, s.at, s.Owner, s.Token, fmt.Sprintf(format, args...)))
	}
	leases, term := h.leases(simObserved), int64(0)
	for i := range o.seen {
		s := &o.seen[i]
		if s.err != nil {
			continue
		}
		if s.Owner != "" && s.showed < h.plan.quorum() {
			fail(s, "only %d nodes have shown it since %v", s.showed, s.before)
		}
		at := slices.IndexFunc(leases, func(v *simVisit) bool { return v.lease.Owner() == s.Owner })
		switch {
		case s.Token == 0:
		case at < 0 || leases[at].token != s.Token:
			fail(s, "no lease has it")
		case s.Token < term && h.outside == "" && !h.plan.setBack:
			fail(s, "it came after the term %d", term)
		}
		term = max(term, s.Token)
		for _, v := range leases {
			if alone := v.heldAlone(); h.outside == "" && v.lease.Owner() != s.Owner && alone.from <= s.before && alone.to >= s.at && s.before < s.at {
				fail(s, "%v held the lock from %v to %v, token %d", v.caller, alone.from, alone.to, v.token)
			}
		}
	}
	if o.left == nil || cannotAdmit(o.client) {
		return wrong
	}
	holder := quorumOf(o.left, h.plan.quorum())
	last := simSight{}
	if len(o.seen) > 0 {
		last = o.seen[len(o.seen)-1]
	}
	if len(o.seen) == 0 || last.err != nil || cmp.Or(last.Owner, map[bool]string{true: protocol.Shared}[last.Shared]) != holder {
		fail(&last, "that was the last it was told (%v), and in the end the nodes have %q", last.err, o.left)
	}
	return wrong
}

// quorumOf returns what a quorum of the texts are; "" if none is.
func quorumOf(texts []string, need int) string {
	counts := make(map[string]int)
	for _, t := range texts {
		if counts[t]++; counts[t] >= need {
			return t
		}
	}
	return ""
}
