package redlock

import (
	"context"
	"fmt"
	"log/slog"
	"runtime"
	"time"
)

// The renewals of a lease: when they begin, what they ask, and what comes of them.

// planRenewal sets the next renewal after one that began at start. A part of
// the time is random, so that leases that were granted together are not renewed
// together for ever. But the instants are rounded, so that those of many leases
// coincide and share their writes. Called under h.mu.
func (h *holding) planRenewal(start time.Duration) {
	every := h.mutex.opts.renewal()
	h.renewAt = forever
	if every > 0 && h.until < h.limit {
		at := start + every - h.mutex.opts.chance.below(every/4+1, "renewing")
		h.renewAt = at - at%(every/64+1)
	}
}

// queueRenewal queues a renewal. Called under h.mu: whether the lease is still
// held is checked, and the renewal queued, under the lock under which its
// release is queued. So on every connection a renewal is ahead of the release,
// and none ever comes after it.
func (h *holding) queueRenewal(ctx context.Context, heir *holding) (b *ballot, crowded bool) {
	m := h.mutex
	b = m.newBallot(renewing, h.owner, nil, h.now())
	var owner any = h.owner
	for i := range b.votes {
		v := &b.votes[i]
		if v.standing = v.node.standing.Load(); v.standing == nil {
			v.barred = v.node.why()
			continue
		}
		v.call.Args = []any{renewScript.sha, "2", m.keyArg, v.standing.record, owner, m.ttlArg, m.least}
		if h.untold {
			v.call.Args = append(v.call.Args, h.waiter.ticket)
		}
	}
	b.heir, b.lease, b.stood = heir, h, h.until
	b.within(ctx)
	crowded = b.queue(0, true)
	h.mayHold |= b.sent()
	h.keysEnd = m.opts.validUntil(b.start)
	return b, crowded
}

// recall is what a node's vote in a renewal means: that the key is the lease's proves
// nothing where an earlier renewal, which did not succeed, found it missing and put it
// back. That counts also where its answer came too late. (The answer to the earlier
// one is ahead on the same connection; it is unknown only where that broke.) Nor does
// it count where the node is still to undo the attempt, which became a lease by its bid
// at others: that takes the key away again.
func (h *holding) recall(n *node, v voice) voice {
	undone := n.owes(h.owner)
	h.mu.Lock()
	defer h.mu.Unlock()
	if v == restored {
		h.restored.add(n.index)
	} else if v == mine && h.restored.has(n.index) {
		v = restored
	}
	switch {
	case undone && v == mine:
		return silent
	case undone && v == restored:
		return others
	}
	return v
}

// hurry is how soon a renewal is tried again, at the earliest. That is after a node
// timeout, or a quarter of what is left.
const hurry = 10 * time.Millisecond

var errNoVerdict = fmt.Errorf("no answer within the node timeout")

// renew begins a renewal of the keeper's. Called under h.mu.
func (h *holding) renew() *ballot {
	if h.handle != nil {
		// From the first renewal on, only the user keeps the handle.
		runtime.AddCleanup(h.handle, (*holding).abandon, h)
		h.handle = nil
	}
	b, _ := h.queueRenewal(context.Background(), h)
	h.renewal = b
	h.mutex.client.keeper.move(h, h.next())
	return b
}

// conclude takes the verdict of a renewal, and tells why the lease has ended, if
// it has. A verdict counts only before the old validity ends: a lease that has
// ended stays ended, whatever the nodes said meanwhile.
func (h *holding) conclude(b *ballot, v verdict) (ended error) {
	h.mu.Lock()
	concluded := h.renewal != b // before, or it is not the keeper's
	if !concluded {
		h.renewal = nil
	}
	if why := h.ended(); why != nil || v == taken {
		h.mu.Unlock()
		h.end(ErrLost)
		return h.why()
	}
	var danger *LeaseDanger
	if v == granted {
		// Of two renewals the one that began later counts.
		h.until = max(h.until, min(h.mutex.opts.validUntil(b.start), h.limit))
		h.failing, h.restored, h.untold = false, 0, false
		h.planRenewal(b.start)
	} else if !concluded {
		h.renewAt = h.now() + max(min(h.mutex.opts.voteTimeout(), (h.until-h.now())/4), hurry)
		danger = &LeaseDanger{Name: h.mutex.name, Owner: h.owner, Remaining: h.until - h.now()}
	}
	h.concluded(b, v)
	h.mutex.client.keeper.move(h, h.next())
	first := danger != nil && !h.failing
	h.failing = h.failing || danger != nil
	h.mu.Unlock()
	if danger != nil {
		danger.Err = b.quorumError()
		h.warn(*danger, first)
	}
	return nil
}

// warn tells that a renewal failed while the lease is still valid.
func (h *holding) warn(d LeaseDanger, first bool) {
	opts := h.mutex.opts
	if first {
		opts.herald.log(slog.LevelWarn, "a lease could not be renewed and is lost unless a later renewal succeeds",
			"name", d.Name, "owner", d.Owner, "remaining", d.Remaining, "error", d.Err)
	}
	if opts.tracer != nil {
		d.Time, d.Token = time.Now(), h.token
		report(opts.herald, opts.tracer.LeaseDanger, true, d)
	}
}
