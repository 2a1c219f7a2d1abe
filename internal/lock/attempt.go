package lock

import (
	"context"
	"errors"
	"time"

	"github.com/redlock-go/redlock/internal/admission"
	"github.com/redlock-go/redlock/internal/lease"
	"github.com/redlock-go/redlock/internal/life"
	"github.com/redlock-go/redlock/internal/limiter"
	"github.com/redlock-go/redlock/internal/pipe"
	"github.com/redlock-go/redlock/internal/protocol"
	"github.com/redlock-go/redlock/internal/quorum"
	"github.com/redlock-go/redlock/internal/waitqueue"
)

// Attempt is a ballot that acquires a lock.
type Attempt struct {
	quorum.Ballot
	Waits  bool              // the caller waits if it is refused: it need not learn how long the holder has left
	Waiter *waitqueue.Waiter // that the nodes put into their queues if they refuse it; nil if the caller does not queue
	Parked *waitqueue.Parked // the attempt as one that nodes may execute late; nil without a waiter

	lock     *Lock
	validity time.Duration // of the lease, from the ballot's start
	undoing  *quorum.Ballot
	set      setArgs     // without a script
	plain    []plainVote // without a script
}

// attempt makes one attempt, as a waiter or not. It returns a lease, or why it was
// refused; with an error it was ended, by ctx or Close, and the refusal says how far it came,
// if it was begun. Without a lease, what the attempt may have left at the nodes is being
// undone; with an error, a waiter's by its leaving the queue.
func (c *call) attempt(ctx context.Context) (*lease.Lease, *Refusal, error) {
	e := c.engine
	if err := e.Life.Enter(ctx); err != nil {
		return nil, nil, err
	}
	defer e.Life.Leave()
	if ctx.Err() != nil {
		return nil, nil, life.EndOf(ctx)
	}
	a, v, err := c.ask(ctx)
	if a == nil {
		refusal, err := c.notAsked(err)
		return nil, refusal, err
	}
	var token int64
	if v == quorum.Granted {
		if c.permits != nil {
			c.permits.granted(a)
		}
		var failed *quorum.Ballot
		if token, failed, err = c.tokenOf(ctx, &a.Ballot); failed != nil && err == nil {
			a.rollBack()
			return nil, c.refusalOf(failed, nil), nil
		}
	}
	if err == nil && v == quorum.Granted {
		// A ctx that ended at the same time wins: a caller that gave up must not be left
		// with a lock that nobody will release.
		if err = life.EndOf(ctx); err == nil {
			held := a.newLease(token)
			held.Wanted = c.signal
			switch {
			case held.Until() <= e.Clock():
				a.rollBack()
				return nil, lateRefusal(&a.Ballot), nil
			case held.Start(ctx):
				if c.waiter != nil {
					c.waiter.GotLease()
				}
				a.Leave()
				return held, nil, nil
			}
			err = life.ErrClosed
		}
	}
	if err == nil || c.waiter == nil { // else the waiter's Leave undoes it
		a.rollBack()
	}
	return nil, c.refusalOf(&a.Ballot, c.waiter), err
}

// errOutage is why a call has not asked a node that may be well.
var errOutage = errors.New("not asked, since a majority did not answer other calls of this client")

// notAsked returns what the call has learnt without an attempt: its turn has not come, for the reason err.
func (c *call) notAsked(err error) (*Refusal, error) {
	switch {
	case errors.Is(err, limiter.ErrTooLate), errors.Is(err, limiter.ErrUnfit):
		return c.unaskedRefusal(err), nil
	case c.engine.Attempts.Outage() > 0:
		return c.unaskedRefusal(errOutage), err
	}
	return nil, err
}

// ask makes an attempt's ballot when it is the call's turn, and returns its verdict. If a quorum of the nodes has
// executed the waiter's parked attempt meanwhile, it returns that one, and sends nothing. If the wait for the turn
// fails, a is nil.
func (c *call) ask(ctx context.Context) (a *Attempt, v quorum.Verdict, err error) {
	e, w := c.engine, c.waiter
	if w != nil {
		if a = c.executed(); a != nil {
			return a, quorum.Granted, nil
		}
	}
	var begun bool
	if c.turn, begun = e.Attempts.TryEnter(w != nil && w.IsAwaited()); !begun {
		if c.turn, err = e.Attempts.Enter(ctx, max(c.asked, c.rested), c.limit, turnTaker{c.Lock, w}); err != nil {
			return nil, quorum.Failed, err
		}
		if w != nil {
			if a = c.executed(); a != nil { // while it waited for its turn
				c.turn.Leave(limiter.Result{})
				return a, quorum.Granted, nil
			}
		}
	}
	a = c.newAttempt(ctx)
	defer func() { c.endTurn(a, v, err) }()
	a.Timed = c.turn.Timed
	if w != nil {
		w.Begin(a.Parked)
	}
	a.Send(0, true)
	if w != nil {
		c.undo(w, w.Sent(a.Parked)) // a node that is not asked may still have the waiter's previous attempt
	}
	v, err = a.Await(ctx, c.terms.Lease.NodeTimeout, a.rollBack)
	return a, v, err
}

// undo rolls a waiter's stale attempt back, and has the waiter leave the queues there.
func (l *Lock) undo(w *waitqueue.Waiter, s waitqueue.Stale) {
	if s.At != 0 {
		l.NewRollback(s.Owner, w.Ticket(), false, s.Recorder).Send(s.At, false)
	}
}

// Yield rolls a waiter's attempt back at some of the nodes, so that another waiter can get the lock there. The
// waiter keeps its position in the queues.
func (l *Lock) Yield(w *waitqueue.Waiter, owner string, at quorum.NodeSet, after quorum.Recorder) *quorum.Ballot {
	b := l.NewRollback(owner, w.Ticket(), true, after)
	b.Watcher = w.RollingBack(owner, at)
	b.Send(at, false)
	return b
}

// executed returns the waiter's last attempt if a quorum has executed it since it was refused; else nil.
func (c *call) executed() *Attempt {
	g, granted := c.waiter.Granted()
	if !granted {
		return nil
	}
	return c.executedAttempt(g)
}

// turnTaker is a call as the Limiter knows it: a value of its own, made where the call waits, so that the call itself need not be on
// the heap.
type turnTaker struct {
	lock   *Lock
	waiter *waitqueue.Waiter // nil if the caller does not queue
}

// TurnAwaited implements limiter.Caller.
func (t turnTaker) TurnAwaited(ctx context.Context, ahead int) (ended func(error)) {
	return t.lock.engine.Observer.TurnAwaited(ctx, t.lock.Name, ahead)
}

// IsUrgent implements limiter.Caller. A node reserves the lock for half a second for a waiter that it wakes, and takes a
// client for dead that does not answer by then, or whose foremost waiter does not ask for some seconds.
func (t turnTaker) IsUrgent() bool { return t.waiter != nil && t.waiter.IsAwaited() }

// Changed implements limiter.Caller.
func (t turnTaker) Changed() <-chan struct{} {
	if t.waiter == nil {
		return nil
	}
	return t.waiter.Calls()
}

// endTurn lets the next call of the client ask the nodes, after the attempt a, which the verdict v ended, or err from
// outside if it is not nil.
func (c *call) endTurn(a *Attempt, v quorum.Verdict, err error) {
	r := limiter.Result{Start: a.Start, Timeout: c.terms.Lease.NodeTimeout}
	r.Unanswered = v != quorum.Granted && !a.isAnswered()
	if a.Timed || r.Unanswered {
		r.Answered, r.Took = a.Heard(), c.engine.Clock()-a.Start
	}
	if err != nil {
		c.turn.LeaveLater(r)
		return
	}
	c.turn.Leave(r)
}

// isAnswered reports whether a quorum of the nodes is well. A node is, if it answered, perhaps with an error that
// concerns this lock alone, or is about to be ready for it.
func (a *Attempt) isAnswered() bool {
	well := 0
	for _, answer := range a.Answers() {
		switch {
		case answer.Outcome == quorum.Confirmed, answer.Outcome == quorum.Refused,
			isRegistering(answer), quorum.LacksScript(answer):
			well++
		}
	}
	return well >= a.Roster().Need
}

// newAttempt makes an attempt over the nodes that may vote.
func (c *call) newAttempt(ctx context.Context) *Attempt {
	l, w := c.Lock, c.waiter
	a := l.engine.spares.attempt()
	a.lock, a.Waits, a.Waiter, a.validity = l, c.waits, w, l.terms.Lease.Validity
	if c.signal != nil {
		c.forget(l.engine) // the attempt before
	}
	c.alert = newAlert(l)
	l.begin(&a.Ballot, opLock, c.owner, l.engine.Clock(), quorum.Acquire, l.Reader)
	a.Ballot.Attempt, a.Spare = true, a
	a.Recorder = l.engine.Observer.Recorder(ctx, opLock, l.Name, c.owner, nil)
	a.SetCommand("EVALSHA", nil)
	if w != nil {
		a.Parked = w.Park(&a.Ballot)
		a.Rule, a.Watcher = quorum.AcquireWaiting, a.Parked
	}
	a.AskVoters(l.terms.Lease.TTL)
	l.PrepareAttempt(a)
	if w != nil {
		l.engine.spareAMinority(&a.Ballot)
	}
	return a
}

// executedAttempt returns a waiter's attempt that a quorum executed after it had refused it,
// as a ballot that was granted: hooks and counters see the votes like all others.
func (c *call) executedAttempt(g waitqueue.Grant) *Attempt {
	l := c.Lock
	a := &Attempt{lock: l, Waits: true, Waiter: c.waiter, validity: l.terms.Wait.ExecutedValidity}
	a.Under(g.Attempt.Roster())
	l.begin(&a.Ballot, opLock, g.Attempt.Owner, g.Attempt.Start, quorum.AcquireWaiting, l.Reader)
	a.Recorder = l.engine.Observer.Recorder(context.Background(), opLock, l.Name, g.Attempt.Owner, g.Recorder)
	a.SetAnswers(g.Attempt.Sent(), func(i int) (*admission.VoteRight, quorum.Answer) {
		answer := quorum.Answer{Count: quorum.NoAnswer, Outcome: quorum.NotSent}
		if g.Tokens[i] > 0 {
			answer = quorum.Answer{Count: quorum.Yes, Outcome: quorum.Confirmed, Token: g.Tokens[i]}
		}
		return g.Attempt.Votes[i].Right, answer
	})
	return a
}

// rollBack undoes the attempt at every node that did or may yet execute it, behind the attempt
// on the same connections, and does not wait. Nodes that cannot be reached get it later. A
// waiter keeps its position in the queues.
func (a *Attempt) rollBack() {
	switch {
	case a.undoing != nil:
	case a.Waiter != nil:
		a.undoing = a.lock.Yield(a.Waiter, a.Owner, a.MayHold(), a.Recorder)
	default:
		l := a.lock
		a.undoing = l.newRelease(a.Owner, l.engine.Clock(), Release{ReleaseCall: protocol.ReleaseCall{PassedQueue: passedQueue(&a.Ballot)}},
			l.engine.Observer.Recorder(context.Background(), opRollback, l.Name, a.Owner, a.Recorder))
		at := a.Sent()
		if l.script == protocol.GiveBack { // it looks at all slots, so nodes that refused the attempt do not get it
			at = a.MayHold()
		}
		a.undoing.Send(at, false)
	}
}

// passedQueue reports whether a node granted the attempt though waiters stand in its queue.
func passedQueue(b *quorum.Ballot) (passed bool) {
	for _, answer := range b.Answers() {
		passed = passed || answer.Holder == protocol.Reservation
	}
	return passed
}

// newLease makes the lease that the attempt was granted.
func (a *Attempt) newLease(token int64) *lease.Lease {
	g := lease.Grant{Name: a.lock.Name, Owner: a.Owner, OwnerArg: a.set[ownerOfSet], Token: token, Begun: a.Start, Validity: a.validity, MayHold: a.Sent(), List: a.List()}
	if a.Waiter != nil {
		g.Seat = a.Waiter
		g.MayHold |= a.Waiter.Nodes()
	}
	return a.lock.engine.Renewer.New(a.lock, g)
}

// errSpared is why a node is not asked although it could be.
var errSpared = errors.New("not asked, since too few others can be")

// spareAMinority keeps a ballot from the nodes where too few can be asked: it would delay
// callers that reach a quorum.
func (e *Engine) spareAMinority(b *quorum.Ballot) {
	able := 0
	var owing quorum.NodeSet
	for i := range b.Votes {
		if v := &b.Votes[i]; v.Skip != nil {
			continue
		} else if v.Right.On().Silence(b.Start) <= b.Timeout {
			able++
		} else {
			owing.Add(i)
			v.Node.ReportStalled()
		}
	}
	if able >= b.Roster().Need {
		return
	}
	for i := range b.Votes {
		switch v := &b.Votes[i]; {
		case owing.Has(i):
			v.Skip = pipe.StalledFor(v.Right.On().Silence(b.Start))
		case v.Skip == nil:
			v.Skip = errSpared
		}
	}
}

// Fencing tokens: for one lock name, every lease that holds the lock alone has a greater token
// than every lease before it, without a consensus store. Each admitted node counts its grants.
// The greatest count T of a quorum becomes the token once a quorum is known to stand at T or
// above: any later lease is granted by one of those nodes, which counts on from there. For a
// share a node's count is read and not raised, so its token is T or above as well, but may be
// T. docs/safety.md has the proof.

// errNotAsked is why a node that did not grant is not raised.
var errNotAsked = errors.New("it had no part in the grant")

// tokenOf settles the token of a ballot that was granted. Where the quorum agrees, which is
// nearly always, that takes no further round trip; else the nodes are raised to the greatest
// count, as long as the lease stands there. It returns the ballot that did not reach a quorum
// as failed.
func (l *Lock) tokenOf(ctx context.Context, granted *quorum.Ballot) (token int64, failed *quorum.Ballot, err error) {
	if !l.terms.Fencing {
		return 0, nil, nil
	}
	token, agreed := granted.Greatest()
	if agreed >= granted.Roster().Need {
		return token, nil, nil
	}
	raise := new(quorum.Ballot)
	raise.Under(granted.Roster())
	l.begin(raise, opLock, granted.Owner, l.engine.Clock(), quorum.Confirm, raising)
	raise.Recorder = l.engine.Observer.Recorder(ctx, opRaise, l.Name, granted.Owner, nil)
	raise.SetCommand("EVALSHA", nil)
	call := protocol.RaiseCall{Owner: granted.Owner, Token: token}
	for i := range raise.Votes {
		v := &raise.Votes[i]
		v.Skip = errNotAsked
		if right := granted.Votes[i].Right; right != nil {
			v.Skip, v.Right = nil, right
			v.Call.Args = l.kind.Raise(&l.terms.settings, call, right.Record)
		}
	}
	raise.Send(0, true)
	v, err := raise.Await(ctx, l.terms.Lease.NodeTimeout, nil)
	if v != quorum.Granted {
		return 0, raise, err
	}
	return token, nil, nil
}
