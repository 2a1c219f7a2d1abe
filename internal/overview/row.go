package overview

import "time"

// Kind is what is held or waited for.
type Kind string

// The kinds.
const (
	Exclusive Kind = "exclusive" // one owner holds the lock
	Shared    Kind = "readers"   // readers hold the lock
	Set       Kind = "set"       // one owner holds several names
	Permits   Kind = "permits"   // a semaphore
	None      Kind = "none"      // no holder
)

// Need is how much a row needs a person: rows stand in this order.
type Need int

// The needs, from the greatest.
const (
	Waiting Need = iota // callers wait for it
	Odd                 // something about it is odd: Row.Odd says what
	Rest                // nothing
)

// Direction is where the time left of a lock goes.
type Direction string

// The directions.
const (
	Unknown  Direction = ""          // no second look has decided it yet
	Renews   Direction = "renews"    // its holder prolongs it
	RunsDown Direction = "runs down" // no process does
	Endless  Direction = "endless"   // it has no ttl
)

// Word is what one master says of a row.
type Word string

// The words.
const (
	SaysHolder      Word = "holder's"    // it has the key of the holder, or all its keys
	SaysFree        Word = "free"        // it has no key
	SaysOther       Word = "another's"   // it has the key of another owner
	SaysResting     Word = "resting"     // it has the key of a lock that rests
	SaysReserved    Word = "reserved"    // it keeps the lock for a waiter
	SaysQuarantined Word = "quarantined" // it does not vote yet
	SaysNothing     Word = "silent"      // it does not answer
)

// Name is the name of a lock.
type Name struct {
	Raw  string // as calls take it: never for output
	Text string // safe to print
}

// Row is a lock, the names that one owner holds together, or a semaphore, as of the last look. It
// is immutable. All texts except Name.Raw are safe to print.
type Row struct {
	ID    string // the same in all snapshots for the same lock, semaphore or set; not for output
	Title string // the name; of a set the first one, and how many more: "account-3 +1"
	Names []Name // one; of a set all, in order; of a semaphore its own
	Kind  Kind
	State State
	Level Level
	Need  Need
	Odd   string // why it is odd, in words; "" if it is not

	HeldBy  string   // in short: a label, "4 readers", "3 permits", or ""
	Holders []Holder // by slot of permits; else those that last longest first

	Since     time.Time     // of the first holder, by its clock; may be zero
	Left      time.Duration // of the longest holder, at the look; negative: no end
	Direction Direction     // of that holder
	Token     int64         // the greatest
	Asks      bool          // the holder lets go if asked (WithWanted)
	Words     []Word        // in the order of Snapshot.Masters

	Waiters []Waiter // in turn
	Limit   int      // a semaphore's permits, as waiters say; 0: not known
	Looked  time.Time
	Stale   bool   // a quorum did not answer the last look: the row is older than Looked
	Says    string // what the other masters said then; "" unless Stale
}

// Unheld returns the row's state; "" if it is held.
func (r *Row) Unheld() string {
	if r.State == Held {
		return ""
	}
	return string(r.State)
}

// The time left of a key without a ttl, in a cell and in a sentence.
const (
	NoEnd      = "no end"
	WithoutEnd = "without an end"
)

// LeftAt returns what remains of the row's or a holder's Left at an instant, without renewals;
// negative: it never ends.
func (r *Row) LeftAt(left time.Duration, t time.Time) time.Duration {
	if left < 0 {
		return left
	}
	return max(left-t.Sub(r.Looked), 0)
}

// Oldest returns when the first waiter asked; zero without waiters.
func (r *Row) Oldest() time.Time {
	if len(r.Waiters) == 0 {
		return time.Time{}
	}
	return r.Waiters[0].Since
}

// Holder is an owner of a lock, a share, a set or permits.
type Holder struct {
	Label     string // or the owner, without a label
	Owner     string // with the random part: it distinguishes leases
	Names     []Name // for a forced unlock: of permits the slots' locks
	Slots     []int  // of permits
	Shared    bool   // it is a reader
	Since     time.Time
	Left      time.Duration // as Row.Left
	Direction Direction
	Token     int64  // 0 for readers
	Masters   int    // that have it
	Holds     bool   // a majority has it
	Words     []Word // as Row.Words
}
