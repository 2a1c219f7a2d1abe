package overview

import "time"

// ChangeKind is what has changed.
type ChangeKind string

// The kinds of changes.
const (
	Granted       ChangeKind = "granted"        // nobody had held it
	Released      ChangeKind = "released"       // nobody holds it any more
	HolderChanged ChangeKind = "holder changed" // another one holds it, or there are more or fewer of them
	WaiterCame    ChangeKind = "waiter came"
	WaiterLeft    ChangeKind = "waiter left"
	MasterDown    ChangeKind = "master down" // it does not vote any more, or for another reason
	MasterUp      ChangeKind = "master up"
)

// Change is one difference between two snapshots. All texts but Name are safe to print; encoding/json makes
// Name safe.
type Change struct {
	Time   time.Time  `json:"time"`
	Kind   ChangeKind `json:"change"`
	Name   string     `json:"name,omitempty"` // of the lock, as calls take it
	Holder string     `json:"holder,omitempty"`
	Before string     `json:"before,omitempty"` // the holder before
	Waiter string     `json:"waiter,omitempty"`
	Wants  string     `json:"wants,omitempty"`
	Token  int64      `json:"token,omitempty"`
	Held   float64    `json:"held_s,omitempty"`   // released: for how long, as far as it is known
	Waited float64    `json:"waited_s,omitempty"` // waiter left
	Master string     `json:"master,omitempty"`
	State  string     `json:"state,omitempty"` // of the master
	Cause  string     `json:"cause,omitempty"`
}

// Changes returns what has changed between two snapshots of one View with All, in an order that does not
// depend on chance: masters first, then locks by name. It returns nothing about locks while either
// snapshot is stale: what is not known has not changed.
func Changes(before, after *Snapshot) []Change { return nil }
