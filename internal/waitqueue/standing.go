package waitqueue

import (
	"slices"
	"time"

	"github.com/redlock-go/redlock/internal/protocol"
	"github.com/redlock-go/redlock/internal/quorum"
	"github.com/redlock-go/redlock/internal/system"
)

// Standing is what a refused attempt showed the waiter.
type Standing struct {
	Position int           // in the queue, the median of the nodes'; 0: none
	Joined   bool          // a node did not have the ticket in its queue before
	Watches  bool          // a node has challenged a client ahead: the waiter looks again when that is over
	LookIn   time.Duration // the waiter looks again then, as a node says; else 0
	Unheard  bool          // too few nodes can wake the client
	Granted  bool          // nodes granted it, too few
	Free     time.Duration // until a quorum is free, if nothing is renewed
	Took     time.Duration // how long the attempt took
}

// StandingOf returns what an attempt showed that was refused at a quorum of need nodes.
func StandingOf(b *quorum.Ballot, need int, took time.Duration) Standing {
	s := Standing{Granted: b.Tally().Nodes[quorum.Yes] > 0, Free: system.Forever / 2, Took: took}
	var positions []int
	var ends []time.Duration
	heard := 0
	for _, a := range b.Answers() {
		if a.Place.Position > 0 {
			positions = append(positions, int(a.Place.Position))
			if !a.Place.Unheard {
				heard++
			}
		}
		s.Joined, s.Watches = s.Joined || a.Place.Joined, s.Watches || a.Place.Watches
		if in := time.Duration(a.Place.LookIn) * time.Millisecond; in > 0 && (s.LookIn == 0 || in < s.LookIn) {
			s.LookIn = in
		}
		switch {
		case a.Count == quorum.Yes:
			ends = append(ends, 0)
		case a.Count == quorum.No && a.Remaining != protocol.Endless:
			ends = append(ends, a.Remaining)
		}
	}
	if len(ends) >= need {
		slices.Sort(ends)
		s.Free = ends[need-1]
	}
	if len(positions) > 0 {
		slices.Sort(positions)
		s.Position, s.Unheard = positions[len(positions)/2], heard < min(need, len(positions))
	}
	return s
}
