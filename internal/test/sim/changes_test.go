package sim

import (
	"context"
	"fmt"
	"math/rand/v2"
	"slices"
	"time"

	"github.com/redlock-go/redlock"
	"github.com/redlock-go/redlock/internal/admission"
	"github.com/redlock-go/redlock/internal/peek"
	"github.com/redlock-go/redlock/internal/protocol"
	"github.com/redlock-go/redlock/internal/test/simredis"
)

// Tools change the list of masters, one master at a time, while clients lock and servers fail. Several work at once, and some die at
// any step. A client's settings stay as they were (docs/safety.md, The next list).

// simTool changes the list of masters, a few times.
type simTool struct {
	client int
	want   []int         // the masters that it wants in the end, of all servers
	most   time.Duration // after so long it dies
	kept   time.Duration // as Change has it: mostly next to nothing, so that lists follow each other within a ttl
}

// drawChanges decides that the list changes, in the schedules that break no assumption and have nothing else of this size.
func drawChanges(p *simPlan, draw *rand.Rand) {
	if p.outside != "" || p.setBack || p.burst != nil || p.mortals != nil || p.line != nil || p.lacks != nil || p.lists != nil {
		return
	}
	p.changes = true
	for i := range 1 + draw.IntN(3) { // servers that may become masters
		p.addServerClock(draw)
		p.trip = append(p.trip, p.trip[draw.IntN(p.nodes)])
		p.victims.Add(p.nodes + i)
	}
	began, lasts := p.calm, 2*p.longest()+20*time.Second
	p.busy += lasts
	for range 1 + draw.IntN(6) {
		t := simTool{client: draw.IntN(p.clients), most: time.Minute, kept: admission.Kept}
		t.want = draw.Perm(p.servers())[:1+draw.IntN(p.servers())]
		if draw.IntN(2) == 0 {
			t.most = below(draw, 10*time.Second)
		}
		if draw.IntN(4) > 0 {
			t.kept = below(draw, 50*time.Millisecond)
		}
		p.add(began+below(draw, lasts), func(r *simRun) { r.works(t) }, "client %d changes the masters to %v, for %v at most", t.client, t.want, t.most)
	}
	for range draw.IntN(5) {
		p.failsFor(draw, draw.IntN(p.servers()), began+below(draw, lasts), lasts)
	}
	for range draw.IntN(3) {
		p.cutsFor(draw, began+below(draw, lasts), lasts)
	}
}

// works has a tool work, until the list has the masters that it wants, or it dies.
func (r *simRun) works(t simTool) {
	c := r.clients[t.client]
	ctx, die := context.WithTimeout(c.life, t.most)
	group := peek.Group(c.client).(*admission.Group)
	var want []string
	for _, n := range t.want {
		want = append(want, r.servers[n].String())
	}
	slices.Sort(want)
	r.work.Go(func() {
		defer die()
		try := uint64(0)
		for ctx.Err() == nil {
			if now, _ := group.InForce(); now.ID != "" {
				next := nextTo(now, want)
				if next.ID == "" {
					return
				}
				chosen, err := group.Change(ctx, now, next, t.kept)
				r.history.note("client %d asks for %s: %s, %v", c.index, next.Proposal(), chosen.Proposal(), err)
			}
			try++
			pause := time.Duration(mix(r.plan.seed, uint64(t.client), try) % uint64(2*t.kept+500*time.Millisecond))
			select {
			case <-time.After(pause): // two tools must not disturb each other for ever
			case <-ctx.Done():
			}
		}
	})
}

// nextTo returns the list that follows another one, with one master more or one less, towards these; zero: it has them. A list
// that would get too short gets longer first.
func nextTo(now protocol.List, want []string) (next protocol.List) {
	names := now.Names()
	add := slices.IndexFunc(want, func(name string) bool { return !now.Has(name) })
	remove := slices.IndexFunc(names, func(name string) bool { return !slices.Contains(want, name) })
	switch {
	case add >= 0 && (remove < 0 || len(names) <= 3):
		return now.Next(append(names, want[add]))
	case remove >= 0:
		return now.Next(slices.Delete(names, remove, remove+1))
	}
	return next
}

// withMembers lets a client reach all servers.
func withMembers(servers []*simredis.Server, links []*simredis.Link) redlock.ClientOption {
	names := make([]string, len(servers))
	for i, s := range servers {
		names[i] = s.String()
	}
	return redlock.WithMembers(func(addr string) (redlock.Pool, error) {
		if i := slices.Index(names, addr); i >= 0 {
			return links[i], nil
		}
		return nil, fmt.Errorf("there is no server %s", addr)
	})
}
