package lock

import (
	"context"
	"errors"
	"slices"
	"sync"
	"time"

	"github.com/redlock-go/redlock/internal/lease"
	"github.com/redlock-go/redlock/internal/node"
	"github.com/redlock-go/redlock/internal/protocol"
	"github.com/redlock-go/redlock/internal/quorum"
	"github.com/redlock-go/redlock/internal/waitqueue"
)

// Handoff is a hand-off of a lease of one name: the ballot by which nodes read their clocks, and its
// reader.
type Handoff struct {
	lock    *Lock
	passing *lease.Passing // set by Begin

	mu       sync.Mutex // protects what follows
	ballot   *quorum.Ballot
	answered int           // nodes
	settled  bool          // later answers do not count
	readings []Reading     // in the order of the answers
	changed  chan struct{} // holds one signal after changes of answered
}

// Reading is what a node's clock showed in a hand-off.
type Reading struct {
	Record  string        // of the node: the run of the server, and its memory
	Time    time.Duration // the server's clock, since 1970
	Arrived time.Duration // when the answer had come, on the client's clock

	node int
}

// NewHandoff makes a hand-off of a lease of the lock.
func (x *Exclusive) NewHandoff() *Handoff {
	return &Handoff{lock: &x.Lock, changed: make(chan struct{}, 1)}
}

// NewPassing implements lease.Handoff.
func (h *Handoff) NewPassing(owner string) *lease.Passing {
	secret := protocol.Secret(h.lock.terms.Random.ID("handing off"), owner)
	return &lease.Passing{Secret: secret, Value: protocol.TransferValue(secret, h.lock.terms.Label)}
}

// Secret returns the secret by which another process resumes the lease.
func (h *Handoff) Secret() string { return h.passing.Secret }

// Begin implements lease.Handoff. Only nodes vote that execute no earlier renewal after this one.
func (h *Handoff) Begin(ctx context.Context, b *quorum.Ballot, held *lease.Lease, ttl time.Duration) {
	l := h.lock
	h.passing, _ = held.Passing()
	l.begin(b, opHandoff, held.Owner, l.engine.Clock(), quorum.Renew, h)
	b.Recorder = l.engine.Observer.Recorder(ctx, opHandoff, l.Name, held.Owner, nil)
	b.SetCommand("EVAL", []any{protocol.Handoff.Text, "1", l.keys[0], held.Owner, h.passing.Value, milliseconds(ttl)})
	for i := range b.Votes {
		v := &b.Votes[i]
		v.Right, v.Skip = rightToExtend(v.Node, ttl)
	}
	h.ballot = b
}

// handingOff reads the replies of handoff.lua, but for the server's time.
var handingOff = &reader{op: opHandoff, number: readGone, array: readHolder}

// errKeyGone is why a node does not hand a lease off, or transfer it.
var errKeyGone = errors.New("the lease's key is gone there")

// errNotTakenBack is why a node does not keep a lease: what is still to be sent there would take
// the key from the text.
var errNotTakenBack = errors.New("it has not confirmed yet that an earlier hand-off of the lease is taken back")

// errNotUndone is why a node does not keep a lease: what is still to be sent there takes the key.
var errNotUndone = errors.New("it has not confirmed yet that an attempt of the lease is undone")

// readGone reads the only number that handoff.lua returns.
func readGone(n int64) (quorum.Answer, bool) {
	return quorum.Answer{Count: quorum.No, Outcome: quorum.Refused, Cause: errKeyGone}, n == 0
}

// Read implements quorum.Reader. The instant at which the answer is read is not before that of the node's
// reading: docs/safety.md says why that matters.
func (h *Handoff) Read(v *quorum.Vote, reply any, err error) quorum.Answer {
	defer h.count()
	if parts, ok := reply.([]any); err == nil && ok && len(parts) == 2 {
		if _, isTime := parts[1].([]byte); isTime {
			if v.Node.HasUndo(h.passing.Value) {
				return quorum.Answer{Count: quorum.NoAnswer, Outcome: quorum.Refused, Cause: errNotTakenBack}
			}
			now, err := node.ServerTime(reply, nil)
			if err != nil {
				return quorum.Answer{Count: quorum.NoAnswer, Outcome: quorum.Unknown, Cause: err}
			}
			h.add(Reading{Record: recordOf(v), Time: now, Arrived: h.lock.engine.Clock(), node: v.Node.Index})
			return yes
		}
	}
	return handingOff.Read(v, reply, err)
}

// recordOf returns the record by which a node votes.
func recordOf(v *quorum.Vote) string {
	record, _ := v.Right.Record.(string)
	return record
}

func (h *Handoff) add(r Reading) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if !h.settled {
		h.readings = append(h.readings, r)
	}
}

// count counts a node's answer.
func (h *Handoff) count() {
	h.mu.Lock()
	h.answered++
	h.mu.Unlock()
	select {
	case h.changed <- struct{}{}:
	default: // AwaitRest has not read the last signal yet
	}
}

// restGrace is how long a hand-off waits for the nodes that have not answered when a quorum has, in addition to
// the time that the quorum took.
const restGrace = 10 * time.Millisecond

// AwaitRest implements lease.Handoff. The more nodes keep the keys, the more of them may fail before the
// lease is resumed.
func (h *Handoff) AwaitRest() {
	spent := h.lock.engine.Clock() - h.ballot.Start
	timer := time.NewTimer(min(spent+restGrace, h.lock.timeout()))
	defer timer.Stop()
	for {
		h.mu.Lock()
		all := h.answered >= h.ballot.Sent().Len()
		h.mu.Unlock()
		if all {
			return
		}
		select {
		case <-h.changed:
		case <-timer.C:
			return
		}
	}
}

// Settle implements lease.Handoff. A node that is still to undo an attempt of the lease drops its key.
func (h *Handoff) Settle(held *lease.Lease) (kept quorum.NodeSet, failure *quorum.Failure) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.settled = true
	failure = quorum.FailureOf(h.ballot)
	h.readings = slices.DeleteFunc(h.readings, func(r Reading) bool {
		why := h.whyDropped(r.node, held)
		if why != nil {
			failure.Answers[r.node] = quorum.Answer{Count: quorum.NoAnswer, Outcome: quorum.Refused, Cause: why}
		}
		return why != nil
	})
	for _, r := range h.readings {
		kept.Add(r.node)
	}
	if kept.Len() >= failure.Need {
		failure = nil
	}
	return kept, failure
}

// whyDropped returns why a node that has read its clock does not keep the key of a lease; nil if it does.
func (h *Handoff) whyDropped(at int, held *lease.Lease) error {
	switch n := h.lock.engine.Cluster.Nodes[at]; {
	case n.HasUndo(held.Owner):
		return errNotUndone
	case n.HasUndo(h.passing.Value):
		return errNotTakenBack
	}
	return nil
}

// Readings returns the readings of the nodes that keep the lease's keys.
func (h *Handoff) Readings() []Reading {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.readings
}

// TakeBack implements lease.Lock.
func (l *Lock) TakeBack(held *lease.Lease, at quorum.NodeSet) {
	p, _ := held.Passing()
	for _, n := range l.engine.Cluster.Nodes {
		if at.Has(n.Index) {
			n.Undo(&node.Undo{Owner: p.Value, Script: protocol.TakeBack, ByText: true, Args: []any{"1", l.keys[0], p.Value, held.Owner}, Lasts: held.KeysLast()})
		}
	}
}

// releasePassed releases a lease at the nodes in at, where a hand-off of it has not led to a text.
// The undo takes the place of one that gives the key back: that must not come behind the release of
// the owner.
func (l *Lock) releasePassed(held *lease.Lease, at quorum.NodeSet) {
	p, _ := held.Passing()
	for _, n := range l.engine.Cluster.Nodes {
		if at.Has(n.Index) {
			u := l.NewUndo(p.Value, "")
			u.Lasts = max(u.Lasts, held.KeysLast())
			n.Undo(u)
		}
	}
}

// leaveKept undoes a lease that was handed off at the nodes that do not keep its keys, and leaves the wait
// queues of all.
func leaveKept(l *Lock, held *lease.Lease, kept, dropped quorum.NodeSet) {
	var ticket string
	if w, queued := held.Seat.(*waitqueue.Waiter); queued {
		ticket = w.Retire()
	}
	_, passed := held.Passing()
	l.releasePassed(held, dropped&passed)
	for _, n := range l.engine.Cluster.Nodes {
		switch {
		case dropped.Has(n.Index):
			u := l.NewUndo(held.Owner, ticket)
			u.Lasts = max(u.Lasts, held.KeysLast())
			n.Undo(u)
		case kept.Has(n.Index) && ticket != "":
			n.Undo(l.NewUndo(protocol.Nobody+held.Owner, ticket))
		}
	}
}
