package quorum

import (
	"bufio"
	"os"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/redlock-go/redlock/internal/admission"
	"github.com/redlock-go/redlock/internal/node"
	"github.com/redlock-go/redlock/internal/protocol"
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

// newBallot makes a ballot over n nodes that are not connected.
func newBallot(n int, rule Rule) *Ballot {
	c, roster := &Cluster{Roster: new(atomic.Pointer[admission.Roster])}, &admission.Roster{Need: n/2 + 1}
	for i := range n {
		roster.Nodes = append(roster.Nodes, &admission.Member{Node: node.New(i, "", nil, nil)})
	}
	c.Roster.Store(roster)
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

// When a quorum names another owner, the timer ends sooner, unless it does so anyway: set anew, the timers of two ballots that
// began apart could end at one instant, as the clock rounds what was spent.
func TestBallotThatIsHeldElsewhereSetsItsTimerOnlyToEndSooner(t *testing.T) {
	const timeout = 100 * time.Millisecond
	for spent, ends := range map[time.Duration]time.Duration{
		0:                     lateVoteGrace,
		10 * time.Millisecond: 10*time.Millisecond + lateVoteGrace,
		80 * time.Millisecond: timeout,
	} {
		synctest.Test(t, func(t *testing.T) {
			b := newBallot(3, AcquireWaiting)
			b.cluster.Clock = func() time.Duration { return spent } // the ballot began at 0
			b.mu.Lock()
			for i := range 2 {
				b.set(&b.Votes[i], Answer{Count: No, Outcome: Refused, Holder: "other"})
			}
			b.decide()
			b.mu.Unlock()
			began := time.Now()
			_, err := b.Await(t.Context(), timeout, nil)
			require.NoError(t, err)
			require.Equal(t, ends, time.Since(began), spent)
			require.ErrorContains(t, b.Votes[2].answer.Cause, "no answer within "+ends.String())
		})
	}
}
