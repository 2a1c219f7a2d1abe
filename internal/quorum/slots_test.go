package quorum

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/redlock-go/redlock/internal/protocol"
)

// votesOn makes votes at nodes, with blanks between: the owner of each slot, a letter or . for a free slot, where the node
// refused; +, and the slots that it granted; - for a node that does not answer, and w where waiters keep the caller out.
func votesOn(nodes string) (answers []Answer) {
	for node := range strings.FieldsSeq(nodes) {
		slots, granted := strings.CutPrefix(node, "+")
		switch {
		case granted:
			answers = append(answers, Answer{Count: Yes, Outcome: Confirmed, Slots: slots})
		case node == "-":
			answers = append(answers, Answer{Count: NoAnswer, Outcome: Unknown})
		case node == "w":
			answers = append(answers, Answer{Count: No, Outcome: Refused, Holder: protocol.Permits})
		default:
			var owners string
			for _, owner := range node {
				owners += strings.Repeat(strings.ReplaceAll(string(owner), ".", " "), protocol.OwnerName)
			}
			answers = append(answers, Answer{Count: No, Outcome: Refused, Holder: protocol.Permits, Slots: owners})
		}
	}
	return answers
}

func TestPermitsAreHeldAtTheNodesThatShowTheSameOwners(t *testing.T) {
	for _, c := range []struct {
		nodes   string
		permits int
		held    int    // at so many nodes
		rivals  string // their letters
	}{
		{"A A A", 1, 3, ""},
		{"A B C", 1, 1, "ABC"},
		{"A A B", 1, 2, "AB"},
		{"+0 A B", 1, 1, "AB"},
		{"+0 A -", 1, 1, "A"},
		{"XYA XYB XYC", 1, 1, "ABC"}, // the last of three permits
		{"XYA XYA XYA", 1, 3, ""},
		{"XYA XYA XZB", 1, 2, "YZAB"},
		{"XYAB XYAC XYBC", 1, 2, "ABC"}, // A and C have a quorum
		{"+2 XYA XYB", 1, 1, "AB"},
		{"+2 XYA -", 1, 1, "A"}, // X and Y hold slots that this ballot was not granted
		{"AABB CCAA +0,1", 2, 1, "ABC"},
		{"AABB AACC AABB", 2, 2, "BC"},
		{"AAB. AAC. AAD.", 2, 1, "BCD"},
		{"A. A. A.", 2, 3, ""}, // one is free, two are wanted
		{"w w A", 1, 3, ""},    // those who wait count for any owner
		{"w A B", 1, 2, "AB"},
		{"w w w", 1, 3, ""},
		{"+0 w -", 1, 1, ""},
		{"- - -", 1, 0, ""},
		{"A AB A", 1, 1, "B"}, // no two nodes of the protocol show other numbers of slots
		{"A A A", 3, 3, ""},   // nor fewer than the ballot asks for
		{". . .", 1, 0, ""},
	} {
		answers := votesOn(c.nodes)
		b := newBallot(len(answers), Confirm)
		b.Permits = uint16(c.permits)
		record(b, answers...)
		holder, nodes := b.Leader()
		require.Equal(t, c.held, nodes, c.nodes)
		require.Equal(t, c.held > 0, holder == protocol.Permits, c.nodes)
		var rivals []string
		for _, rival := range b.Rivals() {
			if rival != protocol.Permits {
				rivals = append(rivals, rival[:1])
			}
		}
		require.ElementsMatch(t, strings.Split(c.rivals, "")[:len(c.rivals)], rivals, c.nodes)
	}
}

// Other locks' rivals are the owners that the nodes showed.
func TestRivalsAreTheOwnersThatNodesShowed(t *testing.T) {
	b := newBallot(5, Confirm)
	held := func(holder string) Answer { return Answer{Count: No, Outcome: Refused, Holder: holder} }
	record(b, held("a"), held("b"), held("b"), held(""), Answer{Count: Yes, Outcome: Confirmed, Slots: "0"})
	require.Equal(t, []string{"a", "b"}, b.Rivals())
}

func TestMostOfASlotIsCountedInAnyOrder(t *testing.T) {
	for _, nodes := range []string{"A", "A B", "A B B", "B A B A A", "C B A A A", "A B C C", ". A . A", "- A +0 A B"} {
		var votes Votes
		most := 0
		for _, a := range votesOn(nodes) {
			votes = append(votes, Vote{answer: a})
		}
		for _, owner := range "ABC" {
			most = max(most, strings.Count(nodes, string(owner)))
		}
		require.Equal(t, most, votes.mostOf(0), nodes)
	}
}
