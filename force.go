package redlock

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/gomodule/redigo/redis"
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
// their way find the lock taken. When it was taken, ctx matters no more.
//
// Errors: a *QuorumError (ErrNoQuorum) when less than a quorum answered, or took
// part; ctx's cause; ErrClosed; ErrConfig for a name that no lock can have. After
// one of the first two the lock may be broken, without a token that tells the holder
// from the next: repeat the call. Where a QuorumError's Op is "unlock", the lock was
// broken, and may stay taken for a ttl.
func (c *Client) ForceUnlock(ctx context.Context, name string) (Status, error) {
	s, err := c.Inspect(ctx, name)
	if err == nil && ctx.Err() != nil {
		err = fmt.Errorf("redlock: force unlock %q: %w", name, context.Cause(ctx))
	}
	if err != nil {
		return s, err
	}
	if err := c.enter(ctx); err != nil {
		return s, fmt.Errorf("redlock: force unlock %q: %w", name, err)
	}
	defer c.leave()
	m := c.Mutex(name)
	lease, err := m.seize(ctx, &s)
	if err != nil {
		return s, err
	}
	time.Sleep(max(c.opts.voteTimeout(), claim)) // renewals that began before are over then, and bids
	if err := lease.Unlock(ctx); err != nil && !errors.Is(err, ErrLost) {
		return s, err
	}
	return s, nil
}

// seize makes a lease of a lock that may be held. It notes in s what it took, and
// the token.
func (m *Mutex) seize(ctx context.Context, s *Status) (*Lease, error) {
	owner := m.opts.newOwner()
	b := m.newBallot(seizing, owner, nil, m.opts.clock())
	for i := range b.votes {
		v := &b.votes[i]
		if v.standing, v.barred = v.node.mayVote(m.opts.ttl); v.barred != nil {
			continue
		}
		stripe := m.stripe
		if !m.opts.fencing {
			stripe = ""
		}
		v.call.Args = []any{seizeScript.text, "2", m.keyArg, v.standing.record, owner, m.ttlArg, stripe, m.least}
	}
	b.spareAMinority(m.opts.voteTimeout())
	b.send(0, true)
	v, err := b.await(ctx, m.opts.voteTimeout())
	var token int64
	failure := b
	if err == nil && v == granted {
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
	s.sum(b.quorum)
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

// took notes in s what a ballot that seized the lock found at the nodes.
func (b *ballot) took(s *Status) {
	b.mu.Lock()
	defer b.mu.Unlock()
	for i := range b.votes {
		if a := &b.votes[i].answer; a.voice == mine {
			s.Nodes[i].has(a.holder, a.remaining)
			s.Nodes[i].Count = max(s.Nodes[i].Count, a.token)
		}
	}
}

// understandSeized reads {count, whose key it was, milliseconds}.
func understandSeized(reply []any) answer {
	var count, ms int64
	a := answer{voice: mine, outcome: Granted}
	if _, err := redis.Scan(reply, &count, &a.holder, &ms); err != nil {
		return answer{voice: silent, outcome: Unknown, cause: fmt.Errorf("unexpected reply to %s: %w", seizing.op, err)}
	}
	a.token, a.remaining = count, time.Duration(ms)*time.Millisecond
	return a
}
