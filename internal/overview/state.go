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

// State is the state of a lock, in one word that all faces share.
type State string

// The states: docs/operations.md, What is locked?
const (
	Held       State = "held"       // by one owner, by readers, or as permits
	Resting    State = "resting"    // its lease has ended, and its minimum hold has not
	Reserved   State = "reserved"   // free, and kept for a waiter for a moment
	WaitedFor  State = "waited for" // free, and a caller waits for it
	Split      State = "split"      // several owners have masters, none a majority
	Incomplete State = "incomplete" // too few masters answer
	Free       State = "free"
)

// Level returns a state's level.
func (s State) Level() Level {
	switch s {
	case Split:
		return Warning
	case Incomplete:
		return Error
	}
	return OK
}

// Text returns the meaning of a state without a known holder.
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

// HoldingReaders returns the readers with shares at a majority of the nodes; none while the lock
// has an exclusive owner.
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

// HasShares reports whether the lock's key at the node is the readers'. Their shares may expire
// before the key, so the node may show none.
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

// HeldSince returns when the holder, or the first of the holding readers, got the lock, by its own
// clock; zero if that is not known.
func HeldSince(s redlock.Status) (since time.Time) {
	since = s.Since
	for _, r := range HoldingReaders(s) {
		if since.IsZero() || !r.Since.IsZero() && r.Since.Before(since) {
			since = r.Since
		}
	}
	return since
}

// ReadableOwner returns an owner's label, else the whole owner. It is not safe to print.
func ReadableOwner(owner string) string { return cmp.Or(protocol.LabelOf(owner), owner) }

// OwnerLabel is ReadableOwner, safe to print.
func OwnerLabel(owner string) string { return printable.Quote(ReadableOwner(owner)) }

// Counted returns a number with a noun, in the singular or plural.
func Counted(n int, thing string) string {
	if n == 1 {
		return "1 " + thing
	}
	return fmt.Sprintf("%d %ss", n, thing)
}

// MostReaders is how many readers of a lock a node shows at most.
const MostReaders = 100

// CountReaders returns the number of holding readers: at least that many if a node shows MostReaders.
func CountReaders(s redlock.Status) string {
	text := Counted(len(HoldingReaders(s)), "reader")
	if slices.ContainsFunc(s.Nodes, func(n redlock.NodeStatus) bool { return len(n.Readers) >= MostReaders }) {
		text = "at least " + text
	}
	return text
}

// HeldBy names a lock's holder in short, safe to print; "" if there is none. Without a quorum it is
// the holder at most nodes that answer, else their readers or permits.
func HeldBy(s redlock.Status, state State) string {
	switch readers, permits := len(HoldingReaders(s)), len(HeldPermits(s)); {
	case state == Incomplete:
		return mostVoted(s)
	case s.Holder != "":
		return OwnerLabel(s.Holder)
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
		if label := OwnerLabel(holder); nodes > most || nodes == most && label < by {
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

// HasOwner reports whether one of some owners (Holder.Owner) still has the lock. While the lock has
// a holder, others have lost it; else a key or share at one master counts.
func HasOwner(s redlock.Status, owners []string) bool {
	has := func(owner string) bool { return owner != "" && slices.Contains(owners, printable.Quote(owner)) }
	if s.Holder != "" {
		return has(s.Holder)
	}
	return slices.ContainsFunc(s.Readers, func(r redlock.ShareStatus) bool { return has(r.Owner) }) ||
		slices.ContainsFunc(s.Nodes, func(n redlock.NodeStatus) bool { return has(n.Holder) })
}

// HolderNow names the holder of a lock after HasOwner has returned false.
func HolderNow(s redlock.Status) string {
	if by := HeldBy(s, StateOf(s)); by != "" {
		return "it has another holder by now, " + by
	}
	return "nobody holds it any more"
}

// LastsAtMost returns the longest time left of the lock's keys; 0 without keys, negative without an end.
func LastsAtMost(s redlock.Status) (lasts time.Duration) {
	for i := range s.Nodes {
		if n := &s.Nodes[i]; n.Remaining < 0 || lasts >= 0 && n.Remaining > lasts {
			lasts = n.Remaining
		}
	}
	return lasts
}
