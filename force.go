package redlock

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/gomodule/redigo/redis"

	"github.com/redlock-go/redlock/internal/protocol"
	"github.com/redlock-go/redlock/internal/quorum"
)

// ForceUnlock takes a lock away from whoever holds it, at a quorum of the nodes,
// and frees it for the next. It is for operators: of a holder that hangs, or of a
// key that has no ttl.
//
// The holder is not stopped. It learns that the lease is lost at its next renewal,
// or at the end of its validity, and believes until then that it holds the lock.
// What the lock protects refuses it from now on only if it is shown the returned
// Status's Token, as by the next holder: that is greater than the token of every
// lease before this call, and less than those of all after it.
//
// The Status is what was found at the nodes, and broken: Holder is "" if nobody
// held the lock. Who waits stays in line. It takes at most four node timeouts, and
// another one, or half a second if that is longer, so that renewals and attempts on
// their way find the lock taken. Where another caller gets the lock meanwhile, it asks
// again, up to three times in all. When the lock was taken, ctx matters no more.
//
// Errors: a *QuorumError (ErrNoQuorum) when less than a quorum answered, or took
// part; ctx's cause; ErrClosed; ErrConfig for a name that no lock can have. After
// one of the first two the lock may be broken, without a token that tells the holder
// from the next: repeat the call. Where a QuorumError's Op is "unlock", the lock was
// broken, and may stay taken for a ttl.
func (c *Client) ForceUnlock(ctx context.Context, name string) (Status, error) {
	for try := 1; ; try++ {
		s, err := c.Inspect(ctx, name)
		if err == nil && ctx.Err() != nil {
			err = fmt.Errorf("redlock: force unlock %q: %w", name, context.Cause(ctx))
		}
		if err != nil {
			return s, err
		}
		err = c.forceUnlock(ctx, &s)
		if try == seizeTries || !changedHands(err) {
			return s, err
		}
	}
}

// seizeTries is how often ForceUnlock asks for the lock's holder, where another caller
// gets the lock between this question and the attempt to take it.
const seizeTries = 3

// changedHands reports whether the lock could not be taken since a node named a holder
// that Inspect had not found.
func changedHands(err error) bool {
	var q *QuorumError
	return errors.As(err, &q) && slices.ContainsFunc(q.Votes, func(v Vote) bool { return v.Holder != "" && v.Outcome == Refused })
}

// forceUnlock takes the lock away from the holders in s, and frees it. It records in s
// what it took, and the token.
func (c *Client) forceUnlock(ctx context.Context, s *Status) error {
	if err := c.enter(ctx); err != nil {
		return fmt.Errorf("redlock: force unlock %q: %w", s.Name, err)
	}
	defer c.leave()
	lease, err := c.Mutex(s.Name).seize(ctx, s)
	if err != nil {
		return err
	}
	time.Sleep(max(c.opts.voteTimeout(), claim)) // renewals that began before are over then, and bids
	if err := lease.Unlock(ctx); err != nil && !errors.Is(err, ErrLost) {
		return err
	}
	return nil
}

// seize makes a lease of a lock that may be held. It notes in s what it took, and
// the token.
func (m *Mutex) seize(ctx context.Context, s *Status) (*Lease, error) {
	owner, found := m.opts.newOwner(), s.holders()
	b := m.newBallot(seizing, owner, nil, m.opts.clock())
	for i := range b.Votes {
		v := &b.Votes[i]
		if v.Right, v.Skip = v.Node.Right(m.opts.ttl); v.Skip != nil {
			continue
		}
		stripe := m.stripe
		if !m.opts.fencing {
			stripe = ""
		}
		v.Call.Args = []any{protocol.Seize.Text, "2", m.keyArg, v.Right.Record, owner, m.ttlArg, stripe, m.least}
		v.Call.Args = append(v.Call.Args, found...)
	}
	b.spareAMinority(m.opts.voteTimeout())
	b.Send(0, true)
	v, err := b.Await(ctx, m.opts.voteTimeout(), nil)
	var token int64
	failure := b
	if err == nil && v == quorum.Granted {
		token, failure, err = m.tokenOf(ctx, b)
	}
	switch {
	case err != nil:
		b.rollback()
		return nil, fmt.Errorf("redlock: %s %q: %w", seizing.op, m.name, err)
	case failure != nil:
		b.rollback()
		return nil, failure.quorumError()
	}
	b.took(s)
	s.sum(m.client.cluster.Need)
	if m.opts.fencing {
		s.Token = token // others may have counted higher at a minority: later leases need not
	}
	lease := newLease(m, b, token, nil)
	if !m.client.adopt(ctx, lease.h) {
		b.rollback()
		return nil, fmt.Errorf("redlock: %s %q: %w", seizing.op, m.name, ErrClosed)
	}
	return lease, nil
}

// holders returns the values of the lock's key that the nodes showed. The script replaces
// only these: it may arrive when ForceUnlock has long returned, and must not take a
// later lease.
func (s *Status) holders() (values []any) {
	for i := range s.Nodes {
		switch value := s.Nodes[i].Holder; value {
		case "":
		case emptyHolder:
			values = append(values, "")
		default:
			values = append(values, value)
		}
	}
	return values
}

// took records in s what a ballot that seized the lock found at the nodes.
func (b *ballot) took(s *Status) {
	for i, a := range b.Answers() {
		if a.Count == quorum.Yes {
			s.Nodes[i].has(a.Holder, a.Remaining)
			s.Nodes[i].Count = max(s.Nodes[i].Count, a.Token)
		}
	}
}

// readSeized reads {count, whose key it was, milliseconds}.
func readSeized(reply []any) quorum.Answer {
	var ms int64
	a := quorum.Answer{Count: quorum.Yes, Outcome: quorum.Confirmed}
	if _, err := redis.Scan(reply, &a.Token, &a.Holder, &ms); err != nil {
		return quorum.Answer{Count: quorum.NoAnswer, Outcome: quorum.Unknown, Cause: fmt.Errorf("unexpected reply to %s: %w", seizing.op, err)}
	}
	a.Holder, a.Remaining = foundHolder(a.Holder, ms), remaining(ms)
	return a
}
