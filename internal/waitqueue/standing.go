package waitqueue

import (
	"cmp"
	"slices"
	"time"

	"github.com/redlock-go/redlock/internal/protocol"
	"github.com/redlock-go/redlock/internal/quorum"
	"github.com/redlock-go/redlock/internal/system"
)

// Standing is what a refused attempt showed the waiter.
type Standing struct {
	Position   int           // in the queue, the median of the nodes'; 0: none
	Nearest    int           // of several locks, its position in the queue where it is least, as above; else Position
	Ahead      int           // other clients ahead in the queue: no node shows fewer
	Joined     bool          // a node did not have the ticket in its queue before
	Challenged bool          // a node has challenged the clients that keep this one out
	Reserved   bool          // the lock is reserved for another waiter at a quorum
	Granted    bool          // nodes granted it, too few
	Free       time.Duration // until a quorum is free, if nothing is renewed
	Took       time.Duration // how long the attempt took
}

// StandingOf returns what an attempt showed that was refused at a quorum of need nodes.
func StandingOf(b *quorum.Ballot, need int, took time.Duration) Standing {
	holder, nodes := b.Leader()
	s := Standing{Reserved: protocol.IsReservation(holder) && nodes >= need, Granted: b.Tally().Nodes[quorum.Yes] > 0,
		Free: system.Forever / 2, Took: took}
	var positions, nearest []int
	var ends []time.Duration
	for _, a := range b.Answers() {
		if a.Place.Position > 0 {
			if len(positions) == 0 || int(a.Place.Ahead) < s.Ahead {
				s.Ahead = int(a.Place.Ahead) // the least, since looking too often does no harm
			}
			positions = append(positions, int(a.Place.Position))
			nearest = append(nearest, int(cmp.Or(a.Place.Nearest, a.Place.Position)))
		}
		s.Joined, s.Challenged = s.Joined || a.Place.Joined, s.Challenged || a.Place.Challenged
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
		slices.Sort(nearest)
		s.Position, s.Nearest = positions[len(positions)/2], nearest[len(nearest)/2]
	}
	return s
}
