package redlock

// How a lock passes to another owner, or becomes free, without an Unlock; and how a caller asks for that.

import (
	"context"
	"errors"
	"fmt"
	"math"
	"runtime"
	"slices"
	"time"

	"github.com/redlock-go/redlock/internal/lease"
	"github.com/redlock-go/redlock/internal/life"
	"github.com/redlock-go/redlock/internal/lock"
	"github.com/redlock-go/redlock/internal/printable"
	"github.com/redlock-go/redlock/internal/protocol"
)

// ForceUnlock takes a lock away from its holder, or all its readers, at a quorum of the nodes, and frees it. It returns what
// it found; the Status's Token is greater than that of every earlier lease. The holder is not stopped: show this Token to
// the protected resource. Success takes half a second or more. Once the lock is taken, ctx does not stop the call.
//
// Errors: a *QuorumError (ErrNoQuorum) or ctx's cause (repeat the call); ErrClosed; ErrConfig for a bad name. See
// docs/operations.md, A lock is stuck.
func (c *Client) ForceUnlock(ctx context.Context, name string) (Status, error) {
	for try := 1; ; try++ {
		s, err := c.Inspect(ctx, name)
		if err == nil && ctx.Err() != nil {
			err = fmt.Errorf("redlock: force unlock %q: %w", printable.Cut(name), life.EndOf(ctx))
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
	return errors.As(err, &q) && slices.ContainsFunc(q.Votes, func(v Vote) bool { return (v.Holder != "" || v.Shared) && v.Outcome == "refused" })
}

// forceUnlock takes the lock away from the holders in s, and frees it. It records in s
// what it took, and the token.
func (c *Client) forceUnlock(ctx context.Context, s *Status) error {
	m := c.Mutex(s.Name, option(forOperator))
	if err := c.life.Enter(ctx); err != nil {
		return fmt.Errorf("redlock: force unlock %q: %w", printable.Cut(s.Name), err)
	}
	defer c.life.Leave()
	values, readers := s.holders(), s.readersUntil(c.opts.clock()+c.opts.voteTimeout())
	held, found, failure := m.exclusive.Seize(ctx, func(node int) lock.Target {
		if node >= len(readers) { // it joined since Inspect
			return lock.Target{Values: values}
		}
		return lock.Target{Values: values, ReadersUntil: readers[node]}
	})
	s.add(found, c.cluster.Need())
	switch {
	case failure != nil && failure.Cause != nil:
		return fmt.Errorf("redlock: force unlock %q: %w", printable.Cut(s.Name), failure.Cause)
	case failure != nil:
		return quorumError(s.Name, failure.Refusal.Votes)
	}
	if !c.opts.noFencing {
		s.Token = held.Token // others may have counted higher at a minority: later leases need not
	}
	wait := max(c.opts.voteTimeout(), protocol.ReservationTTL) // renewals that began before are over then, and parked attempts
	if slices.Max(readers) > 0 {
		wait += s.took // a command that is late finds readersUntil over
	}
	time.Sleep(wait)
	lease := m.newLease(held)
	if err := lease.Unlock(ctx); err != nil && !errors.Is(err, ErrLost) {
		return err
	}
	c.locks.Board().Announce(m.lock.Keys(), protocol.Announcement{}, false)
	c.nodes().WakeWaiters(ctx, m.opts.prefix+s.Name)
	return nil
}

// holders returns the values of the lock's key that the nodes showed. The script replaces
// only these: it may arrive when ForceUnlock has long returned, and must not take a
// later lease. A holder's lease may end before, and the lock rest.
func (s *Status) holders() (values []any) {
	for i := range s.Nodes {
		switch value := s.Nodes[i].Holder; {
		case value == "":
		case value == protocol.EmptyHolder:
			values = append(values, "")
		default:
			values = append(values, value, protocol.Resting+value) // its lease may end meanwhile
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
		if f.Node >= len(s.Nodes) { // it joined since Inspect
			continue
		}
		n := &s.Nodes[f.Node]
		n.has(f.Holder, f.Remaining)
		n.Count = max(n.Count, f.Count)
	}
	s.sum(quorum)
}

// Ask asks the holder of a lock to let it go. A holder whose lease is WithWanted learns of it by
// Lease.Wanted. Ask returns nil when a quorum of the nodes has taken the request, also where no
// holder learns of it. It takes at most one node timeout, after the first connections.
//
// Errors: a *QuorumError (ErrNoQuorum), with ctx's cause if that ended the call; ErrClosed;
// ErrConfig for a bad name.
func (c *Client) Ask(ctx context.Context, name string) error {
	ctx, call := c.observe.begin(ctx, "ask", name)
	err := c.ask(ctx, name)
	call.end(nil, err)
	return err
}

func (c *Client) ask(ctx context.Context, name string) error {
	m := c.Mutex(name)
	if m.err != nil {
		return m.err
	}
	if err := c.life.Enter(ctx); err != nil {
		return fmt.Errorf("redlock: ask %q: %w", printable.Cut(name), err)
	}
	defer c.life.Leave()
	begun := c.opts.clock()
	votes := c.votesFor(c.nodes().Ask(ctx, m.opts.prefix+name))
	q := &QuorumError{Op: "ask", Name: name, Need: c.cluster.Need(), Elapsed: c.opts.clock() - begun, Votes: votes}
	if q.count("granted") < q.Need {
		return q
	}
	return nil
}

// Transfer ends the lease without releasing the lock, and returns a text for Client.Resume. Stop
// working before you pass the text on, and keep it as secret as a password. It is one line of
// printable ASCII of less than 64 KB. Without a Resume the lock becomes free a ttl later, or at the
// end of a longer ExtendTo. Transfer takes at most two node timeouts. See docs/primitives.md,
// Transfer.
//
// Errors: those of Extend; ErrConfig for a lease that cannot be transferred.
func (l *Lease) Transfer(ctx context.Context) (string, error) {
	defer runtime.KeepAlive(l)
	ctx, call := l.lock.client.observe.begin(ctx, "transfer", l.lock.name)
	text, err := l.transfer(ctx)
	call.end(l, err)
	return text, err
}

func (l *Lease) transfer(ctx context.Context) (string, error) {
	m := l.lock
	switch {
	case !m.kind.transfers:
		return "", m.cannotTransfer(lease.ErrShared)
	case m.opts.endsLate():
		return "", errLate("a lease that is transferred")
	}
	if !m.fitsIntoText() {
		return "", configError("the lease of %q cannot be transferred: its text would have more than %d bytes, since servers have long run_ids",
			printable.Cut(m.name), protocol.MaxTransferText)
	}
	var exclusive lock.Exclusive
	exclusive.Init(m.client.locks, m.opts.terms, m.opts.prefix, m.name)
	ballot := exclusive.NewTransfer()
	until, e, err := l.handle.Transfer(ctx, ballot)
	if err != nil {
		return "", m.cannotTransfer(err)
	}
	if err := l.extension("transfer", e); err != nil {
		return "", err
	}
	text := &protocol.TransferText{Prefix: m.opts.prefix, Name: m.name, Label: m.opts.label, Secret: ballot.Secret(), Token: l.Token(), Size: len(m.client.cluster.Nodes()),
		Left: max(until-m.opts.clock(), 0).Microseconds(), Records: ballot.Records()}
	return text.String(), nil
}

// fitsIntoText reports whether the text of a lease of the lock can be read again, whichever nodes
// keep the lease.
func (l *locker) fitsIntoText() bool {
	const most = math.MaxInt64
	text := &protocol.TransferText{Prefix: l.opts.prefix, Name: l.name, Label: l.opts.label, Secret: protocol.TransferValue("", ""),
		Token: most, Size: len(l.client.cluster.Nodes()), Left: most}
	for _, n := range l.client.cluster.Nodes() {
		if right := n.Current(); right != nil {
			record, _ := right.Record.(string)
			text.Records = append(text.Records, record)
		}
	}
	return len(text.String()) <= protocol.MaxTransferText
}

// cannotTransfer returns the error of a lease that cannot be transferred. Nothing has happened to it.
func (l *locker) cannotTransfer(why error) error {
	if errors.Is(why, lease.ErrOthersHold) {
		return configError("the lease of %q cannot be transferred: %v (WithReentry)", printable.Cut(l.name), why)
	}
	return configError("the lease of %q cannot be transferred: only one of one name that is held alone can be", printable.Cut(l.name))
}

// Resume goes on with a lease that Lease.Transfer ended, in any process, and returns a new Lease
// with an owner and a token of its own. opts are those of the lock, as for Mutex. It takes at most
// what was left of the old lease, and one node timeout. A call that fails after it has asked the
// nodes spends the text.
//
// Errors: ErrLost (a *LostError) if it came too late, or another caller has the lock; ErrConfig for
// a bad text, option, prefix or cluster; ErrClosed or ctx's cause, joined with the last
// *QuorumError.
func (c *Client) Resume(ctx context.Context, text string, opts ...LockOption) (*Lease, error) {
	t, err := protocol.ParseTransferText(text)
	if err != nil {
		return nil, configError("the text is not that of a lease that was transferred: %v", err)
	}
	ctx, call := c.observe.begin(ctx, "resume", t.Name)
	l, err := c.resume(ctx, t, opts)
	call.end(l, err)
	return l, err
}

func (c *Client) resume(ctx context.Context, t *protocol.TransferText, opts []LockOption) (*Lease, error) {
	m := c.Mutex(t.Name, opts...)
	switch {
	case m.err != nil:
		return nil, m.err
	case m.opts.prefix != t.Prefix:
		return nil, configError("the lease of %q was transferred with the prefix %q, and this lock has %q",
			printable.Cut(t.Name), printable.Cut(t.Prefix), printable.Cut(m.opts.prefix))
	}
	left := time.Duration(t.Left) * time.Microsecond
	value := protocol.TransferValue(t.Secret, t.Label)
	held, failure := m.exclusive.Resume(ctx, &lock.Transferred{Value: value, Left: left, Records: t.Records})
	switch {
	case failure == nil:
		return m.newLease(held), nil
	case errors.Is(failure.Cause, lock.ErrUnknownCluster):
		return nil, configError("the lease of %q cannot be resumed: %v", printable.Cut(t.Name), failure.Cause)
	}
	var last error
	if failure.Refusal != nil && failure.Refusal.Votes != nil {
		last = quorumError(t.Name, failure.Refusal.Votes)
	}
	if failure.Cause != nil {
		return nil, &waitError{op: "resume", name: t.Name, cause: failure.Cause, last: last}
	}
	return nil, &LostError{Name: t.Name, Owner: value, Token: t.Token, Reason: LostTransferred,
		Votes: votesOf(failure.Refusal.Votes), Cause: last}
}
