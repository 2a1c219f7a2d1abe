package quorum

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/redlock-go/redlock/internal/admission"
	"github.com/redlock-go/redlock/internal/node"
	"github.com/redlock-go/redlock/internal/protocol"
)

// newBallot makes a ballot over n nodes that are not connected.
func newBallot(n int, rule Rule) *Ballot {
	c := &Cluster{Need: n/2 + 1}
	for i := range n {
		c.Nodes = append(c.Nodes, &admission.Member{Node: node.New(i, "", nil, nil)})
	}
	b := new(Ballot)
	c.Begin(b, Question{Rule: rule})
	return b
}

// record gives a ballot its answers.
func record(b *Ballot, answers ...Answer) {
	b.SetAnswers(0, func(i int) (*admission.VoteRight, Answer) { return nil, answers[i] })
}

func TestGreatestCountsTheNodesThatAgree(t *testing.T) {
	b := newBallot(5, Confirm)
	record(b,
		Answer{Count: Yes, Outcome: Confirmed, Token: 7},
		Answer{Count: Yes, Outcome: Confirmed, Token: 9},
		Answer{Count: No, Outcome: Refused, Holder: "other"},
		Answer{Count: Yes, Outcome: Confirmed, Token: 9},
		Answer{Count: NoAnswer, Outcome: Unknown},
	)
	token, agreed := b.Greatest()
	require.Equal(t, int64(9), token)
	require.Equal(t, 2, agreed)
}

func TestLeaderIsTheOwnerThatWasSeenAtMostNodes(t *testing.T) {
	b := newBallot(5, Confirm)
	_, none := b.Leader()
	require.Zero(t, none)
	held := func(holder string) Answer { return Answer{Count: No, Outcome: Refused, Holder: holder} }
	record(b, held("a"), held("b"), held("b"), held(""), Answer{Count: Yes, Outcome: Confirmed, Holder: "c"})
	leader, nodes := b.Leader()
	require.Equal(t, "b", leader)
	require.Equal(t, 2, nodes)
}

func TestReadingTheVotesAllocatesNothing(t *testing.T) {
	b := newBallot(5, Confirm)
	yes := Answer{Count: Yes, Outcome: Confirmed, Token: 7}
	record(b, yes, yes, yes, yes, yes)
	require.Zero(t, testing.AllocsPerRun(100, func() {
		b.Greatest()
		b.HasQuorum(func(a *Answer) bool { return a.Kind == protocol.HandedOff })
	}))
}
