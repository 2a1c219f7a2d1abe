package overview

// MaxVisible is how many rows a Snapshot has at most, unless its View asks for all. Those that are
// visible are looked at each second.
const MaxVisible = 200

// Order is the order of a view's rows.
type Order string

// The orders. Rows that are equal in one stand by name.
const (
	ByNeed    Order = "need"    // waited for (oldest waiter first), odd ones, the rest by name
	ByName    Order = "name"    //
	BySince   Order = "since"   // held for longest first; not known: last
	ByLeft    Order = "left"    // first to end first; without an end: last
	ByWaiters Order = "waiters" // most waiters first
)

// Orders are all orders, for a face that offers them.
func Orders() []Order { return []Order{ByNeed, ByName, BySince, ByLeft, ByWaiters} }

// View is what a watcher wants to see. The zero View has the first rows of all, by need.
type View struct {
	Filter string // a part of a name, or of a holder's or a waiter's label, whatever its case; "": all
	Order  Order  // "": ByNeed

	// All asks for all rows that the filter lets through, for a log or an API. The first
	// MaxVisible of them are the visible ones.
	All bool
}
