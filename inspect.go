package redlock

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/redlock-go/redlock/internal/lock"
	"github.com/redlock-go/redlock/internal/node"
	"github.com/redlock-go/redlock/internal/protocol"
	"github.com/redlock-go/redlock/internal/system"
	"github.com/redlock-go/redlock/internal/waitqueue"
)

// Status is what the nodes say of one lock. It is a look in passing: it may have
// changed when it is read.
type Status struct {
	Name      string
	Holder    string        // the owner of whose lease a quorum of the nodes has the key; "" if there is none, as while readers hold the lock
	Remaining time.Duration // until a quorum no longer has it, unless it is renewed; negative: never
	Token     int64         // the greatest count of the nodes: no lease has a greater token yet
	Readers   []Reader      // that hold the lock: of each node, the hundred that do for longest; the longest of them first
	Queue     []Waiter      // the waiters, in turn: the first hundred of each node
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
	Ticket string    // its place: tickets are served in the order of their bytes
	Label  string    // the owner label of its client; "" if that is not known to live
	Since  time.Time // when it asked, by the nodes' clocks
	Nodes  int       // the nodes in whose queues it stands
}

// NodeStatus is what one node says.
type NodeStatus struct {
	Index     int           // the node's place in the list given to New or Open
	Node      string        // the node's name in errors and logs
	Holder    string        // the owner that has the key there; "" if nobody has it alone; "(an empty value)" if the key's value is empty
	Readers   []Reader      // that hold the lock there: the hundred that do for longest; the longest of them last
	Reserved  string        // the ticket that the lock is kept for there, for a moment
	Remaining time.Duration // the key's ttl; 0 without a key; negative: it never expires
	Count     int64         // the fencing counter of the names that the lock counts with
	Queue     []string      // tickets, in turn
	Err       error         // why it says nothing

	labels map[string]string // by ticket
	shared bool              // readers hold the lock there
	time   time.Duration     // the server's clock
}

// errNoAnswer is why a node says nothing.
var errNoAnswer = errors.New("no answer within the node timeout")

// Inspect asks all nodes what stands there for a lock of this name, with the
// client's prefix. It changes nothing, and takes at most one node timeout, after the first
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
		return Status{}, fmt.Errorf("redlock: inspect %q: %w", name, err)
	}
	defer c.life.Leave()
	ctx, cancel := context.WithTimeoutCause(ctx, c.opts.voteTimeout(), errNoAnswer)
	defer cancel()
	s := Status{Name: name, begun: c.opts.clock()}
	answers := make([]node.Question, len(c.cluster.Nodes))
	for i, n := range c.cluster.Nodes {
		s.Nodes = append(s.Nodes, NodeStatus{Index: i, Node: n.Name})
		answers[i], s.Nodes[i].Err = m.exclusive.Inspect(n)
	}
	votes := make([]Vote, len(c.cluster.Nodes))
	for i := range s.Nodes {
		st := &s.Nodes[i]
		if answers[i] != nil {
			st.await(ctx, answers[i])
		}
		votes[i] = Vote{Index: i, Node: st.Node, Outcome: Granted}
		if st.Err != nil {
			st.Err = printableError{st.Err}
			votes[i].Outcome, votes[i].Cause = Unknown, st.Err
		}
	}
	s.sum(c.cluster.Need)
	s.took = c.opts.clock() - s.begun
	q := &QuorumError{Op: "inspect", Name: name, Need: c.cluster.Need, Elapsed: s.took, Votes: votes}
	if q.count(Granted) < c.cluster.Need {
		return s, q
	}
	return s, nil
}

// await takes a node's answer.
func (s *NodeStatus) await(ctx context.Context, answer node.Question) {
	if r, came := answer.Wait(ctx); came {
		s.Err = s.understand(r.Value, r.Err)
		return
	}
	s.Err = context.Cause(ctx)
}

// understand sets what the node's reply shows.
func (s *NodeStatus) understand(reply any, err error) error {
	found, err := lock.ReadInspection(reply, err)
	if err != nil {
		return err
	}
	s.has(found.Holder, found.Remaining)
	s.Count, s.time = found.Count, found.Time
	for _, r := range found.Readers {
		_, label, _ := strings.Cut(r.Owner, "@")
		s.Readers = append(s.Readers, Reader{Owner: r.Owner, Label: label, Remaining: r.Remaining, Nodes: 1})
	}
	s.labels = make(map[string]string)
	for _, t := range found.Queue {
		s.Queue = append(s.Queue, t.Ticket)
		s.labels[t.Ticket] = t.Label
	}
	return nil
}

// has notes the value of the lock's key, and its ttl.
func (s *NodeStatus) has(value string, left time.Duration) {
	s.Holder, s.Reserved, s.Remaining, s.shared = value, "", left, value == protocol.Shared
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
	s.Holder, s.Remaining, s.Queue = "", 0, nil
	have := make(map[string][]time.Duration)
	readers := make(map[string][]time.Duration)
	waiting := make(map[string]*Waiter)
	for i := range s.Nodes {
		n := &s.Nodes[i]
		s.Token = max(s.Token, n.Count)
		if n.Holder != "" {
			left := n.Remaining
			if left < 0 {
				left = system.Forever
			}
			have[n.Holder] = append(have[n.Holder], left)
		}
		for _, r := range n.Readers {
			readers[r.Owner] = append(readers[r.Owner], r.Remaining)
		}
		for _, ticket := range n.Queue {
			w := waiting[ticket]
			if w == nil {
				w = &Waiter{Ticket: ticket, Since: askedAt(ticket)}
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
		s.Holder, s.Remaining = holder, quorumEnds(left, quorum)
		if s.Remaining == system.Forever {
			s.Remaining = waitqueue.Endless
		}
	}
	s.sumReaders(readers, quorum)
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
		_, label, _ := strings.Cut(owner, "@")
		r := Reader{Owner: owner, Label: label, Nodes: len(left), Remaining: quorumEnds(left, quorum)}
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
// left; 0 if less than a quorum has it now.
func quorumEnds(left []time.Duration, quorum int) time.Duration {
	if len(left) < quorum {
		return 0
	}
	slices.Sort(left)
	return left[len(left)-quorum]
}

// askedAt returns the instant that a ticket carries.
func askedAt(ticket string) time.Time {
	micros, _ := strconv.ParseInt(ticket[:min(16, len(ticket))], 10, 64)
	return time.UnixMicro(micros)
}
