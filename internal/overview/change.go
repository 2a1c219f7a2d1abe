package overview

import (
	"cmp"
	"slices"
	"strings"
	"time"
)

// ChangeKind is what has changed.
type ChangeKind string

// The kinds of changes.
const (
	Granted       ChangeKind = "granted"        // an owner has the lock, a share or a slot
	Released      ChangeKind = "released"       // an owner lost it
	HolderChanged ChangeKind = "holder changed" // both at once, of an exclusive lock
	WaiterCame    ChangeKind = "waiter came"
	WaiterLeft    ChangeKind = "waiter left" // it got the lock, gave up, or died
	NodeDown      ChangeKind = "node down"   // it does not vote any more
	NodeUp        ChangeKind = "node up"
)

// Change is one difference between two snapshots, in JSON. All texts but Name are safe to print.
type Change struct {
	Time    time.Time  `json:"time"`
	Kind    ChangeKind `json:"change"`
	Name    string     `json:"name,omitempty"` // as calls take it: of a permit "deployments#2"
	Holder  string     `json:"holder,omitempty"`
	Before  string     `json:"before,omitempty"` // holder changed: the one before
	Token   int64      `json:"token,omitempty"`
	Held    float64    `json:"held_s,omitempty"` // by the holder that is gone; 0: not known
	Waiter  string     `json:"waiter,omitempty"`
	Permits int        `json:"permits,omitempty"`
	Limit   int        `json:"limit,omitempty"`
	Shared  bool       `json:"shared,omitempty"`
	Waited  float64    `json:"waited_s,omitempty"` // waiter left
	Node    string     `json:"node,omitempty"`
	State   string     `json:"state,omitempty"` // of the node
	Cause   string     `json:"cause,omitempty"`
}

// Changes returns what has changed between two snapshots of one View with All, in a fixed order:
// masters first, then locks by name. While either snapshot is stale it returns nothing about locks.
// It misses what comes and goes between two looks.
func Changes(before, after *Snapshot) (all []Change) {
	for i := range after.Masters {
		if i < len(before.Masters) {
			all = appendMaster(all, &before.Masters[i], &after.Masters[i], after.Taken.UTC())
		}
	}
	if before.Stale || after.Stale {
		return all
	}
	was, is := flatten(before), flatten(after)
	names := make([]string, 0, len(is))
	for name := range is {
		names = append(names, name)
	}
	for name := range was {
		if is[name] == nil {
			names = append(names, name)
		}
	}
	slices.Sort(names)
	for _, name := range names {
		all = appendLock(all, name, cmp.Or(was[name], &standing{}), cmp.Or(is[name], &standing{}), after.Taken.UTC())
	}
	return all
}

// appendMaster appends a master's change between voting and not voting.
func appendMaster(all []Change, was, is *Master, at time.Time) []Change {
	if (was.State == "up") == (is.State == "up") {
		return all
	}
	kind := NodeDown
	if is.State == "up" {
		kind = NodeUp
	}
	return append(all, Change{Time: at, Kind: kind, Node: is.Node, State: is.State, Cause: is.Cause})
}

// standing has the holders and the waiters of one name.
type standing struct {
	row     *Row
	holders []*Holder // with a majority
	waiters []Waiter
}

// flatten returns the holders and waiters by name; a semaphore's slots have its holders.
func flatten(s *Snapshot) map[string]*standing {
	all := make(map[string]*standing, len(s.Rows))
	at := func(name string, r *Row) *standing {
		if all[name] == nil {
			all[name] = &standing{row: r}
		}
		return all[name]
	}
	for _, r := range s.Rows {
		for i := range r.Holders {
			if h := &r.Holders[i]; h.Holds {
				for _, name := range h.Names {
					on := at(name.Raw, r)
					on.holders = append(on.holders, h)
				}
			}
		}
		if len(r.Waiters) > 0 {
			on := at(r.Names[0].Raw, r)
			on.waiters = append(on.waiters, r.Waiters...)
		}
	}
	return all
}

// appendLock appends the changes at one name.
func appendLock(all []Change, name string, was, is *standing, at time.Time) []Change {
	if was.row != nil && was.row == is.row {
		return all
	}
	came, gone := differences(was.holders, is.holders), differences(is.holders, was.holders)
	if len(came) == 1 && len(gone) == 1 && len(was.holders) == 1 && len(is.holders) == 1 {
		all = append(all, Change{Time: at, Kind: HolderChanged, Name: name, Holder: came[0].Label, Before: gone[0].Label, Token: came[0].Token,
			Held: seconds(gone[0].Since, at)})
		came, gone = nil, nil
	}
	for _, h := range gone {
		all = append(all, Change{Time: at, Kind: Released, Name: name, Holder: h.Label, Token: h.Token, Held: seconds(h.Since, at)})
	}
	for _, h := range came {
		all = append(all, Change{Time: at, Kind: Granted, Name: name, Holder: h.Label, Token: h.Token})
	}
	waiting := func(kind ChangeKind, now, other []Waiter) {
		for _, w := range now {
			if !slices.ContainsFunc(other, func(v Waiter) bool { return v.Ticket == w.Ticket }) {
				c := Change{Time: at, Kind: kind, Name: name, Waiter: w.Label,
					Permits: w.Permits, Limit: w.Limit, Shared: w.Shared}
				if kind == WaiterLeft {
					c.Waited = seconds(w.Since, at)
				}
				all = append(all, c)
			}
		}
	}
	waiting(WaiterLeft, was.waiters, is.waiters)
	waiting(WaiterCame, is.waiters, was.waiters)
	return all
}

// differences returns the holders of b that a does not have, by owner.
func differences(a, b []*Holder) (only []*Holder) {
	for _, h := range b {
		if !slices.ContainsFunc(a, func(o *Holder) bool { return o.Owner == h.Owner }) {
			only = append(only, h)
		}
	}
	slices.SortFunc(only, func(a, b *Holder) int { return strings.Compare(a.Owner, b.Owner) })
	return only
}

// seconds returns the time since an instant; 0 if that is not known.
func seconds(since, now time.Time) float64 {
	if since.IsZero() {
		return 0
	}
	return max(now.Sub(since).Round(time.Millisecond).Seconds(), 0)
}
