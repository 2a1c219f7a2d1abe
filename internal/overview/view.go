package overview

// MaxVisible bounds the rows of a Snapshot, unless its View asks for all. Visible rows are looked
// at each second.
const MaxVisible = 200

// Order is the order of a view's rows. Equal rows are ordered by name.
type Order string

// The orders.
const (
	ByNeed    Order = "need"    // waited for (oldest waiter first), odd ones, the rest by name
	ByName    Order = "name"    //
	BySince   Order = "since"   // held for longest first; not known: last
	ByLeft    Order = "left"    // first to end first; without an end: last
	ByWaiters Order = "waiters" // most waiters first
)

// Orders returns all orders.
func Orders() []Order { return []Order{ByNeed, ByName, BySince, ByLeft, ByWaiters} }

// View selects and orders rows. The zero View has the first rows of all, by need.
type View struct {
	Filter string // a part of a name or label, in any case; "": all
	Order  Order  // "": ByNeed

	// All asks for all matching rows, for a log or an API. Only the first MaxVisible are visible.
	All bool
}
