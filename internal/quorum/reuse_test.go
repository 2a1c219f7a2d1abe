package quorum

import (
	"testing"

	"github.com/stretchr/testify/require"
)

// basket counts how often a ballot was given back.
type basket int

func (b *basket) GiveBack() { *b++ }

// spareBallot returns a ballot of so many nodes that no user has left.
func spareBallot(nodes int, to Spare) *Ballot {
	b := newBallot(nodes, Confirm)
	b.Spare = to
	return b
}

func TestTheLastUserGivesABallotBack(t *testing.T) {
	for nodes := 1; nodes <= theMaker; nodes++ {
		for last := range nodes + 1 { // nodes: the maker
			var back basket
			b := spareBallot(nodes, &back)
			for who := range nodes {
				if who != last {
					b.leave(who)
					b.leave(who) // takes no other one out
				}
			}
			if last < nodes {
				b.Leave()
				b.Leave()
			}
			require.Zero(t, back, "%d of %d nodes is still there", last, nodes)
			if last < nodes {
				b.leave(last)
			} else {
				b.Leave()
			}
			require.EqualValues(t, 1, back)
		}
	}
}

func TestAWatchedOrLargeBallotIsNotGivenBack(t *testing.T) {
	for name, change := range map[string]func(*Ballot){
		"watched":        func(b *Ballot) { b.Watcher = spoiled(nil) },
		"recorded":       func(b *Ballot) { b.Recorder = noRecorder{} },
		"nobody's spare": func(b *Ballot) { b.Spare = nil },
	} {
		var back basket
		b := spareBallot(3, &back)
		change(b)
		for who := range 3 {
			b.leave(who)
		}
		b.Leave()
		require.Zero(t, back, name)
	}
	var back basket
	large := spareBallot(theMaker+1, &back)
	for who := range large.Votes {
		large.leave(who)
	}
	large.Leave()
	require.Zero(t, back)
}

// noRecorder records nothing.
type noRecorder struct{ Recorder }

func TestASpoiledBallotTellsWhoStillReachesIt(t *testing.T) {
	var back basket
	b := spareBallot(3, &back)
	reached := 0
	b.Spoil(func() { reached++ })
	b.Leave()
	b.leave(2)
	b.Reader.Read(nil, nil, nil)
	b.Watcher.Answered(nil, Answer{})
	require.Equal(t, 4, reached)
	require.Zero(t, back)
}
