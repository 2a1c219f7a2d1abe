package quorum

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// tallyOf builds a tally.
func tallyOf(counts map[Count]int) *Tally {
	var t Tally
	for c, n := range counts {
		t[c] = n
	}
	return &t
}

func TestAcquireIsDecidedAsSoonAsItIsCertain(t *testing.T) {
	for name, c := range map[string]struct {
		counts    map[Count]int
		strongest int
		want      Verdict
	}{
		"two of three votes are no quorum of five": {map[Count]int{Yes: 2, Pending: 3}, 0, Open},
		"the third grant decides":                  {map[Count]int{Yes: 3, Pending: 2}, 0, Granted},
		"two silent leave it open":                 {map[Count]int{Yes: 2, NoAnswer: 2, Pending: 1}, 0, Open},
		"three silent end it":                      {map[Count]int{Yes: 1, NoAnswer: 3, Pending: 1}, 0, Failed},
		"one holder at a quorum ends it":           {map[Count]int{No: 3, Pending: 2}, 3, Failed},
		"three holders, one may yet have a quorum": {map[Count]int{No: 3, Pending: 2}, 1, Impossible},
		"three holders and no room for a quorum":   {map[Count]int{Yes: 1, No: 3, Pending: 1}, 1, Failed},
		"one holder, the silent may be its quorum": {map[Count]int{No: 1, NoAnswer: 2, Pending: 2}, 1, Impossible},
		"all voted": {map[Count]int{Yes: 2, No: 2, NoAnswer: 1}, 2, Failed},
	} {
		t.Run(name, func(t *testing.T) {
			require.Equal(t, c.want, decideAcquire(tallyOf(c.counts), 3, c.counts[Yes], c.strongest, false))
		})
	}
}

// Grants of different slots of a semaphore are votes for different leases.
func TestGrantsOfDifferentSlotsAreNoQuorum(t *testing.T) {
	decide := func(counts map[Count]int, grants int) Verdict {
		return decideAcquire(tallyOf(counts), 3, grants, 0, false)
	}
	require.Equal(t, Open, decide(map[Count]int{Yes: 4, Pending: 1}, 2))
	require.Equal(t, Failed, decide(map[Count]int{Yes: 5}, 2))
	require.Equal(t, Failed, decide(map[Count]int{Yes: 3, Pending: 2}, 0), "none of them can reach a quorum")
	require.Equal(t, Granted, decide(map[Count]int{Yes: 5}, 3))
	for _, c := range []struct {
		grants, slots string
		nodes         int
	}{{"", "", 0}, {"-", "", 1}, {"---", "", 3}, {"3", "3", 1}, {"3 4 4", "4", 2}, {"3 4", "3", 1}, {"3 4,5 4,5 3 3", "3", 3}} {
		var votes Votes
		for _, slots := range strings.FieldsFunc(strings.ReplaceAll(c.grants, "-", "- "), func(r rune) bool { return r == ' ' }) {
			votes = append(votes, Vote{answer: Answer{Count: No}}, Vote{answer: Answer{Count: Yes, Slots: strings.Trim(slots, "-")}})
		}
		slots, nodes := votes.granted()
		require.Equal(t, c.slots, slots, c.grants)
		require.Equal(t, c.nodes, nodes, c.grants)
	}
}

func TestWaiterAwaitsTheOtherVotes(t *testing.T) {
	decide := func(counts map[Count]int, strongest int) Verdict {
		return decideAcquire(tallyOf(counts), 3, counts[Yes], strongest, true)
	}
	require.Equal(t, HeldElsewhere, decide(map[Count]int{No: 3, Pending: 2}, 3))
	require.Equal(t, Failed, decide(map[Count]int{No: 5}, 5))
	require.Equal(t, Impossible, decide(map[Count]int{Yes: 1, No: 3, Pending: 1}, 2), "the votes are split: roll back at once")
	require.Equal(t, Open, decide(map[Count]int{No: 3, Pending: 2}, 2), "nothing to roll back but parked attempts, which may yet be executed")
	require.Equal(t, Granted, decide(map[Count]int{Yes: 3, No: 2}, 2))
}

func TestAcquireNeedsAQuorumOfTheConfiguredNodes(t *testing.T) {
	for n := 1; n <= 64; n++ {
		quorum := n/2 + 1
		for yes := 0; yes <= n; yes++ {
			got := decideAcquire(tallyOf(map[Count]int{Yes: yes, NoAnswer: n - yes}), quorum, yes, 0, false)
			require.Equal(t, 2*yes > n, got == Granted, "%d of %d", yes, n)
		}
	}
}

func TestRenewalIsDecidedByYesRecreatedAndNo(t *testing.T) {
	for name, c := range map[string]struct {
		counts map[Count]int
		want   Verdict
	}{
		"a quorum still has it":                            {map[Count]int{Yes: 3, Pending: 2}, Granted},
		"yes and recreated, while others may show a loss":  {map[Count]int{Yes: 2, Recreated: 1, Pending: 2}, Open},
		"yes and recreated, when no loss can be shown":     {map[Count]int{Yes: 2, Recreated: 1, NoAnswer: 2}, Granted},
		"yes and recreated, too few left to show a loss":   {map[Count]int{Yes: 3, Recreated: 1, Pending: 1}, Granted},
		"a quorum had lost it":                             {map[Count]int{Yes: 2, Recreated: 3}, Revoked},
		"a quorum had lost it, some to others":             {map[Count]int{Recreated: 2, No: 1, Pending: 2}, Revoked},
		"too few answers":                                  {map[Count]int{Yes: 2, NoAnswer: 3}, Failed},
		"recreated alone, short of a quorum":               {map[Count]int{Recreated: 2, NoAnswer: 3}, Failed},
		"the last vote may yet renew it":                   {map[Count]int{Yes: 1, Recreated: 1, NoAnswer: 2, Pending: 1}, Open},
		"no quorum possible, but a loss may yet be shown":  {map[Count]int{No: 2, NoAnswer: 1, Yes: 1, Pending: 1}, Open},
		"no quorum possible, a loss can't be shown either": {map[Count]int{Yes: 1, NoAnswer: 3, Pending: 1}, Failed},
	} {
		t.Run(name, func(t *testing.T) {
			require.Equal(t, c.want, Renew(3, tallyOf(c.counts), nil))
		})
	}
}
