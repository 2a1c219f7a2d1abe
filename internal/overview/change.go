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
	Released      ChangeKind = "released"       // an owner has it no more
	HolderChanged ChangeKind = "holder changed" // both at once, of a lock that one owner has alone
	WaiterCame    ChangeKind = "waiter came"
	WaiterLeft    ChangeKind = "waiter left" // it got the lock, gave up, or died
	MasterDown    ChangeKind = "master down" // it does not vote any more
	MasterUp      ChangeKind = "master up"
)

// Change is one difference between two snapshots. All texts but Name are safe to print; encoding/json makes
// Name safe.
type Change struct {
	Time   time.Time  `json:"time"`
	Kind   ChangeKind `json:"change"`
	Name   string     `json:"name,omitempty"` // of the lock, as calls take it: of a permit "deployments#2"
	Holder string     `json:"holder,omitempty"`
	Before string     `json:"before,omitempty"` // holder changed: the one before
	Waiter string     `json:"waiter,omitempty"`
	Wants  string     `json:"wants,omitempty"`
	Token  int64      `json:"token,omitempty"`
	Held   float64    `json:"held_s,omitempty"`   // released, holder changed: for how long, if it is known
	Waited float64    `json:"waited_s,omitempty"` // waiter left
	Master string     `json:"master,omitempty"`
	State  string     `json:"state,omitempty"` // of the master
	Cause  string     `json:"cause,omitempty"`
}

// Changes returns what has changed between two snapshots of one View with All, in an order that does not
// depend on chance: masters first, then locks by name. It returns nothing about locks while either
// snapshot is stale: what is not known has not changed. What came and went between two looks is not seen.
func Changes(before, after *Snapshot) (all []Change) {
	for i := range after.Masters {
		if i < len(before.Masters) {
			all = appendMaster(all, &before.Masters[i], &after.Masters[i], after.Taken)
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
		all = appendLock(all, name, cmp.Or(was[name], &standing{}), cmp.Or(is[name], &standing{}), after.Taken)
	}
	return all
}

// appendMaster appends that a master votes, or votes no more.
func appendMaster(all []Change, was, is *Master, at time.Time) []Change {
	if (was.State == "up") == (is.State == "up") {
		return all
	}
	kind := MasterDown
	if is.State == "up" {
		kind = MasterUp
	}
	return append(all, Change{Time: at, Kind: kind, Master: is.Node, State: is.State, Cause: is.Cause})
}

// standing is who stands at one name.
type standing struct {
	row     *Row
	holders []*Holder // that hold it
	waiters []Waiter
}

// flatten returns who stands at each name: of a semaphore its slots have the holders, and its name the waiters.
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

// appendLock appends what has changed at one name.
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
	for _, w := range was.waiters {
		if !slices.ContainsFunc(is.waiters, func(v Waiter) bool { return v.Ticket == w.Ticket }) {
			all = append(all, Change{Time: at, Kind: WaiterLeft, Name: name, Waiter: w.Label, Wants: w.Wants, Waited: seconds(w.Since, at)})
		}
	}
	for _, w := range is.waiters {
		if !slices.ContainsFunc(was.waiters, func(v Waiter) bool { return v.Ticket == w.Ticket }) {
			all = append(all, Change{Time: at, Kind: WaiterCame, Name: name, Waiter: w.Label, Wants: w.Wants})
		}
	}
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

// seconds returns how long ago an instant was; 0 if it is not known.
func seconds(since, now time.Time) float64 {
	if since.IsZero() {
		return 0
	}
	return max(now.Sub(since).Round(time.Millisecond).Seconds(), 0)
}
