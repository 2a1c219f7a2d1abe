package redlock

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/redlock-go/redlock/internal/lock"
	"github.com/redlock-go/redlock/internal/protocol"
)

// ForceUnlock takes a lock away from its holder, at a quorum of the nodes,
// and frees it for the next. It is for operators: of a holder that hangs, or of a
// key that has no ttl.
//
// The holder is not stopped. It learns that the lease is lost at its next renewal,
// or at the end of its validity, and believes until then that it holds the lock.
// What the lock protects refuses it from now on only if it is shown the returned
// Status's Token, as by the next holder: that is greater than the token of every
// lease before this call, and less than that of every lease after it that holds the lock
// alone; a reader's after it is not less.
//
// The Status is what was found at the nodes, and broken: Holder is "" if nobody
// held the lock alone; Readers has the readers that held it, all of whom lose it. Waiters keep
// their positions. It takes at most four node timeouts, and another one, or half a second if
// that is longer, so that renewals and attempts on their way find the lock taken; one more
// where readers held it. Where another caller gets the lock meanwhile, it asks
// again, up to three times in all. When the lock was taken, ctx matters no more.
//
// Errors: a *QuorumError (ErrNoQuorum) when less than a quorum answered, or took
// part; ctx's cause; ErrClosed; ErrConfig for a name that no lock can have. After
// one of the first two the lock may be broken, without a token that distinguishes the holder
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
	return errors.As(err, &q) && slices.ContainsFunc(q.Votes, func(v Vote) bool { return (v.Holder != "" || v.Shared) && v.Outcome == Refused })
}

// forceUnlock takes the lock away from the holders in s, and frees it. It records in s
// what it took, and the token.
func (c *Client) forceUnlock(ctx context.Context, s *Status) error {
	m := c.Mutex(s.Name)
	if err := c.life.Enter(ctx); err != nil {
		return fmt.Errorf("redlock: force unlock %q: %w", s.Name, err)
	}
	defer c.life.Leave()
	values, readers := s.holders(), s.readersUntil(c.opts.clock()+c.opts.voteTimeout())
	held, found, failure := m.exclusive.Seize(ctx, func(node int) lock.Target {
		return lock.Target{Values: values, ReadersUntil: readers[node]}
	})
	s.add(found, c.cluster.Need)
	switch {
	case failure != nil && failure.Cause != nil:
		return fmt.Errorf("redlock: force unlock %q: %w", s.Name, failure.Cause)
	case failure != nil:
		return quorumError(s.Name, failure.Refusal.Votes)
	}
	if c.opts.fencing {
		s.Token = held.Token // others may have counted higher at a minority: later leases need not
	}
	wait := max(c.opts.voteTimeout(), protocol.ReservationTTL) // renewals that began before are over then, and parked attempts
	if slices.Max(readers) > 0 {
		wait += s.took // a command that is late finds readersUntil over
	}
	time.Sleep(wait)
	lease := &Lease{lock: &m.locker}
	held.Bind(&lease.handle)
	if err := lease.Unlock(ctx); err != nil && !errors.Is(err, ErrLost) {
		return err
	}
	return nil
}

// holders returns the values of the lock's key that the nodes showed. The script replaces
// only these: it may arrive when ForceUnlock has long returned, and must not take a
// later lease.
func (s *Status) holders() (values []any) {
	for i := range s.Nodes {
		switch value := s.Nodes[i].Holder; value {
		case "":
		case lock.EmptyHolder:
			values = append(values, "")
		default:
			values = append(values, value)
		}
	}
	return values
}

// readersUntil returns, for each node, the instant of its clock until which readers may be
// replaced there: that at which the client's clock shows until, and a little later, as it is
// not known when in Inspect the server read its clock. Readers that one node has may come to
// the others meanwhile. 0 where no node has any, or the node did not answer.
func (s *Status) readersUntil(until time.Duration) []time.Duration {
	all := make([]time.Duration, len(s.Nodes))
	if !slices.ContainsFunc(s.Nodes, func(n NodeStatus) bool { return n.shared }) {
		return all
	}
	for i := range s.Nodes {
		if n := &s.Nodes[i]; n.Err == nil {
			all[i] = n.time + until - s.begun
		}
	}
	return all
}

// add records what was found at the nodes that took part in seizing the lock.
func (s *Status) add(found []lock.Found, quorum int) {
	if found == nil {
		return
	}
	for _, f := range found {
		n := &s.Nodes[f.Node]
		n.has(f.Holder, f.Remaining)
		n.Count = max(n.Count, f.Count)
	}
	s.sum(quorum)
}
