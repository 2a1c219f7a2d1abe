package sim

import (
	"fmt"
	"slices"
	"time"

	"github.com/redlock-go/redlock/internal/protocol"
	"github.com/redlock-go/redlock/internal/test/testhook"
)

// noteTransferAt records whose transfer a node has been asked for.
func noteTransferAt(h *simHistory, args []string) {
	const owner, value = 5, 6 // behind the script and its keys
	if args[0] == "EVAL" && args[1] == protocol.Transfer.Text() {
		h.mu.Lock()
		defer h.mu.Unlock()
		h.passed[args[value]] = args[owner]
	}
}

// ownerOf returns the owner of the lease that a key's value stands for, where a transfer has given
// the key the value.
func (h *simHistory) ownerOf(value string) string {
	h.mu.Lock()
	defer h.mu.Unlock()
	if owner, passed := h.passed[value]; passed {
		return owner
	}
	return value
}

// checkTransfers returns the violations of transfers: leases that were resumed twice, others that got the lock in between,
// leases that were not resumed without a cause, and leases that were lost since a transfer failed.
func checkTransfers(h *simHistory) (wrong []string) {
	for _, o := range h.transfers {
		got := o.leases()
		if len(got) > 1 {
			wrong = append(wrong, fmt.Sprintf("%v was resumed by %v and %v", o, got[0].caller, got[1].caller))
		}
		if h.outside == "" {
			wrong = append(wrong, between(h, o)...)
			wrong = append(wrong, inVain(h, o)...)
		}
	}
	for _, v := range h.visits {
		wrong = append(wrong, lostByATransfer(h, v)...)
	}
	return wrong
}

// leases returns the calls that resumed the lease: one at most.
func (o *simTransfer) leases() (all []*simVisit) {
	for _, v := range o.resumed {
		if v.lease != nil {
			all = append(all, v)
		}
	}
	return all
}

// between checks that nobody has the lock between the end of a lease that was transferred and its
// resumption; if nobody resumes it, until its validity would have ended, or a Resume begins, which may release it.
func between(h *simHistory, o *simTransfer) (wrong []string) {
	end := o.until
	if got := o.leases(); len(got) > 0 {
		end = got[0].answered
	} else if len(o.resumed) > 0 {
		end = min(end, o.resumed[0].called)
	}
	for _, v := range h.leases(o.of.name()) {
		if v == o.of || v.from == o || !v.held().overlaps(simSpan{o.of.ended, end}) || isForced(h, o.of, v) || isForced(h, v, o.of) {
			continue
		}
		wrong = append(wrong, fmt.Sprintf("%v: %v, token %d, got in between, at %v", o, v.caller, v.token, v.answered))
	}
	return wrong
}

// isForced reports whether ForceUnlock may have taken the lock from the first lease, so that the second one
// got it.
func isForced(h *simHistory, a, b *simVisit) bool {
	return slices.ContainsFunc(h.forced, func(f *simForce) bool { return a.wants(f.lock) && f.excuses(a, b) })
}

// lostByATransfer checks that a lease goes on after a transfer that failed, where a quorum of the
// nodes is well for its client from then on.
func lostByATransfer(h *simHistory, v *simVisit) (wrong []string) {
	c := v.caller.client
	if v.keptAt == 0 || v.keptUntil == 0 || v.robbed > 0 || len(h.forced) > 0 || h.outside != "" || c.isOver() || !h.plan.renewal ||
		v.terms().Lease.MaxHold > 0 || h.plan.odds != (simOdds{}) {
		return nil
	}
	ill := 0
	for i := range h.plan.nodes {
		if h.run.wellness.ill(i, c.index).touch(v.keptAt-v.terms().Lease.TTL, v.keptUntil) {
			ill++
		}
	}
	shaken := slices.ContainsFunc(h.run.wellness.shaken, func(at time.Duration) bool { return at >= v.called && at <= v.keptUntil })
	if shaken || ill > h.plan.nodes-h.plan.quorum() {
		return nil
	}
	return []string{fmt.Sprintf("%v's lease of %s, token %d, was lost at %v without a cause since its transfer failed at %v: %v",
		v.caller, v.name(), v.token, v.keptUntil, v.keptAt, testhook.Lease(v.lease).End().Err)}
}

// inVain checks that a lease is resumed by the only call that tries to in time, where all nodes are
// well for both clients.
func inVain(h *simHistory, o *simTransfer) (wrong []string) {
	if len(o.resumed) != 1 || h.plan.odds != (simOdds{}) || len(h.forced) > 0 {
		return nil
	}
	v := o.resumed[0]
	c := v.caller.client
	const inTime = 100 * time.Millisecond
	if v.lease != nil || c.isOver() || v.called+inTime+(o.until-o.at)/20 > o.until {
		return nil
	}
	for i := range h.plan.nodes {
		for _, client := range []*simClient{c, o.of.caller.client} {
			if h.run.wellness.ill(i, client.index).touch(o.at, v.answered) {
				return nil
			}
		}
	}
	return []string{fmt.Sprintf("%v: %v did not resume it at %v, though all nodes were well: %v", o, v.caller, v.called, v.err)}
}

// letForge has a client forge a text now and then: from one of an earlier transfer, and an owner
// that it has seen.
func letForge(c *simCaller, o *simTransfer, turn uint64) {
	r := c.client.run
	if c.roll(turn, 93, 3) > 0 {
		return
	}
	in := c.span(turn, 94, 4*r.plan.ttl)
	by := r.clients[c.roll(turn, 95, uint64(r.plan.clients))]
	place := resumerPlace(c, turn, 9)
	r.work.Go(func() {
		time.Sleep(in)
		if !by.isOver() && r.awake() < r.plan.busy {
			forge(by.newResumer(place), o)
		}
	})
}

// forge resumes the lease that holds the lock now, by a text with its owner, which every refused
// caller sees. The holder has not transferred it, so nobody may get it.
func forge(c *simCaller, o *simTransfer) {
	h := &c.client.run.history
	h.mu.Lock()
	leases := h.leases(o.of.name())
	h.mu.Unlock()
	at := slices.IndexFunc(leases, func(v *simVisit) bool { return v.lease.Valid() && canTransfer(v) })
	t, err := protocol.ParseTransferText(o.text)
	if at < 0 || err != nil { // noteTransfer has said so
		return
	}
	holder := leases[at]
	t.Secret = holder.lease.Owner()
	h.note("%v forges a text for token %d of %v", c, holder.token, holder.caller)
	if lease, err := c.client.client.Resume(c.life, t.String(), withRandom(c.random)); err == nil {
		h.fail("%v: %v resumed token %d of %v by a forged text", o, c, holder.token, holder.caller)
		_ = lease.Unlock(c.life)
	}
}
