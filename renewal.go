package redlock

import (
	"context"
	"fmt"
	"log/slog"
	"runtime"
	"time"

	"github.com/redlock-go/redlock/internal/admission"
	"github.com/redlock-go/redlock/internal/protocol"
	"github.com/redlock-go/redlock/internal/quorum"
	"github.com/redlock-go/redlock/internal/system"
)

// The renewals of a lease: when they begin, what they ask, and what comes of them.

// planRenewal sets the next renewal after one that began at start. A part of
// the time is random, so that leases that were granted together are not renewed
// together for ever. But the instants are rounded, so that those of many leases
// coincide and share their writes. Called under h.mu.
func (h *holding) planRenewal(start time.Duration) {
	every := h.mutex.opts.renewal()
	h.renewAt = system.Forever
	if every > 0 && h.until < h.limit {
		at := start + every - h.mutex.opts.random.Below(every/4+1, "renewing")
		h.renewAt = at - at%(every/64+1)
	}
}

// queueRenewal queues a renewal. Called under h.mu: whether the lease is still
// held is checked, and the renewal queued, under the lock under which its
// release is queued. So on every connection a renewal is ahead of the release,
// and none ever comes after it.
func (h *holding) queueRenewal(ctx context.Context, scheduled bool) (b *ballot, crowded bool) {
	m := h.mutex
	b = m.newBallot(renewing, h.owner, nil, h.now())
	var owner any = h.owner
	for i := range b.Votes {
		v := &b.Votes[i]
		if v.Right = v.Node.Current(); v.Right == nil {
			v.Skip = v.Node.Why()
			continue
		}
		v.Call.Args = []any{protocol.Renew.SHA, "2", m.keyArg, v.Right.Record, owner, m.ttlArg, m.least}
	}
	b.lease, b.scheduled = h, scheduled
	b.Watcher, b.LateUntil = (*renewal)(b), h.until
	b.trace.setCall(ctx)
	crowded = b.Queue(0, true)
	h.mayHold |= b.Sent()
	h.keysEnd = m.opts.validUntil(b.Start)
	return b, crowded
}

// renewal is the ballot of a renewal, as the watcher of itself.
type renewal ballot

// Answered implements quorum.Watcher.
func (r *renewal) Answered(v *quorum.Vote, a quorum.Answer) quorum.Answer {
	a.Count = r.lease.recount(v.Node, a.Count)
	return a
}

// Decided implements quorum.Watcher.
func (r *renewal) Decided(v quorum.Verdict, late bool) {
	if r.scheduled || late {
		r.lease.conclude((*ballot)(r), v)
	}
}

// recount returns what a node's vote in a renewal counts as. That the key is the lease's
// proves nothing where an earlier renewal, which did not succeed, found it missing and put
// it back. That counts also where its answer came too late. (The answer to the earlier one
// is ahead on the same connection; it is unknown only where that broke.) Nor does it count
// where the node is still to undo the attempt, which became a lease by its bid at others:
// that takes the key away again.
func (h *holding) recount(n *admission.Member, c quorum.Count) quorum.Count {
	undone := n.HasUndo(h.owner)
	h.mu.Lock()
	defer h.mu.Unlock()
	if c == quorum.Recreated {
		h.restored.Add(n.Index)
	} else if c == quorum.Yes && h.restored.Has(n.Index) {
		c = quorum.Recreated
	}
	switch {
	case undone && c == quorum.Yes:
		return quorum.NoAnswer
	case undone && c == quorum.Recreated:
		return quorum.No
	}
	return c
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
	b, _ := h.queueRenewal(context.Background(), true)
	h.renewal = b
	h.mutex.client.keeper.move(h, h.next())
	return b
}

// conclude takes the verdict of a renewal, and returns why the lease has ended; nil if
// it has not. A verdict counts only before the old validity ends: a lease that has
// ended stays ended, whatever the nodes said meanwhile.
func (h *holding) conclude(b *ballot, v quorum.Verdict) (ended error) {
	h.mu.Lock()
	why := h.ended()
	if why == nil && v == quorum.Revoked {
		why = h.revoked(b)
	}
	concluded := h.renewal != b // before, or it is not the keeper's
	if !concluded {
		h.renewal = nil
	}
	if why != nil {
		h.mu.Unlock()
		h.end(why)
		return h.why()
	}
	var danger *LeaseDanger
	if v == quorum.Granted {
		// Of two renewals the one that began later counts.
		h.until = max(h.until, min(h.mutex.opts.validUntil(b.Start), h.limit))
		h.failure, h.restored = nil, 0
		h.planRenewal(b.Start)
	} else if !concluded {
		h.renewAt = h.now() + max(min(h.mutex.opts.voteTimeout(), (h.until-h.now())/4), hurry)
		danger = &LeaseDanger{Name: h.mutex.name, Owner: h.owner, Remaining: h.until - h.now()}
	}
	first := danger != nil && h.failure == nil
	if v != quorum.Granted && (danger != nil || h.mutex.opts.renewal() == 0) {
		h.failure = b.quorumError()
	}
	h.concluded(b, v)
	h.mutex.client.keeper.move(h, h.next())
	failure := h.failure
	h.mu.Unlock()
	if danger != nil {
		danger.Err = failure
		h.warn(*danger, first)
	}
	return nil
}

// warn tells that a renewal failed while the lease is still valid.
func (h *holding) warn(d LeaseDanger, first bool) {
	opts := h.mutex.opts
	if first {
		opts.events.Log(slog.LevelWarn, "a lease could not be renewed and is lost unless a later renewal succeeds",
			"name", d.Name, "owner", d.Owner, "remaining", d.Remaining, "error", d.Err)
	}
	if opts.tracer != nil {
		d.Time, d.Token = time.Now(), h.token
		report(opts.events, opts.tracer.LeaseDanger, true, d)
	}
}
