package quorum

import (
	"testing"

	"github.com/stretchr/testify/require"
)

// The rules beside slow ones, which try all ways in which the votes still out may be cast, for all votes of up to
// seven nodes.

// ends returns the verdicts of a rule when all nodes have voted, for all ways in which the votes still out may be
// cast. A vote of No is for the rival or for another owner.
func ends(rule Rule, t Tally, as []Count) map[Verdict]bool {
	all := make(map[Verdict]bool)
	var cast func(t Tally)
	cast = func(t Tally) {
		if t.Nodes[Pending] == 0 {
			all[rule(&t)] = true
			return
		}
		t.Nodes[Pending]--
		for _, c := range as {
			next := t
			next.Nodes[c]++
			switch c {
			case Yes:
				next.Grants++
			case No:
				cast(next)
				next.Rival++
			}
			cast(next)
		}
	}
	cast(t)
	return all
}

// tallies calls fn with all votes of up to seven nodes.
func tallies(as []Count, fn func(t Tally)) {
	var vote func(t Tally, left int, as []Count)
	vote = func(t Tally, left int, as []Count) {
		if len(as) == 0 {
			t.Nodes[Pending] = left
			for t.Rival = range t.Nodes[No] + 1 {
				fn(t)
			}
			return
		}
		for n := range left + 1 {
			t.Nodes[as[0]] = n
			if as[0] == Yes {
				t.Grants = n
			}
			vote(t, left-n, as[1:])
		}
	}
	for nodes := 1; nodes <= 7; nodes++ {
		vote(Tally{Need: nodes/2 + 1}, nodes, as)
	}
}

// A verdict is final exactly when no vote still out can change it. It is known earlier that an attempt fails than
// whether another owner has the lock: until then the quorum is Impossible.
func TestRulesDecideWhenNoVoteCanChangeTheVerdict(t *testing.T) {
	for name, c := range map[string]struct {
		rule Rule
		as   []Count
	}{
		"renew":   {Renew, []Count{Yes, Recreated, No, NoAnswer}},
		"release": {Confirm, []Count{Yes, NotFound, NoAnswer}},
	} {
		tallies(c.as, func(tally Tally) {
			got, all := c.rule(&tally), ends(c.rule, tally, c.as)
			if len(all) == 1 {
				require.True(t, all[got], "%s: %+v is %v, and ends as %v", name, tally, got, all)
			} else {
				require.Equal(t, Open, got, "%s: %+v ends as %v", name, tally, all)
			}
		})
	}
	as := []Count{Yes, No, NoAnswer}
	tallies(as, func(tally Tally) {
		all := ends(Acquire, tally, as)
		switch got := Acquire(&tally); {
		case all[Granted] && len(all) == 1:
			require.Equal(t, Granted, got, "%+v", tally)
		case all[Granted]:
			require.Equal(t, Open, got, "%+v", tally)
		case tally.Nodes[Pending] == 0 || knowsRival(tally, as):
			require.Equal(t, Failed, got, "%+v", tally)
		default:
			require.Equal(t, Impossible, got, "%+v", tally)
		}
	})
}

// knowsRival reports whether all ways in which the votes may be cast tell the same of another owner: that one has a
// quorum, may have one, or neither is shown.
func knowsRival(t Tally, as []Count) bool {
	const has, mayHave, neither = Granted, Open, Failed // words for what is known
	return len(ends(func(t *Tally) Verdict {
		switch {
		case t.Rival >= t.Need:
			return has
		case t.Rival+t.Nodes[NoAnswer] < t.Need, t.Nodes[Yes]+t.Nodes[No] < t.Need:
			return neither
		}
		return mayHave
	}, t, as)) == 1
}
