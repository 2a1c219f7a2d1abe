package overview

import (
	"cmp"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/redlock-go/redlock"
	"github.com/redlock-go/redlock/internal/printable"
	"github.com/redlock-go/redlock/internal/protocol"
	"github.com/redlock-go/redlock/internal/system"
)

func itoa(n int) string { return strconv.Itoa(n) }

// entry becomes a Row: the facts about one lock, the names of a set, or a semaphore. It has what
// rows are sorted and counted by; the Row is made when a watcher sees it.
type entry struct {
	facts []*fact // by name, or by slot with the queue first
	kind  Kind
	state State

	need    Need
	rank    int    // among odd ones
	odd     string // why
	waiters []redlock.WaiterStatus
	since   time.Time
	ends    time.Duration // of the longest claim; 0: there is none
	endless bool
	limits  []int

	row  *Row // nil: not made yet
	gone bool // it has left the picture
}

// group makes entries of facts.
func group(facts []*fact) (all []*entry) {
	all = make([]*entry, 0, len(facts))
	semaphores, sets := make(map[string]*entry), make(map[string]*entry)
	add := func(to map[string]*entry, id string, f *fact) {
		if e := to[id]; e != nil {
			e.facts = append(e.facts, f)
			return
		}
		e := &entry{facts: []*fact{f}}
		if to != nil {
			to[id] = e
		}
		all = append(all, e)
	}
	for _, f := range facts {
		switch {
		case f.key.slot != noSlot:
			add(semaphores, f.key.name, f)
		case f.hasOwner():
			add(sets, f.claims[0].owner, f)
		default:
			add(nil, "", f)
		}
	}
	for _, e := range all {
		e.finish()
	}
	return all
}

// hasOwner reports whether one lease of this library is the only holder: its other names belong to
// the same set.
func (f *fact) hasOwner() bool {
	return f.state == Held && len(f.claims) == 1 && f.claims[0].words != "" && !f.claims[0].since.IsZero()
}

// finish derives the other fields from the facts.
func (e *entry) finish() {
	if len(e.facts) > 1 {
		slices.SortFunc(e.facts, func(a, b *fact) int {
			return cmp.Or(strings.Compare(a.key.name, b.key.name), cmp.Compare(a.key.slot, b.key.slot))
		})
	}
	e.kind, e.state, e.waiters = kindOf(e.facts), stateOf(e.facts), e.facts[0].waiters
	for i, f := range e.facts {
		if i > 0 && len(f.waiters) > 0 {
			e.waiters = joinWaiters(e.waiters, f.waiters)
		}
		for k := range f.claims {
			c := &f.claims[k]
			if !c.since.IsZero() && (c.holds || f.state == Resting) && (e.since.IsZero() || c.since.Before(e.since)) {
				e.since = c.since
			}
			e.ends = max(e.ends, c.ends)
			e.endless = e.endless || c.ends == system.Forever
		}
	}
	e.limits = LimitsOf(e.waiters)
	e.rank, e.odd = oddity(e)
	switch {
	case len(e.waiters) > 0:
		e.need = Waiting
	case e.odd != "":
		e.need = Odd
	default:
		e.need = Rest
	}
}

// kindOf returns what the facts are about.
func kindOf(facts []*fact) Kind {
	f := facts[0]
	switch {
	case f.key.slot != noSlot:
		return Permits
	case len(facts) > 1:
		return Set
	case len(f.claims) == 0:
		return None
	case f.claims[0].words == "":
		return Shared
	}
	return Exclusive
}

// stateOf returns the state of an entry with these facts: held if a part of it is held.
func stateOf(facts []*fact) State {
	order := []State{Held, Incomplete, Split, Resting, Reserved, WaitedFor, Free}
	best := len(order) - 1
	for _, f := range facts {
		best = min(best, slices.Index(order, f.state))
	}
	return order[best]
}

// joinWaiters returns the waiters of several queues, in turn.
func joinWaiters(a, b []redlock.WaiterStatus) []redlock.WaiterStatus {
	all := slices.Concat(a, b)
	slices.SortFunc(all, func(a, b redlock.WaiterStatus) int {
		return cmp.Or(strings.Compare(a.Ticket, b.Ticket), cmp.Compare(b.Nodes, a.Nodes))
	})
	return slices.CompactFunc(all, func(a, b redlock.WaiterStatus) bool { return a.Ticket == b.Ticket })
}

// oddity returns why an entry is odd, in words, and its rank: the most urgent is the first.
func oddity(e *entry) (rank int, why string) {
	splits, runsDown := false, false
	for _, f := range e.facts {
		splits = splits || f.state == Split
		for i := range f.claims {
			runsDown = runsDown || f.claims[i].holds && f.claims[i].trend.direction == RunsDown
		}
	}
	switch {
	case splits && e.kind == Permits:
		return 1, "keys of permits at a minority of the masters: they end with their ttl"
	case splits:
		return 1, Split.Text()
	case e.endless:
		return 2, "no ttl: no client of this library leaves such a key"
	case runsDown:
		return 3, string(RunsDown) + ": " + RunsDown.Sign().Text
	case e.state == Resting:
		return 4, Resting.Text()
	case e.state == Reserved:
		return 5, Reserved.Text()
	case e.state == Incomplete:
		return 6, Incomplete.Text()
	case len(e.limits) > 1:
		return 7, "callers give " + DifferentLimits(e.limits)
	}
	return 0, ""
}

// names returns the names that a look at the entry must ask about.
func (e *entry) names() []string {
	if e.kind == Permits {
		return []string{e.facts[0].key.name}
	}
	names := make([]string, len(e.facts))
	for i, f := range e.facts {
		names[i] = f.key.name
	}
	return names
}

// matches reports whether the entry has a text, in lower case, in a name or a label.
func (e *entry) matches(lower string) bool {
	has := func(text string) bool { return strings.Contains(strings.ToLower(text), lower) }
	for _, f := range e.facts {
		if has(f.key.raw()) || slices.ContainsFunc(f.claims, func(c claim) bool { return has(ReadableOwner(c.owner)) }) {
			return true
		}
	}
	return slices.ContainsFunc(e.waiters, func(w redlock.WaiterStatus) bool { return has(w.Label) })
}

// makeRow returns the entry's row. when turns an instant of the model's clock into wall time.
func (e *entry) makeRow(when func(time.Duration) time.Time) *Row {
	if e.row != nil {
		return e.row
	}
	f := e.facts[0]
	r := &Row{ID: string(e.kind[0]) + f.key.name, Kind: e.kind, State: e.state, Level: e.level(), Need: e.need, Odd: e.odd,
		HeldBy: e.heldBy(), Since: e.since, Looked: when(f.at), Words: words(combine(e.facts)), Waiters: makeWaiters(e.waiters, e.kind == Shared)}
	if e.kind != Permits && e.kind != Set {
		r.ID = "l" + f.key.name
	}
	r.Names = e.rowNames()
	r.Title = r.Names[0].Text
	if len(r.Names) > 1 {
		r.Title += " +" + itoa(len(r.Names)-1)
	}
	if len(e.limits) > 0 {
		r.Limit = e.limits[len(e.limits)-1]
	}
	for _, f := range e.facts {
		r.Token, r.Asks = max(r.Token, f.token), r.Asks || f.asks
		if f.stale || f.state == Incomplete {
			r.Stale, r.Says = true, cmp.Or(r.Says, f.says)
		}
	}
	r.Holders = e.makeHolders()
	for i := range r.Holders {
		h := &r.Holders[i]
		if i == 0 || r.Left >= 0 && (h.Left < 0 || h.Left > r.Left) {
			r.Left, r.Direction = h.Left, h.Direction
		}
	}
	e.row = r
	return r
}

// level returns the entry's level.
func (e *entry) level() Level {
	if l := e.state.Level(); l != OK {
		return l
	}
	if e.rank > 0 && (e.rank <= 3 || e.rank == 7) {
		return Warning
	}
	return OK
}

// rowNames returns the names of a row.
func (e *entry) rowNames() []Name {
	names := e.names()
	all := make([]Name, len(names))
	for i, name := range names {
		all[i] = nameOf(name)
	}
	return all
}

func nameOf(raw string) Name { return Name{Raw: raw, Text: printable.Quote(printable.Cut(raw))} }

// heldBy names the holder in short.
func (e *entry) heldBy() string {
	if e.kind != Permits {
		return e.facts[0].by
	}
	held := 0
	for _, f := range e.facts {
		if f.state == Held || f.state == Incomplete && len(f.claims) > 0 {
			held++
		}
	}
	if held == 0 {
		return ""
	}
	return Counted(held, "permit")
}

// combine merges the words of several facts: for each master, the worst for the holder.
func combine(facts []*fact) string {
	if len(facts) == 1 {
		return facts[0].words
	}
	const from = "sqofkrh" // silent first
	var worst []byte
	for _, f := range facts {
		if f.key.slot == queueSlot {
			continue
		}
		for i := range len(f.words) {
			if i == len(worst) {
				worst = append(worst, f.words[i])
			} else if strings.IndexByte(from, f.words[i]) < strings.IndexByte(from, worst[i]) {
				worst[i] = f.words[i]
			}
		}
	}
	return string(worst)
}

// makeHolders returns the holders of all facts; one owner of several facts is one holder.
func (e *entry) makeHolders() (all []Holder) {
	at, letters := make(map[string]int), []string(nil)
	for _, f := range e.facts {
		for i := range f.claims {
			c := &f.claims[i]
			k, known := at[c.owner]
			if !known {
				k = len(all)
				at[c.owner] = k
				all = append(all, Holder{Label: OwnerLabel(c.owner), Owner: printable.Quote(c.owner), Shared: c.words == "",
					Since: c.since, Left: leftOf(c.ends, f.at), Direction: c.trend.direction, Masters: c.nodes, Holds: c.holds})
				letters = append(letters, c.words)
			}
			h := &all[k]
			h.Names = append(h.Names, nameOf(f.key.raw()))
			if f.key.slot >= 0 {
				h.Slots = append(h.Slots, f.key.slot)
			}
			if c.words != "" {
				h.Token = max(h.Token, f.token)
			}
			if known {
				h.Holds, h.Masters = h.Holds || c.holds, min(h.Masters, c.nodes)
				letters[k] = combine([]*fact{{words: letters[k]}, {words: c.words}})
			}
		}
	}
	for i := range all {
		all[i].Words = words(letters[i])
	}
	return all
}

// leftOf returns the time left at an instant; negative if there is no end.
func leftOf(ends, at time.Duration) time.Duration {
	if ends == system.Forever {
		return -1
	}
	return max(ends-at, 0)
}

// makeWaiters returns the waiters of a row.
func makeWaiters(queue []redlock.WaiterStatus, shared bool) []Waiter {
	all := make([]Waiter, len(queue))
	for i := range queue {
		w := &queue[i]
		all[i] = Waiter{Label: printable.Quote(w.Label), Ticket: printable.Quote(w.Ticket), Since: w.Since.UTC(),
			Nodes: w.Nodes, Permits: w.Permits, Limit: w.Limit, Shared: isReader(w), Wants: Wants(w, shared)}
	}
	return all
}

// goneLabel replaces the label of a waiter that no master knows.
const goneLabel = "(gone?)"

// WaiterLabel returns the label of a waiter, safe to print.
func WaiterLabel(w *redlock.WaiterStatus) string { return cmp.Or(printable.Quote(w.Label), goneLabel) }

// Text returns the label as faces show it.
func (w *Waiter) Text() string { return cmp.Or(w.Label, goneLabel) }

// isReader reports whether a waiter waits to read.
func isReader(w *redlock.WaiterStatus) bool {
	return strings.HasSuffix(w.Ticket, protocol.ReaderSuffix)
}

// WantsLock is the wish of a waiter for the whole lock: faces leave it out.
const WantsLock = "the lock"

// Wants returns what a waiter wants, for people; at a lock of readers, a writer wants to write.
func Wants(w *redlock.WaiterStatus, shared bool) string {
	switch {
	case w.Permits > 0:
		return Counted(w.Permits, "permit")
	case isReader(w):
		return "to read"
	case strings.HasSuffix(w.Ticket, protocol.SetSuffix):
		return "several locks"
	case shared:
		return "to write"
	}
	return WantsLock
}
