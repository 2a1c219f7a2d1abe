package overview

import (
	"time"
	"unicode/utf8"

	"github.com/redlock-go/redlock"
	"github.com/redlock-go/redlock/internal/printable"
	"github.com/redlock-go/redlock/internal/protocol"
)

// LockJSON is a lock, a semaphore, or the locks that one owner holds together, in JSON.
// docs/reference/json.md documents the fields of this file and of Change. They are stable.
type LockJSON struct {
	Name       string       `json:"name"`
	Bytes      []byte       `json:"name_base64,omitempty"` // of a name that is not UTF-8
	Names      []string     `json:"names,omitempty"`       // of a set
	Kind       Kind         `json:"kind"`
	State      State        `json:"state"`
	Odd        string       `json:"odd,omitempty"`
	Holders    []HolderJSON `json:"holders"`
	Waiters    []Waiter     `json:"waiters"`
	Token      int64        `json:"token"`
	Notifiable bool         `json:"notifiable"`
	Nodes      []NodeJSON   `json:"nodes"`
	Looked     time.Time    `json:"looked"`
	Stale      bool         `json:"stale"`
	Says       string       `json:"says,omitempty"`
}

// HolderJSON is a Holder in JSON. Among the keys of one node, it has no token, count or direction.
type HolderJSON struct {
	Holder    string    `json:"holder"`
	Owner     string    `json:"owner"`
	Shared    bool      `json:"shared,omitempty"`
	Slots     []int     `json:"slots,omitempty"`
	Since     time.Time `json:"since,omitzero"`
	Remaining *float64  `json:"remaining_s"` // nil: without an end
	Direction Direction `json:"direction,omitempty"`
	Token     int64     `json:"token,omitempty"`
	Nodes     int       `json:"nodes,omitempty"`
	Holds     bool      `json:"holds,omitempty"`
}

// Waiter is a caller that waits.
type Waiter struct {
	Label   string    `json:"waiter,omitempty"` // its client's; "" if no master knows it
	Ticket  string    `json:"ticket"`
	Since   time.Time `json:"since"` // when it asked, by the masters' clocks
	Nodes   int       `json:"nodes"` // that have it in their queues
	Permits int       `json:"permits"`
	Limit   int       `json:"limit,omitempty"`
	Shared  bool      `json:"shared,omitempty"`
	Wants   string    `json:"-"` // for people, as Wants returns it
}

// NodeJSON is a node's answer. Inspect alone knows more than the vote.
type NodeJSON struct {
	Node     string       `json:"node"`
	Vote     Word         `json:"vote"`
	Holders  []HolderJSON `json:"holders,omitempty"`
	Reserved string       `json:"reserved,omitempty"`
	Token    int64        `json:"token,omitempty"`
	Waiting  int          `json:"waiting,omitempty"`
	Error    string       `json:"error,omitempty"`
}

// NewLockJSON returns a row of a snapshot with these masters, with the times left at an instant.
func NewLockJSON(r *Row, masters []Master, now time.Time) LockJSON {
	l := LockJSON{Name: r.Names[0].Raw, Kind: r.Kind, State: r.State, Odd: r.Odd, Waiters: r.Waiters,
		Holders: make([]HolderJSON, len(r.Holders)), Token: r.Token, Notifiable: r.Asks,
		Nodes: make([]NodeJSON, len(r.Words)), Looked: r.Looked.UTC(), Stale: r.Stale, Says: r.Says}
	if !utf8.ValidString(l.Name) {
		l.Bytes = []byte(l.Name)
	}
	if len(r.Names) > 1 {
		for _, n := range r.Names {
			l.Names = append(l.Names, n.Raw)
		}
	}
	for i := range r.Holders {
		h := &r.Holders[i]
		l.Holders[i] = HolderJSON{Holder: h.Label, Owner: h.Owner, Shared: h.Shared, Slots: h.Slots,
			Since: h.Since.UTC(), Remaining: secondsLeft(r.LeftAt(h.Left, now)), Direction: h.Direction,
			Token: h.Token, Nodes: h.Masters, Holds: h.Holds}
	}
	for i, w := range r.Words {
		l.Nodes[i].Vote = w
		if i < len(masters) {
			l.Nodes[i].Node = masters[i].Node
		}
	}
	return l
}

// LocksOf returns what Inspect or Locks has said of a name at an instant: the lock, the semaphore
// of this name behind it, or both. stats are the client's.
func LocksOf(s *redlock.Status, stats []redlock.NodeStats, now time.Time) (all []LockJSON) {
	var r reading
	masters := make([]Master, len(s.Nodes))
	for i := range s.Nodes {
		masters[i].Node = printable.Line(s.Nodes[i].Node)
		r.quarantined = append(r.quarantined, i < len(stats) && stats[i].State == "quarantined")
	}
	facts := r.facts(s)
	if len(facts) == 0 {
		none := func(*redlock.NodeStatus) bool { return false }
		facts = []*fact{{key: key{s.Name, noSlot}, state: StateOf(*s), token: s.Token, words: r.letters(s, none)}}
	}
	for _, f := range facts {
		if f.key.name != s.Name { // a slot that was asked for as a lock
			f.key = key{s.Name, noSlot}
		}
		if s.Incomplete {
			f.says = saying(s)
		}
		merge(nil, f, 0)
	}
	for _, e := range group(facts) {
		l := NewLockJSON(e.makeRow(func(time.Duration) time.Time { return now }), masters, now)
		for i := range s.Nodes {
			l.Nodes[i].add(&s.Nodes[i], e.kind == Permits)
		}
		all = append(all, l)
	}
	return all
}

// add adds what the node has said of a lock, or of the semaphore of its name.
func (v *NodeJSON) add(n *redlock.NodeStatus, permits bool) {
	for _, ticket := range n.Queue {
		if (protocol.PermitsOf(ticket) > 0) == permits {
			v.Waiting++
		}
	}
	if n.Err != nil {
		v.Error = printable.Line(n.Err.Error())
	}
	add := func(owner string, left time.Duration, shared bool, slots ...int) {
		v.Holders = append(v.Holders, HolderJSON{Holder: OwnerLabel(owner), Owner: printable.Quote(owner),
			Shared: shared, Slots: slots, Since: protocol.SinceOf(owner).UTC(), Remaining: secondsLeft(left)})
	}
	if permits {
		for _, p := range n.Permits {
			add(p.Owner, p.Remaining, false, p.Slot)
		}
		return
	}
	v.Reserved, v.Token = printable.Quote(n.Reserved), n.Count
	if n.Holder != "" {
		add(n.Holder, n.Remaining, false)
	}
	for _, r := range n.Readers {
		add(r.Owner, r.Remaining, true)
	}
}

// secondsLeft returns a time left in seconds; nil if it never ends.
func secondsLeft(d time.Duration) *float64 {
	if d < 0 {
		return nil
	}
	s := d.Round(time.Millisecond).Seconds()
	return &s
}
