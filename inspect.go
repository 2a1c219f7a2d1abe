package redlock

import (
	"context"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/gomodule/redigo/redis"

	"github.com/redlock-go/redlock/internal/admission"
	"github.com/redlock-go/redlock/internal/node"
	"github.com/redlock-go/redlock/internal/protocol"
	"github.com/redlock-go/redlock/internal/system"
)

// Status is what the nodes say of one lock. It is a look in passing: it may have
// changed when it is read.
type Status struct {
	Name      string
	Holder    string        // the owner of whose lease a quorum of the nodes has the key; "" if there is none
	Remaining time.Duration // until a quorum no longer has it, unless it is renewed; negative: never
	Token     int64         // the greatest count of the nodes: no lease has a greater token yet
	Line      []Waiter      // who waits, in turn: the first hundred of each node
	Nodes     []NodeStatus  // in the order given to New or Open
}

// Waiter is somebody who waits for a lock.
type Waiter struct {
	Ticket string    // its place: tickets are served in the order of their bytes
	Label  string    // the owner label of its client; "" if that is not known to live
	Since  time.Time // when it asked, by the nodes' clocks
	Nodes  int       // the nodes in whose lines it stands
}

// NodeStatus is what one node says.
type NodeStatus struct {
	Index     int           // the node's place in the list given to New or Open
	Node      string        // the node's name in errors and logs
	Holder    string        // the owner that has the key there; "" if nobody does; "(an empty value)" if the key's value is empty
	Reserved  string        // the ticket that the lock is kept for there, for a moment
	Remaining time.Duration // the key's ttl; 0 without a key; negative: it never expires
	Count     int64         // the fencing counter of the names that the lock counts with
	Line      []string      // tickets, in turn
	Err       error         // why it says nothing

	labels map[string]string // by ticket
}

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
	if err := c.enter(ctx); err != nil {
		return Status{}, fmt.Errorf("redlock: inspect %q: %w", name, err)
	}
	defer c.leave()
	ctx, cancel := context.WithTimeoutCause(ctx, c.opts.voteTimeout(), errNoVerdict)
	defer cancel()
	begun := c.opts.clock()
	s := Status{Name: name}
	answers := make([]node.Question, len(c.nodes))
	for i, n := range c.nodes {
		s.Nodes = append(s.Nodes, NodeStatus{Index: i, Node: n.Name})
		answers[i], s.Nodes[i].Err = m.inspect(n)
	}
	votes := make([]Vote, len(c.nodes))
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
	q := &QuorumError{Op: "inspect", Name: name, Need: c.cluster.Need, Elapsed: c.opts.clock() - begun, Votes: votes}
	if q.count(Granted) < c.cluster.Need {
		return s, q
	}
	return s, nil
}

// inspect sends the question to a node.
func (m *Mutex) inspect(n *admission.Member) (node.Question, error) {
	p, right := n.Pipe(), n.Current()
	if p == nil || right == nil {
		return nil, n.Why()
	}
	return n.Ask(p, "EVAL", protocol.Inspect.Text, 2, m.keyArg, right.Record, m.stripe), nil
}

// await takes a node's answer.
func (s *NodeStatus) await(ctx context.Context, answer node.Question) {
	if r, came := answer.Wait(ctx); came {
		s.Err = s.understand(r.Value, r.Err)
		return
	}
	s.Err = context.Cause(ctx)
}

func (s *NodeStatus) understand(reply any, err error) error {
	parts, err := redis.Values(reply, node.Advise(err))
	if err != nil {
		return err
	}
	var value, count string
	var ms int64
	var line []string
	if _, err := redis.Scan(parts, &value, &ms, &count, &line); err != nil {
		return fmt.Errorf("unexpected reply to inspect: %w", err)
	}
	s.has(foundHolder(value, ms), remaining(ms))
	s.Count, _ = strconv.ParseInt(count, 10, 64)
	s.labels = make(map[string]string)
	for i := 0; i+1 < len(line); i += 2 {
		s.Line = append(s.Line, line[i])
		s.labels[line[i]] = line[i+1]
	}
	return nil
}

// foundHolder returns the value of a lock's key, "" without a key, and emptyHolder for an
// empty value. Scripts return an empty value also where there is no key; what PTTL
// answered distinguishes the two.
func foundHolder(value string, pttl int64) string {
	const noKey = -2
	if value == "" && pttl != noKey {
		return emptyHolder
	}
	return value
}

// has notes the value of the lock's key, and its ttl.
func (s *NodeStatus) has(value string, left time.Duration) {
	s.Holder, s.Reserved, s.Remaining = value, "", left
	if ticket, kept := strings.CutPrefix(value, reservation); kept {
		s.Holder, s.Reserved = "", ticket
	}
	if value == "" {
		s.Remaining = 0
	}
}

// sum tells what the nodes say together.
func (s *Status) sum(quorum int) {
	s.Holder, s.Remaining, s.Line = "", 0, nil
	have := make(map[string][]time.Duration)
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
		for _, ticket := range n.Line {
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
		slices.Sort(left)
		s.Holder, s.Remaining = holder, left[len(left)-quorum]
		if s.Remaining == system.Forever {
			s.Remaining = endless
		}
	}
	for _, w := range waiting {
		s.Line = append(s.Line, *w)
	}
	slices.SortFunc(s.Line, func(a, b Waiter) int { return strings.Compare(a.Ticket, b.Ticket) })
}

// askedAt is the instant that a ticket tells.
func askedAt(ticket string) time.Time {
	micros, _ := strconv.ParseInt(ticket[:min(16, len(ticket))], 10, 64)
	return time.UnixMicro(micros)
}
