package overview

import "time"

// Snapshot is a watcher's picture at an instant. It is immutable.
type Snapshot struct {
	Taken    time.Time // by this machine's clock
	View     View      // what it was made for
	Headline Headline
	Masters  []Master // in the order given to the client
	Counts   Counts   // of all locks, whatever the filter
	Rows     []*Row   // in the view's order, MaxVisible at most unless View.All
	Matching int      // rows that the filter lets through

	Listed time.Time     // when the last whole pass ended; zero: none has yet
	Took   time.Duration // that pass
	Stale  bool          // no quorum: the Rows are of Listed, with the masters' words since
	Cause  string        // why; "" unless Stale
}

// Age returns how old the list of the locks is; 0 before the first whole pass.
func (s *Snapshot) Age() time.Duration {
	if s.Listed.IsZero() {
		return 0
	}
	return max(s.Taken.Sub(s.Listed), 0)
}

// IsWhole reports whether a pass was whole or has failed. The first one may take long, and shows
// meanwhile what it has found.
func (s *Snapshot) IsWhole() bool { return !s.Listed.IsZero() || s.Stale }

// Headline is the one sentence: are locks available?
type Headline struct {
	Text      string // "Locks are available: 4 of 5 masters vote, 1 more may fail."
	Level     Level  // Warning: no master may fail, or one does not vote; Error: locks are not available
	Available bool
	Masters   int // in the list
	Voting    int
	Quorum    int
	MayFail   int // more masters
}

// Counts counts the whole picture.
type Counts struct {
	Locks       int           // rows
	Callers     int           // that wait
	WaitedFor   int           // rows that callers wait for
	LongestWait time.Duration // at Snapshot.Taken
	Endless     int           // locks without a ttl
	Odd         int           // rows with Row.Odd, waited for or not
}
