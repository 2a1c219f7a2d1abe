package redlock

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"iter"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/gomodule/redigo/redis"

	"github.com/redlock-go/redlock/internal/admission"
	"github.com/redlock-go/redlock/internal/life"
	"github.com/redlock-go/redlock/internal/listing"
	"github.com/redlock-go/redlock/internal/lock"
	"github.com/redlock-go/redlock/internal/node"
	"github.com/redlock-go/redlock/internal/printable"
	"github.com/redlock-go/redlock/internal/protocol"
)

// Status is what the nodes say of one lock. It is a look in passing: it may have
// changed when it is read.
type Status struct {
	Name      string
	Holder    string        // the owner that has the key at a quorum of the nodes; "" if there is none, as while readers hold the lock. See Resting
	Label     string        // the readable part of Holder: WithOwnerLabel's; "" if there is none
	Remaining time.Duration // until a quorum no longer has it, unless it is renewed; negative: never
	Resting   bool          // the Holder's lease has ended, and the lock rests until its minimum hold is over
	ToBeTold  bool          // the Holder's lease is WithWanted: its holder learns of waiters, and of Ask
	Token     int64         // the greatest count of the nodes: no lease has a greater token yet
	Readers   []Reader      // that hold the lock: of each node, the hundred that do for longest; the longest of them first
	Permits   []HeldPermit  // of the Semaphore of this name, in the order of their slots
	Queue     []Waiter      // the waiters, in turn: the first hundred of each node; those for permits as well
	Nodes     []NodeStatus  // in the order given to New or Open

	begun, took time.Duration // when Inspect began, on the client's clock, and how long it took
}

// Reader is a caller that holds a lock together with other readers.
type Reader struct {
	Owner     string        // of its lease
	Label     string        // the readable part of the owner; "" if there is none
	Remaining time.Duration // until a quorum no longer has its share, unless it is renewed; 0 if no quorum has it
	Nodes     int           // the nodes that have it
}

// Waiter is a caller that waits for a lock.
type Waiter struct {
	Ticket  string    // its place: tickets are served in the order of their bytes
	Label   string    // the owner label of its client; "" if that is not known to live
	Since   time.Time // when it asked, by the nodes' clocks
	Nodes   int       // the nodes in whose queues it stands; if no quorum, it may also be the holder, which got the lock without them
	Permits int       // how many it waits for, of the Semaphore of this name; 0: it waits for the lock itself
	Limit   int       // how many permits that Semaphore has, as this caller says; 0: its version does not show it. All should say the same
}

// NodeStatus is what one node says.
type NodeStatus struct {
	Index     int           // the node's place in the list given to New or Open
	Node      string        // the node's name in errors and logs
	Holder    string        // the owner that has the key there; "" if nobody has it alone; "(an empty value)" if the key's value is empty
	Readers   []Reader      // that hold the lock there: the hundred that do for longest; the longest of them last
	Permits   []HeldPermit  // held there, of the Semaphore of this name, in the order of their slots
	Reserved  string        // the ticket that the lock is kept for there, for a moment
	Remaining time.Duration // the key's ttl; 0 without a key; negative: it never expires
	Count     int64         // the fencing counter of the names that the lock counts with
	Queue     []string      // tickets, in turn; those of waiters for permits are the last
	Err       error         // why it says nothing

	labels  map[string]string // by ticket
	shared  bool              // readers hold the lock there
	resting bool              // the Holder's lease has ended, and the lock rests there
	time    time.Duration     // the server's clock
}

// Inspect asks all nodes what stands there for a lock of this name, with the
// client's prefix, and for the permits of a Semaphore of this name. It changes nothing, and takes at most one node timeout, after the first
// connections.
//
// It returns a *QuorumError (ErrNoQuorum) when less than a quorum answered, beside
// what the others said; ctx's cause; ErrClosed; ErrConfig for a name that no lock
// can have.
func (c *Client) Inspect(ctx context.Context, name string) (Status, error) {
	m := c.Mutex(name)
	if m.err != nil {
		return Status{}, m.err
	}
	if err := c.life.Enter(ctx); err != nil {
		return Status{}, fmt.Errorf("redlock: inspect %q: %w", printable.Cut(name), err)
	}
	defer c.life.Leave()
	begun := c.opts.clock()
	bounded, cancel := context.WithTimeout(ctx, c.opts.voteTimeout())
	defer cancel()
	asked := make([]inspection, len(c.cluster.Nodes))
	for i, n := range c.cluster.Nodes {
		asked[i].ask(&m.exclusive, n)
	}
	answers := make([]listing.Answer, len(asked))
	for i := range asked {
		answers[i] = asked[i].await(ctx, bounded)
	}
	return c.status("inspect", &listing.Found{Name: name, Begun: begun, Took: c.opts.clock() - begun, Answers: answers})
}

// inspection is what a node is asked about a name: what stands there for the lock, and for the permits
// of a semaphore.
type inspection struct {
	lock, slots node.Question
	err         error // why it is not asked
}

func (q *inspection) ask(x *lock.Exclusive, n *admission.Member) {
	if q.lock, q.err = x.Inspect(n); q.err == nil {
		q.slots, q.err = x.InspectSlots(n)
	}
}

// noAnswer is why a node has not answered a call in time: ctx, the caller's, has ended, or the
// node timeout is over.
func noAnswer(ctx context.Context) error { return cmp.Or(life.EndOf(ctx), listing.ErrNoAnswer) }

// await returns the node's answer, which counts if it is whole. bounded ends after the node timeout, or with
// ctx. A user of mutexes alone may have no right to look at permits.
func (q *inspection) await(ctx, bounded context.Context) (a listing.Answer) {
	if q.err != nil {
		return listing.Answer{Err: q.err}
	}
	first, came := q.lock.Wait(bounded)
	second, bothCame := q.slots.Wait(bounded)
	if !came || !bothCame {
		return listing.Answer{Err: noAnswer(ctx)}
	}
	if a.Inspection, a.Err = lock.ReadInspection(first.Value, first.Err); a.Err == nil && !node.IsCode(second.Err, "NOPERM") {
		a.Err = a.AddSlots(second.Value, second.Err)
	}
	return a
}

// Locks lists the locks whose names match a pattern, in no order, as Inspect returns each: those
// that one owner or readers hold at a quorum of the nodes, those that rest (Status.Resting), and
// the slots of a Semaphore of which a permit is held: slot k of "jobs" is "jobs#k". The pattern is that of Redis's SCAN
// (* ? [a-z] and a backslash), for the name, which follows the client's prefix; "*" matches all
// names. The nodes' users need the right +scan, which no other method does.
//
// A lock shows if the answers name it at a quorum while the listing goes on. One that is acquired
// or released meanwhile may or may not show; every other one does, unless it is held at no more
// than a quorum of the nodes and one of those does not answer. Locks looks for names at N/2+1
// nodes (N even: N/2), takes others in the place of nodes that fail, and asks all nodes for each
// name. A name shows once, as far as the client remembers: it does for the first 262144 locks.
// Of further ones some may show twice, and one whose key a renewal has just restored at a node
// may not show.
//
// The listing needs little memory, whatever the number of locks, and takes its time: after each
// question it pauses for nine times as long as the busiest server worked on it, so that a server
// spends a tenth of its time on it at most. A hundred thousand locks take minutes.
//
// Each use of the iterator is a listing of its own. The last pair may have an error, and ends it:
// a *QuorumError (ErrNoQuorum) where too few nodes answer, or list their keys; ctx's cause;
// ErrClosed; ErrConfig for an empty pattern. What was shown before is right nevertheless. The
// loop may end at any time; nothing goes on then.
func (c *Client) Locks(ctx context.Context, pattern string) iter.Seq2[Status, error] {
	return func(yield func(Status, error) bool) {
		if pattern == "" {
			yield(Status{}, configError(`the pattern of Locks is empty: "*" matches all names`))
			return
		}
		var failed error
		l := listing.Listing{Clock: c.opts.clock, Life: c.life, Nodes: c.cluster.Nodes, Need: c.cluster.Need,
			Timeout: c.opts.voteTimeout(), PageTimeout: c.deadAfter(), Prefix: c.opts.prefix}
		failure := l.Run(ctx, pattern, func(f *listing.Found) (locked, more bool) {
			s, err := c.status("list", f)
			switch {
			case err != nil && f.Said() < c.cluster.Need:
				failed = err
				return false, false
			case !s.isHeld():
				return false, true
			}
			return true, yield(s, nil)
		})
		switch {
		case failed != nil:
		case failure == nil:
			return
		case failure.Cause != nil:
			failed = fmt.Errorf("redlock: list %q: %w", printable.Cut(pattern), failure.Cause)
		default:
			failed = &QuorumError{Op: "list", Name: pattern, Need: failure.Need, Elapsed: failure.Took, Votes: c.votesFor(failure.Nodes)}
		}
		yield(Status{}, failed)
	}
}

// isHeld reports whether somebody holds the lock.
func (s *Status) isHeld() bool {
	return s.Holder != "" || slices.ContainsFunc(s.Readers, func(r Reader) bool { return r.Remaining != 0 })
}

// status returns what the nodes answered about a name, and a *QuorumError if less than a quorum
// did.
func (c *Client) status(op string, f *listing.Found) (Status, error) {
	s := Status{Name: f.Name, begun: f.Begun, took: f.Took, Nodes: make([]NodeStatus, len(f.Answers))}
	reasons := make([]error, len(f.Answers))
	for i := range f.Answers {
		n, a := &s.Nodes[i], &f.Answers[i]
		n.Index, n.Node = i, c.cluster.Nodes[i].Name
		if reasons[i] = a.Err; a.Err != nil {
			n.Err = printableError{a.Err}
			continue
		}
		n.understand(&a.Inspection)
	}
	s.sum(c.cluster.Need)
	q := &QuorumError{Op: op, Name: f.Name, Need: c.cluster.Need, Elapsed: f.Took, Votes: c.votesFor(reasons)}
	if q.count(Granted) < c.cluster.Need {
		return s, q
	}
	return s, nil
}

// votesFor returns the votes of nodes that did what was asked, or did not for a reason.
func (c *Client) votesFor(reasons []error) []Vote {
	votes := make([]Vote, len(reasons))
	for i, why := range reasons {
		votes[i] = Vote{Index: i, Node: c.cluster.Nodes[i].Name, Outcome: Granted}
		if why == nil {
			continue
		}
		votes[i].Outcome, votes[i].Cause = Unknown, printableError{why}
		if refusal := redis.Error(""); errors.As(why, &refusal) {
			votes[i].Outcome = Refused
		}
	}
	return votes
}

// understand sets what the node's answer shows.
func (s *NodeStatus) understand(found *lock.Inspection) {
	s.has(found.Holder, found.Remaining)
	s.Count, s.time = found.Count, found.Time
	for _, r := range found.Readers {
		s.Readers = append(s.Readers, Reader{Owner: r.Owner, Label: protocol.LabelOf(r.Owner), Remaining: r.Remaining, Nodes: 1})
	}
	s.Permits = permitsAt(found.Slots)
	s.labels = make(map[string]string)
	for _, t := range found.Queue {
		s.Queue = append(s.Queue, t.Ticket)
		s.labels[t.Ticket] = t.Label
	}
}

// has notes the value of the lock's key, and its ttl.
func (s *NodeStatus) has(value string, left time.Duration) {
	s.Reserved, s.Remaining, s.shared = "", left, value == protocol.Shared
	s.Holder, s.resting = protocol.CutResting(value)
	if s.shared {
		s.Holder = ""
	}
	if ticket, kept := strings.CutPrefix(value, protocol.Reservation); kept {
		s.Holder, s.Reserved = "", ticket
	}
	if value == "" {
		s.Remaining = 0
	}
}

// sum sets what the nodes show together.
func (s *Status) sum(quorum int) {
	s.Holder, s.Label, s.Remaining, s.Resting, s.Queue = "", "", 0, false, nil
	have := make(map[string][]time.Duration)
	readers := make(map[string][]time.Duration)
	waiting := make(map[string]*Waiter)
	for i := range s.Nodes {
		n := &s.Nodes[i]
		s.Token = max(s.Token, n.Count)
		if n.Holder != "" {
			have[n.Holder] = append(have[n.Holder], n.Remaining)
		}
		for _, r := range n.Readers {
			readers[r.Owner] = append(readers[r.Owner], r.Remaining)
		}
		for _, ticket := range n.Queue {
			w := waiting[ticket]
			if w == nil {
				w = &Waiter{Ticket: ticket, Since: askedAt(ticket), Permits: protocol.PermitsOf(ticket), Limit: protocol.LimitOf(ticket)}
				waiting[ticket] = w
			}
			w.Nodes++
			w.Label = max(w.Label, n.labels[ticket])
		}
	}
	for holder, left := range have {
		if len(left) < quorum {
			continue
		}
		s.Holder, s.Label, s.Remaining = holder, protocol.LabelOf(holder), quorumEnds(left, quorum)
		s.Resting = slices.ContainsFunc(s.Nodes, func(n NodeStatus) bool { return n.resting && n.Holder == holder })
		s.ToBeTold = protocol.IsToBeTold(holder) && !s.Resting
	}
	s.sumReaders(readers, quorum)
	s.sumPermits(quorum)
	for _, w := range waiting {
		s.Queue = append(s.Queue, *w)
	}
	slices.SortFunc(s.Queue, func(a, b Waiter) int { return strings.Compare(a.Ticket, b.Ticket) })
}

// sumReaders sets the readers, of which left has the remaining time at each node, by owner. The
// lock is held for as long as the longest of them holds it.
func (s *Status) sumReaders(left map[string][]time.Duration, quorum int) {
	s.Readers = nil
	for owner, left := range left {
		r := Reader{Owner: owner, Label: protocol.LabelOf(owner), Nodes: len(left), Remaining: quorumEnds(left, quorum)}
		s.Readers = append(s.Readers, r)
		if s.Holder == "" {
			s.Remaining = max(s.Remaining, r.Remaining)
		}
	}
	slices.SortFunc(s.Readers, func(a, b Reader) int {
		return cmp.Or(cmp.Compare(b.Remaining, a.Remaining), strings.Compare(a.Owner, b.Owner))
	})
}

// quorumEnds returns the time until less than a quorum of the nodes has what has these times
// left; 0 if less than a quorum has it now, negative if it never ends.
func quorumEnds(left []time.Duration, quorum int) time.Duration {
	if len(left) < quorum {
		return 0
	}
	slices.SortFunc(left, func(a, b time.Duration) int { return cmp.Compare(uint64(a), uint64(b)) }) // negative ones are the last
	return left[len(left)-quorum]
}

// askedAt returns the instant that a ticket carries.
func askedAt(ticket string) time.Time {
	micros, _ := strconv.ParseInt(ticket[:min(16, len(ticket))], 10, 64)
	return time.UnixMicro(micros)
}
