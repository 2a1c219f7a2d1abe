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
)

// Transfer is a transfer of a lease of one name: its ballot, and the ballot's reader.
type Transfer struct {
	lock    *Lock
	passing *lease.Passing // set by Begin

	mu       sync.Mutex // protects what follows
	ballot   *quorum.Ballot
	answered int           // nodes
	settled  bool          // later answers do not count
	kept     []keeper      // in the order of the answers
	changed  chan struct{} // holds one signal after changes of answered
}

// keeper is a node that keeps the lease's keys.
type keeper struct {
	node   int
	record string // the run of the server, and its memory
}

// NewTransfer makes a transfer of a lease of the lock.
func (x *Exclusive) NewTransfer() *Transfer {
	return &Transfer{lock: &x.Lock, changed: make(chan struct{}, 1)}
}

// NewPassing implements lease.Transfer.
func (h *Transfer) NewPassing(owner string) *lease.Passing {
	secret := protocol.Secret(h.lock.terms.Random.ID("transferring"), owner)
	return &lease.Passing{Secret: secret, Value: protocol.TransferValue(secret, h.lock.terms.Label)}
}

// Secret returns the secret by which another process resumes the lease.
func (h *Transfer) Secret() string { return h.passing.Secret }

// Begin implements lease.Transfer. Only nodes vote that execute no earlier renewal after this one.
func (h *Transfer) Begin(ctx context.Context, b *quorum.Ballot, owner string, p *lease.Passing, ttl time.Duration) {
	l := h.lock
	h.passing = p
	l.begin(b, opTransfer, owner, l.engine.Clock(), quorum.Renew, h)
	b.Recorder = l.engine.Observer.Recorder(ctx, opTransfer, l.Name, owner, nil)
	b.SetCommand("EVAL", protocol.TransferCall{Key: l.keys[0], Owner: owner, Value: p.Value, TTL: ttl, List: b.List()}.Eval())
	for i := range b.Votes {
		v := &b.Votes[i]
		v.Right, v.Skip = rightToExtend(v.Node, ttl)
	}
	h.ballot = b
}

// errNotTakenBack is why a node does not keep a lease: what is still to be sent there would take
// the key from the text.
var errNotTakenBack = errors.New("it has not confirmed yet that an earlier transfer of the lease is taken back")

// errNotUndone is why a node does not keep a lease: what is still to be sent there takes the key.
var errNotUndone = errors.New("it has not confirmed yet that an attempt of the lease is undone")

// Read implements quorum.Reader.
func (h *Transfer) Read(v *quorum.Vote, reply any, err error) quorum.Answer {
	defer h.count()
	a := transferring.Read(v, reply, err)
	switch {
	case a.Count != quorum.Yes:
		return a
	case v.Node.HasUndo(h.passing.Value):
		return quorum.Answer{Count: quorum.NoAnswer, Outcome: quorum.Refused, Cause: errNotTakenBack}
	}
	h.add(keeper{v.Node.Index, recordOf(v)})
	return a
}

// recordOf returns the record by which a node votes.
func recordOf(v *quorum.Vote) string {
	record, _ := v.Right.Record.(string)
	return record
}

func (h *Transfer) add(k keeper) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if !h.settled {
		h.kept = append(h.kept, k)
	}
}

// count counts a node's answer.
func (h *Transfer) count() {
	h.mu.Lock()
	h.answered++
	h.mu.Unlock()
	select {
	case h.changed <- struct{}{}:
	default: // AwaitRest has not read the last signal yet
	}
}

// restGrace is how long a transfer waits for the nodes that have not answered when a quorum has, in addition to
// the time that the quorum took.
const restGrace = 10 * time.Millisecond

// AwaitRest implements lease.Transfer. The more nodes keep the keys, the more of them may fail before the
// lease is resumed.
func (h *Transfer) AwaitRest() {
	spent := h.lock.engine.Clock() - h.ballot.Start
	timer := time.NewTimer(min(spent+restGrace, h.lock.terms.Lease.NodeTimeout))
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

// Settle implements lease.Transfer. A node that is still to undo an attempt of the lease drops its key.
func (h *Transfer) Settle(owner string) (kept quorum.NodeSet, failure *quorum.Failure) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.settled = true
	failure = quorum.FailureOf(h.ballot)
	h.kept = slices.DeleteFunc(h.kept, func(k keeper) bool {
		why := h.whyDropped(k.node, owner)
		if why != nil {
			failure.Answers[k.node] = quorum.Answer{Count: quorum.NoAnswer, Outcome: quorum.Refused, Cause: why}
		}
		return why != nil
	})
	for _, k := range h.kept {
		kept.Add(k.node)
	}
	if kept.Len() >= failure.Need {
		failure = nil
	}
	return kept, failure
}

// whyDropped returns why a node that has confirmed does not keep the key of a lease; nil if it does.
func (h *Transfer) whyDropped(at int, owner string) error {
	switch n := h.lock.engine.Cluster.Nodes()[at]; {
	case n.HasUndo(owner):
		return errNotUndone
	case n.HasUndo(h.passing.Value):
		return errNotTakenBack
	}
	return nil
}

// Records returns the records of the nodes that keep the lease's keys, sorted.
func (h *Transfer) Records() (records []string) {
	h.mu.Lock()
	defer h.mu.Unlock()
	for _, k := range h.kept {
		records = append(records, k.record)
	}
	slices.Sort(records)
	return records
}

// TakeBack implements lease.Lock.
func (l *Lock) TakeBack(owner string, p lease.Passed) {
	l.engine.undoAt(p.At, func() *node.Undo {
		args := protocol.TakeBackCall{Key: l.keys[0], Value: p.Value, Owner: owner}.Args()
		return &node.Undo{Owner: p.Value, Script: protocol.TakeBack, ByText: true, Args: args, Lasts: p.Lasts}
	})
}

// releasePassed releases a lease where a transfer of it has not led to a text, at the nodes in at. The undo takes
// the place of one that gives the key back: that must not come behind the release of the owner.
func (l *Lock) releasePassed(p lease.Passed, at quorum.NodeSet) {
	l.engine.undoAt(at, func() *node.Undo { return l.newLastingUndo(p.Value, "", p.Lasts) })
}

// leaveKept undoes a lease that was transferred at the nodes that do not keep its keys, and leaves the wait
// queues of all.
func leaveKept(l *Lock, g *lease.Grant, e lease.Ending) {
	var ticket string
	if g.Seat != nil {
		ticket = g.Seat.Retire()
	}
	l.releasePassed(e.Passed, e.Dropped&e.Passed.At)
	l.engine.undoAt(e.Dropped, func() *node.Undo { return l.newLastingUndo(g.Owner, ticket, e.KeysLast) })
	if ticket != "" {
		l.engine.undoAt(e.Kept, func() *node.Undo { return l.NewUndo(protocol.Nobody+g.Owner, ticket) })
	}
}
