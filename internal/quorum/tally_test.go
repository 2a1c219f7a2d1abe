package quorum

import (
	"bufio"
	"os"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

var (
	ruleFiles = map[string]Rule{"acquire": Acquire, "wait": AcquireWaiting, "renew": Renew, "release": Confirm, "ping": Survey}
	verdicts  = map[string]Verdict{"open": Open, "held": HeldElsewhere, "impossible": Impossible, "failed": Failed, "revoked": Revoked,
		"granted": Granted}
)

// The cases are in testdata, a file for each rule.
func TestRules(t *testing.T) {
	for name, rule := range ruleFiles {
		f, err := os.Open("testdata/" + name + ".txt")
		require.NoError(t, err)
		cases := 0
		for lines := bufio.NewScanner(f); lines.Scan(); {
			votes, want, found := strings.Cut(lines.Text(), "=>")
			if !found || strings.HasPrefix(votes, "#") {
				continue
			}
			verdict, known := verdicts[strings.Fields(want)[0]]
			require.True(t, known, lines.Text())
			require.Equal(t, verdict, rule(readTally(t, votes)), "%s: %s", f.Name(), lines.Text())
			cases++
		}
		require.GreaterOrEqual(t, cases, 3, f.Name())
		require.NoError(t, f.Close())
	}
}

// readTally reads votes as testdata has them, of five nodes.
func readTally(t *testing.T, votes string) *Tally {
	tally, grants := &Tally{Need: 3}, -1
	fields := map[string]*int{"yes": &tally.Nodes[Yes], "recreated": &tally.Nodes[Recreated], "no": &tally.Nodes[No],
		"notfound": &tally.Nodes[NotFound], "silent": &tally.Nodes[NoAnswer], "pending": &tally.Nodes[Pending],
		"rival": &tally.Rival, "grants": &grants}
	for field := range strings.FieldsSeq(votes) {
		name, value, _ := strings.Cut(field, "=")
		n, err := strconv.Atoi(value)
		require.NoError(t, err, votes)
		require.Contains(t, fields, name, votes)
		*fields[name] = n
	}
	if tally.Grants = grants; grants < 0 {
		tally.Grants = tally.Nodes[Yes]
	}
	nodes := 0
	for _, n := range tally.Nodes {
		nodes += n
	}
	require.Equal(t, 5, nodes, votes)
	return tally
}

func TestAcquireNeedsAQuorumOfTheConfiguredNodes(t *testing.T) {
	for n := 1; n <= 64; n++ {
		for yes := 0; yes <= n; yes++ {
			tally := &Tally{Need: n/2 + 1, Grants: yes}
			tally.Nodes[Yes], tally.Nodes[NoAnswer] = yes, n-yes
			require.Equal(t, 2*yes > n, Acquire(tally) == Granted, "%d of %d", yes, n)
		}
	}
}

// Grants of different slots of a semaphore are counted apart.
func TestGrantsOfDifferentSlotsAreNoQuorum(t *testing.T) {
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
