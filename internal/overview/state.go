package overview

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
