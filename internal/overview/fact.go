package overview

import (
	"slices"
	"strings"
	"time"

	"github.com/redlock-go/redlock"
	"github.com/redlock-go/redlock/internal/printable"
	"github.com/redlock-go/redlock/internal/protocol"
	"github.com/redlock-go/redlock/internal/system"
)

// key names a lock (slot is noSlot), a slot of a semaphore, or its wait queue (queueSlot).
type key struct {
	name string
	slot int
}

const (
	noSlot    = -1
	queueSlot = -2
)

// raw returns the name of the lock, as calls take it.
func (k key) raw() string {
	if k.slot >= 0 {
		return k.name + protocol.SlotMark + itoa(k.slot)
	}
	return k.name
}

// fact is what the masters said about a key at an instant, as far as rows show it: there may be a
// hundred thousand. A fact in the picture is immutable.
type fact struct {
	key     key
	at      time.Duration // on the model's clock
	freeAt  time.Duration // when it was first seen free
	state   State
	by      string  // the holder, as HeldBy
	claims  []claim // a holder is the first
	waiters []redlock.WaiterStatus
	token   int64
	asks    bool
	words   string // a letter for each master
	stale   bool   // too few masters answered, and the rest is older
	says    string // what those masters said
}

// claim is an owner with a key, a share or a permit at some master.
type claim struct {
	owner string
	since time.Time
	ends  time.Duration // on the model's clock; system.Forever: never
	nodes int
	holds bool
	words string
	trend trend
}

// The letters of words.
const (
	letterHolder, letterFree, letterOther, letterResting = 'h', 'f', 'o', 'r'
	letterReserved, letterQuarantined, letterSilent      = 'k', 'q', 's'
)

var wordOf = map[byte]Word{letterHolder: SaysHolder, letterFree: SaysFree, letterOther: SaysOther, letterResting: SaysResting,
	letterReserved: SaysReserved, letterQuarantined: SaysQuarantined, letterSilent: SaysNothing}

// words translates letters.
func words(letters string) []Word {
	all := make([]Word, len(letters))
	for i := range all {
		all[i] = wordOf[letters[i]]
	}
	return all
}

// reading turns what the masters answered into facts.
type reading struct {
	at          time.Duration // when the answers were learnt
	quarantined []bool        // by master: it is connected, and does not vote
}

// endOf returns the instant at which a remaining time ends.
func (r *reading) endOf(remaining time.Duration) time.Duration {
	if remaining < 0 {
		return system.Forever
	}
	return r.at + remaining
}

// facts returns the facts about a name. A Status of Inspect can have the lock and the semaphore of
// that name; one of Locks has one of them.
func (r *reading) facts(s *redlock.Status) (all []*fact) {
	locks, permits := r.split(s)
	if lock := r.lock(s, locks); lock != nil {
		all = append(all, lock)
	}
	if len(permits) > 0 {
		all = append(all, r.queue(s, permits))
	}
	for i := 0; i < len(s.Permits); {
		k := i + 1
		for k < len(s.Permits) && s.Permits[k].Slot == s.Permits[i].Slot {
			k++
		}
		all = append(all, r.slot(s, s.Permits[i:k]))
		i = k
	}
	return all
}

// split returns the waiters for the lock, and those for permits.
func (r *reading) split(s *redlock.Status) (locks, permits []redlock.WaiterStatus) {
	for i := range s.Queue {
		if s.Queue[i].Permits > 0 {
			permits = append(permits, s.Queue[i])
		} else {
			locks = append(locks, s.Queue[i])
		}
	}
	return locks, permits
}

// lock returns the fact about the lock; nil if there is none. A held lock with a slot's name is a
// slot, unless it has waiters or readers, as no slot has.
func (r *reading) lock(s *redlock.Status, waiters []redlock.WaiterStatus) *fact {
	alone := *s
	alone.Permits, alone.Queue = nil, waiters
	state := StateOf(alone)
	if state == Free || state == Incomplete && len(waiters) == 0 && !hasLock(&alone) {
		return nil
	}
	f := &fact{key: key{s.Name, noSlot}, at: r.at, state: state, by: HeldBy(alone, state), waiters: waiters, token: s.Token,
		asks: s.Notifiable}
	f.claims = r.claims(&alone, state)
	isTaken := state == Held || state == Split || state == Incomplete && len(f.claims) > 0
	if base, slot, is := protocol.SemaphoreOf(s.Name); is && len(waiters) == 0 && len(s.Readers) == 0 && isTaken {
		f.key = key{base, slot}
	}
	if reference := referenceOf(f.claims, state); reference != "" {
		f.words = r.letters(&alone, func(n *redlock.NodeStatus) bool { return n.Holder == reference })
	} else {
		shared := len(s.Readers) > 0 && state != Split
		f.words = r.letters(&alone, func(n *redlock.NodeStatus) bool { return shared && HasShares(n) })
	}
	return f
}

// hasLock reports whether a master has a key of the lock itself.
func hasLock(s *redlock.Status) bool {
	return NodesWithKey(*s) > 0 || slices.ContainsFunc(s.Nodes, func(n redlock.NodeStatus) bool { return n.Reserved != "" })
}

// referenceOf returns the exclusive owner that the words are about: the holder, or without a quorum
// the owner at most masters; "" for others.
func referenceOf(claims []claim, state State) string {
	if len(claims) > 0 && claims[0].words != "" && state != Split {
		return claims[0].owner
	}
	return ""
}

// claims returns the claims on a lock. Those of readers have no words: they share it.
func (r *reading) claims(s *redlock.Status, state State) (all []claim) {
	if s.Holder != "" {
		c := claim{owner: s.Holder, since: s.Since, ends: r.endOf(s.Remaining), nodes: Votes(*s)[s.Holder], holds: state == Held}
		c.words = r.letters(s, func(n *redlock.NodeStatus) bool { return n.Holder == s.Holder })
		return []claim{c}
	}
	if state == Split || state == Incomplete {
		for owner, nodes := range Votes(*s) {
			c := claim{owner: owner, since: protocol.SinceOf(owner), ends: r.lasts(s, owner), nodes: nodes}
			c.words = r.letters(s, func(n *redlock.NodeStatus) bool { return n.Holder == owner })
			all = append(all, c)
		}
		slices.SortFunc(all, func(a, b claim) int { return cmpClaims(&a, &b) })
	}
	for i := range s.Readers {
		reader := &s.Readers[i]
		all = append(all, claim{owner: reader.Owner, since: reader.Since, ends: r.endOf(reader.Remaining), nodes: reader.Nodes,
			holds: reader.Remaining != 0})
	}
	return all
}

// cmpClaims puts the owner with more masters first.
func cmpClaims(a, b *claim) int {
	if a.nodes != b.nodes {
		return b.nodes - a.nodes
	}
	return strings.Compare(a.owner, b.owner)
}

// lasts returns when the last key of an owner ends.
func (r *reading) lasts(s *redlock.Status, owner string) (ends time.Duration) {
	for i := range s.Nodes {
		if n := &s.Nodes[i]; n.Holder == owner {
			ends = max(ends, r.endOf(n.Remaining))
		}
	}
	return ends
}

// slot returns the fact about one slot: its permits, most masters first.
func (r *reading) slot(s *redlock.Status, permits []redlock.PermitStatus) *fact {
	f := &fact{key: key{s.Name, permits[0].Slot}, at: r.at, state: Split, token: permits[0].Token}
	for i := range permits {
		p := &permits[i]
		c := claim{owner: p.Owner, since: p.Since, ends: r.endOf(p.Remaining), nodes: p.Nodes, holds: p.Remaining != 0}
		c.words = r.permitLetters(s, p)
		if c.holds {
			f.state, f.by = Held, OwnerLabel(p.Owner)
		}
		f.claims = append(f.claims, c)
	}
	slices.SortStableFunc(f.claims, func(a, b claim) int { return cmpClaims(&a, &b) })
	if s.Incomplete {
		f.state, f.by = Incomplete, OwnerLabel(f.claims[0].owner)
	}
	f.words = f.claims[0].words
	return f
}

// queue returns the waiters of a semaphore.
func (r *reading) queue(s *redlock.Status, waiters []redlock.WaiterStatus) *fact {
	f := &fact{key: key{s.Name, queueSlot}, at: r.at, state: WaitedFor, waiters: waiters}
	if s.Incomplete {
		f.state = Incomplete
	}
	f.words = r.letters(s, func(*redlock.NodeStatus) bool { return false })
	return f
}

// letters returns a letter for each master; has reports whether it has the key in question.
func (r *reading) letters(s *redlock.Status, has func(*redlock.NodeStatus) bool) string {
	var buffer [64]byte
	text := buffer[:0]
	for i := range s.Nodes {
		n := &s.Nodes[i]
		letter := byte(letterFree)
		switch {
		case n.Err != nil:
			letter = r.silent(i)
		case has(n) && s.Resting:
			letter = letterResting
		case has(n):
			letter = letterHolder
		case n.Holder != "" || HasShares(n):
			letter = letterOther
		case n.Reserved != "":
			letter = letterReserved
		}
		text = append(text, letter)
	}
	return string(text)
}

// permitLetters is letters for a permit.
func (r *reading) permitLetters(s *redlock.Status, p *redlock.PermitStatus) string {
	text := make([]byte, len(s.Nodes))
	for i := range s.Nodes {
		text[i] = letterFree
		if s.Nodes[i].Err != nil {
			text[i] = r.silent(i)
			continue
		}
		for k := range s.Nodes[i].Permits {
			if at := &s.Nodes[i].Permits[k]; at.Slot == p.Slot {
				text[i] = letterOther
				if at.Owner == p.Owner {
					text[i] = letterHolder
					break
				}
			}
		}
	}
	return string(text)
}

// silent returns the letter of a master that said nothing.
func (r *reading) silent(i int) byte {
	if i < len(r.quarantined) && r.quarantined[i] {
		return letterQuarantined
	}
	return letterSilent
}

// saying returns in words what the masters say of a name if too few answer.
func saying(s *redlock.Status) string {
	answer := 0
	for i := range s.Nodes {
		if s.Nodes[i].Err == nil {
			answer++
		}
	}
	if answer == 0 {
		return "no master answers"
	}
	text := "nothing"
	if by := HeldBy(*s, Incomplete); by != "" {
		text = by
	}
	if lasts := LastsAtMost(*s); lasts > 0 {
		text += " for another " + printable.Duration(lasts)
	} else if lasts < 0 {
		text += ", " + WithoutEnd
	}
	if answer == 1 {
		return text + ": says the one master that answers"
	}
	return text + ": say the " + itoa(answer) + " masters that answer"
}
