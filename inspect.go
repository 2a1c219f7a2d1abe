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

	"github.com/gomodule/redigo/redis"

	"github.com/redlock-go/redlock/internal/operate"
	"github.com/redlock-go/redlock/internal/printable"
	"github.com/redlock-go/redlock/internal/protocol"
)

// Status is what the nodes said of one lock.
type Status struct {
	Name       string
	Holder     string         // the owner at a quorum of the nodes; "" without one, and for readers
	Label      string         // the readable part of Holder
	Since      time.Time      // when Holder's lease was granted, by its client's clock; may be zero
	Remaining  time.Duration  // until a quorum no longer has it, unless renewed; negative: never
	Resting    bool           // Holder's lease has ended, and its minimum hold has not
	Reserved   string         // the ticket of the waiter that the lock is kept for
	Notifiable bool           // Holder learns of waiters, and of Ask (WithWanted)
	Token      int64          // no lease has a greater one yet
	Readers    []ShareStatus  // the hundred of each node that last longest, longest first
	Permits    []PermitStatus // of the Semaphore of this name, by slot
	Queue      []WaiterStatus // in turn, the first hundred of each node
	Nodes      []NodeStatus   // in the order given to New or Open

	// Incomplete reports that fewer nodes than a quorum answered. Holder is empty then.
	Incomplete bool

	begun, took time.Duration // when Inspect began, on the client's clock, and how long it took
}

// ShareStatus is a shared lease.
type ShareStatus struct {
	Owner     string
	Label     string        // the readable part of Owner
	Since     time.Time     // as Status.Since
	Remaining time.Duration // until a quorum no longer has it, unless renewed; 0: no quorum
	Nodes     int           // that have it
}

// WaiterStatus is a caller that waits for a lock or for permits.
type WaiterStatus struct {
	Ticket  string    // its place, in the order of bytes
	Label   string    // its client's; "" if not known
	Since   time.Time // when it asked, by the nodes' clocks
	Nodes   int       // that have it in their queues
	Permits int       // that it waits for; 0: it waits for the lock
	Limit   int       // the Semaphore's permits, as it says; 0: not known
}

// NodeStatus is what one node said.
type NodeStatus struct {
	Index     int            // in the list given to New or Open
	Node      string         // its name in errors and logs
	Holder    string         // the exclusive owner; "(an empty value)" for such a key
	Readers   []ShareStatus  // the hundred that last longest, longest last
	Permits   []PermitStatus // by slot
	Reserved  string         // as Status.Reserved
	Remaining time.Duration  // the key's ttl; 0: no key; negative: never ends
	Count     int64          // the fencing counter
	Queue     []string       // tickets, in turn; those for permits last
	Err       error          // why it says nothing

	labels  map[string]string // by ticket
	shared  bool              // readers hold the lock there
	resting bool              // the Holder's lease has ended, and the lock rests there
	time    time.Duration     // the server's clock
}

// Inspect asks all nodes for a lock, and for the permits of the Semaphore of this name. It changes
// nothing, and takes at most one node timeout, after the first connections.
//
// Errors: a *QuorumError (ErrNoQuorum), and what the other nodes said; ctx's cause; ErrClosed;
// ErrConfig for a bad name.
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
	answers := c.nodes().Inspect(ctx, m.opts.prefix+name)
	return c.status("inspect", &operate.Found{Name: name, Begun: begun, Took: c.opts.clock() - begun, Answers: answers})
}

// nodes returns the nodes as operators ask them.
func (c *Client) nodes() *operate.Nodes {
	return &operate.Nodes{Members: c.cluster.Nodes(), Timeout: c.opts.voteTimeout()}
}

// status returns what the nodes answered about a name, and a *QuorumError if less than a quorum
// did.
func (c *Client) status(op string, f *operate.Found) (Status, error) {
	s := Status{Name: f.Name, begun: f.Begun, took: f.Took, Nodes: make([]NodeStatus, len(f.Answers))}
	reasons := make([]error, len(f.Answers))
	for i := range f.Answers {
		n, a := &s.Nodes[i], &f.Answers[i]
		n.Index, n.Node = i, c.cluster.Nodes()[i].Name
		if reasons[i] = a.Err; a.Err != nil {
			n.Err = printableError{a.Err}
			continue
		}
		n.understand(&a.Inspection)
	}
	s.sum(c.cluster.Need())
	q := &QuorumError{Op: op, Name: f.Name, Need: c.cluster.Need(), Elapsed: f.Took, Votes: c.votesFor(reasons)}
	if s.Incomplete = q.count("granted") < q.Need; s.Incomplete {
		return s, q
	}
	return s, nil
}

// votesFor returns the votes of nodes that did what was asked, or did not for a reason.
func (c *Client) votesFor(reasons []error) []Vote {
	votes := make([]Vote, len(reasons))
	for i, why := range reasons {
		votes[i] = Vote{Index: i, Node: c.cluster.Nodes()[i].Name, Outcome: "granted"}
		if why == nil {
			continue
		}
		votes[i].Outcome, votes[i].Cause = "unknown", printableError{why}
		if refusal := redis.Error(""); errors.As(why, &refusal) {
			votes[i].Outcome = "refused"
		}
	}
	return votes
}

// understand sets what the node's answer shows.
func (s *NodeStatus) understand(found *protocol.Inspection) {
	s.has(found.Holder, found.Remaining)
	s.Count, s.time = found.Count, found.Time
	for _, r := range found.Readers {
		s.Readers = append(s.Readers, shareStatus(r.Owner, 1, r.Remaining))
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
	s.Holder, s.Label, s.Since, s.Remaining, s.Resting, s.Reserved, s.Queue = "", "", time.Time{}, 0, false, "", nil
	have := make(map[string][]time.Duration)
	reserved := make(map[string]int)
	readers := make(map[string][]time.Duration)
	waiting := make(map[string]*WaiterStatus)
	for i := range s.Nodes {
		n := &s.Nodes[i]
		s.Token = max(s.Token, n.Count)
		if n.Holder != "" {
			have[n.Holder] = append(have[n.Holder], n.Remaining)
		}
		if reserved[n.Reserved]++; n.Reserved != "" && reserved[n.Reserved] >= quorum {
			s.Reserved = n.Reserved
		}
		for _, r := range n.Readers {
			readers[r.Owner] = append(readers[r.Owner], r.Remaining)
		}
		for _, ticket := range n.Queue {
			w := waiting[ticket]
			if w == nil {
				w = &WaiterStatus{Ticket: ticket, Since: askedAt(ticket), Permits: protocol.PermitsOf(ticket), Limit: protocol.LimitOf(ticket)}
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
		s.Holder, s.Label, s.Since, s.Remaining = holder, protocol.LabelOf(holder), protocol.SinceOf(holder), protocol.QuorumEnds(left, quorum)
		s.Resting = slices.ContainsFunc(s.Nodes, func(n NodeStatus) bool { return n.resting && n.Holder == holder })
		s.Notifiable = protocol.IsNotifiable(holder) && !s.Resting
	}
	s.sumReaders(readers, quorum)
	s.sumPermits(quorum)
	for _, w := range waiting {
		s.Queue = append(s.Queue, *w)
	}
	slices.SortFunc(s.Queue, func(a, b WaiterStatus) int { return strings.Compare(a.Ticket, b.Ticket) })
}

// shareStatus returns what so many nodes show of a reader.
func shareStatus(owner string, nodes int, remaining time.Duration) ShareStatus {
	return ShareStatus{Owner: owner, Label: protocol.LabelOf(owner), Since: protocol.SinceOf(owner), Nodes: nodes,
		Remaining: remaining}
}

// sumReaders sets the readers, of which left has the remaining time at each node, by owner. The
// lock is held for as long as the longest of them holds it.
func (s *Status) sumReaders(left map[string][]time.Duration, quorum int) {
	s.Readers = nil
	for owner, left := range left {
		r := shareStatus(owner, len(left), protocol.QuorumEnds(left, quorum))
		s.Readers = append(s.Readers, r)
		if s.Holder == "" {
			s.Remaining = max(s.Remaining, r.Remaining)
		}
	}
	slices.SortFunc(s.Readers, func(a, b ShareStatus) int {
		return cmp.Or(cmp.Compare(b.Remaining, a.Remaining), strings.Compare(a.Owner, b.Owner))
	})
}

// askedAt returns the instant that a ticket carries.
func askedAt(ticket string) time.Time {
	micros, _ := strconv.ParseInt(ticket[:min(16, len(ticket))], 10, 64)
	return time.UnixMicro(micros)
}
