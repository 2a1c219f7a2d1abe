package overview

import (
	"cmp"
	"fmt"
	"slices"
	"time"

	"github.com/redlock-go/redlock"
	"github.com/redlock-go/redlock/internal/printable"
	"github.com/redlock-go/redlock/internal/protocol"
)

// Level is how much a fact matters to a person: faces choose its colour.
type Level string

// The levels, from the least.
const (
	OK      Level = "ok"
	Warning Level = "warning" // something to look at
	Error   Level = "error"   // locks are not available, or not known
)

// State is what stands at the masters for a lock, in one word that all faces share.
type State string

// The states, as docs/operations.md has them, What is locked?
const (
	Held       State = "held"       // by one owner, by readers, or as permits
	Resting    State = "resting"    // its lease has ended, and its minimum hold has not
	Reserved   State = "reserved"   // free, and kept for a waiter for a moment
	WaitedFor  State = "waited for" // free, and a caller waits for it
	Split      State = "split"      // several owners have masters, and none a majority
	Incomplete State = "incomplete" // too few masters answer
	Free       State = "free"
)

// Level returns how much a state matters.
func (s State) Level() Level {
	switch s {
	case Split:
		return Warning
	case Incomplete:
		return Error
	}
	return OK
}

// Text returns what a state means, where nobody holds the lock or that is not known.
func (s State) Text() string {
	switch s {
	case Split:
		return "nobody holds it: the votes are split, or the last keys of a lease expire"
	case Resting:
		return "rests: its lease has ended, and its minimum hold has not"
	case Reserved:
		return "free, and reserved for the next waiter"
	case Incomplete:
		return "too few masters answer: the holder is unknown"
	}
	return string(Free)
}

// StateOf returns the state of a lock.
func StateOf(s redlock.Status) State {
	switch {
	case s.Incomplete:
		return Incomplete
	case s.Resting:
		return Resting
	case s.Holder != "", len(HoldingReaders(s)) > 0, len(HeldPermits(s)) > 0:
		return Held
	case s.Reserved != "":
		return Reserved
	case IsSplit(s):
		return Split
	case len(s.Queue) > 0:
		return WaitedFor
	}
	return Free
}

// HoldingReaders returns the readers that hold the lock: a majority of the nodes has the share
// of each of them. There are none while one owner holds the lock alone.
func HoldingReaders(s redlock.Status) []redlock.ShareStatus {
	if s.Holder != "" {
		return nil
	}
	return slices.DeleteFunc(slices.Clone(s.Readers), func(r redlock.ShareStatus) bool { return r.Remaining <= 0 })
}

// HeldPermits returns the permits that a majority of the nodes has.
func HeldPermits(s redlock.Status) []redlock.PermitStatus {
	return slices.DeleteFunc(slices.Clone(s.Permits), func(p redlock.PermitStatus) bool { return p.Remaining == 0 })
}

// IsSplit reports whether some owner or reader has a node, and none a majority.
func IsSplit(s redlock.Status) bool {
	return s.Holder == "" && len(HoldingReaders(s)) == 0 && NodesWithKey(s) > 0
}

// NodesWithKey returns the number of nodes that have a key of the lock.
func NodesWithKey(s redlock.Status) (with int) {
	for i := range s.Nodes {
		if n := &s.Nodes[i]; n.Holder != "" || HasShares(n) {
			with++
		}
	}
	return with
}

// HasShares reports whether the lock's key at the node is the readers'. The node may show none of
// them: their shares may be gone before the key is.
func HasShares(n *redlock.NodeStatus) bool {
	return n.Holder == "" && n.Reserved == "" && n.Remaining != 0
}

// Votes returns the number of nodes of each owner.
func Votes(s redlock.Status) map[string]int {
	count := make(map[string]int)
	for i := range s.Nodes {
		if holder := s.Nodes[i].Holder; holder != "" {
			count[holder]++
		}
	}
	return count
}

// HeldSince returns since when the lock is held: by its holder, or by the first of the readers that hold it;
// zero if no holder's clock says it.
func HeldSince(s redlock.Status) (since time.Time) {
	since = s.Since
	for _, r := range HoldingReaders(s) {
		if since.IsZero() || !r.Since.IsZero() && r.Since.Before(since) {
			since = r.Since
		}
	}
	return since
}

// ReadableOwner returns the label of an owner; the whole owner if it has none. It is not safe to print.
func ReadableOwner(owner string) string { return cmp.Or(protocol.LabelOf(owner), owner) }

// Counted returns a number with a noun, in the singular or plural.
func Counted(n int, thing string) string {
	if n == 1 {
		return "1 " + thing
	}
	return fmt.Sprintf("%d %ss", n, thing)
}

// MostReaders is how many readers of a lock a node shows at most.
const MostReaders = 100

// CountReaders returns the number of the readers that hold the lock. If a node shows as many as
// it can, there may be more.
func CountReaders(s redlock.Status) string {
	text := Counted(len(HoldingReaders(s)), "reader")
	if slices.ContainsFunc(s.Nodes, func(n redlock.NodeStatus) bool { return len(n.Readers) >= MostReaders }) {
		text = "at least " + text
	}
	return text
}

// HeldBy returns in short who holds a lock in some state, safe to print; "" if nobody does. Without a quorum it
// is the holder that most of the nodes which answer have, else their readers or permits.
func HeldBy(s redlock.Status, state State) string {
	switch readers, permits := len(HoldingReaders(s)), len(HeldPermits(s)); {
	case state == Incomplete:
		return mostVoted(s)
	case s.Holder != "":
		return printable.Quote(ReadableOwner(s.Holder))
	case readers > 0:
		return CountReaders(s)
	case permits > 0:
		return Counted(permits, "permit")
	}
	return ""
}

// mostVoted is HeldBy without a quorum.
func mostVoted(s redlock.Status) (by string) {
	most := 0
	for holder, nodes := range Votes(s) {
		if label := printable.Quote(ReadableOwner(holder)); nodes > most || nodes == most && label < by {
			by, most = label, nodes
		}
	}
	switch {
	case most > 0:
	case len(s.Readers) > 0:
		by = Counted(len(s.Readers), "reader")
	case len(s.Permits) > 0:
		by = Counted(len(s.Permits), "permit")
	}
	return by
}

// HasOwner reports whether one of some owners, as Holder.Owner has them, still has the lock. While one owner holds it, no
// other has it; else an owner has it if a master has its key or its share.
func HasOwner(s redlock.Status, owners []string) bool {
	has := func(owner string) bool { return owner != "" && slices.Contains(owners, printable.Quote(owner)) }
	if s.Holder != "" {
		return has(s.Holder)
	}
	return slices.ContainsFunc(s.Readers, func(r redlock.ShareStatus) bool { return has(r.Owner) }) ||
		slices.ContainsFunc(s.Nodes, func(n redlock.NodeStatus) bool { return has(n.Holder) })
}

// HolderNow says who has a lock of which HasOwner reports false.
func HolderNow(s redlock.Status) string {
	if by := HeldBy(s, StateOf(s)); by != "" {
		return "it has another holder by now, " + by
	}
	return "nobody holds it any more"
}

// LastsAtMost returns the longest time until a key of the lock ends at a node; 0 if there is none, negative
// if one never ends.
func LastsAtMost(s redlock.Status) (lasts time.Duration) {
	for i := range s.Nodes {
		if n := &s.Nodes[i]; n.Remaining < 0 || lasts >= 0 && n.Remaining > lasts {
			lasts = n.Remaining
		}
	}
	return lasts
}
