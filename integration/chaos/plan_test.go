package chaos

import (
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

const ttl = 1500 * time.Millisecond

func phases(seed uint64, n int, amnesia bool) []Phase {
	p := NewPlan(seed, 5, 3, ttl, amnesia)
	all := make([]Phase, n)
	for i := range all {
		all[i] = p.Next()
	}
	return all
}

func TestASeedGivesTheSamePlanAgain(t *testing.T) {
	require.Equal(t, phases(7, 100, true), phases(7, 100, true))
	require.NotEqual(t, phases(7, 100, true), phases(8, 100, true))
}

func TestAMinorityFailsUnlessThePhaseSaysOtherwise(t *testing.T) {
	for seed := range uint64(20) {
		for _, phase := range phases(seed, 100, false) {
			failing := map[int]bool{}
			for _, blow := range phase.Nodes {
				failing[blow.Target] = true
				assert.False(t, phase.Kind == Majority && blow.Fault.Forgets(), "%v", phase)
				for _, other := range phase.Nodes {
					overlap := blow.After < other.After+other.For && other.After < blow.After+blow.For
					assert.False(t, phase.Kind == Relay && overlap && blow.Fault.Forgets() != other.Fault.Forgets(), "%v", phase)
				}
			}
			require.Len(t, failing, len(phase.Nodes), "%v", phase)
			require.Equal(t, len(failing) > 2, phase.Kind != Minority, "%v", phase)
			for _, blow := range phase.Nodes {
				require.False(t, blow.Fault == Replica && failing[blow.Other], "%v", phase)
			}
		}
	}
}

func TestEveryFaultHasItsTurnSoon(t *testing.T) {
	for seed := range uint64(20) {
		s := NewSummary()
		for _, phase := range phases(seed, 20, false) {
			s.AddPhase(phase)
		}
		for _, fault := range append(append(append([]Fault{}, forgetting...), passing...), clients...) {
			assert.Positive(t, s.Faults[fault], "seed %d: %s", seed, fault)
		}
	}
}

func TestInLongRunsAMajorityForgetsNowAndThen(t *testing.T) {
	for _, phase := range phases(1, 50, true) {
		require.Equal(t, phase.Number%everyAmnesia == 0, phase.Kind == Majority && phase.Nodes[0].Fault.Forgets(), "%v", phase)
	}
}

func TestLongestGapCountsOnlyTimesWithAHealthyMajority(t *testing.T) {
	ms := func(n int) time.Duration { return time.Duration(n) * time.Millisecond }
	grants := []Op{at(0, 10, Acquire, 1, 0), at(15, 20, Acquire, 2, 0), at(480, 500, Acquire, 3, 0), at(515, 520, Acquire, 4, 0)}
	well := []Span{{ms(0), ms(60)}, {ms(450), ms(600)}}
	require.Equal(t, Gap{Name: "lock", From: ms(520), To: ms(600)}, longestGap("lock", grants, well))
	require.Equal(t, Gap{Name: "lock", From: ms(20), To: ms(500)}, longestGap("lock", grants, []Span{{0, ms(600)}}))
}

func TestSummaryHasTheLongestGapOfAModeToo(t *testing.T) {
	ms := func(n int) time.Duration { return time.Duration(n) * time.Millisecond }
	s := NewSummary()
	ops := slices.Concat([]Op{at(0, 10, Acquire, 1, 0), at(80, 90, Acquire, 2, 0)}, shares("a", at(15, 18, Acquire, 1, 0)))
	s.Add(&History{Locks: map[string][]Op{"lock": ops, "other": {at(40, 50, Acquire, 1, 0)}}}, []Span{{0, ms(100)}})
	require.Equal(t, Gap{Name: "lock", From: ms(18), To: ms(90)}, s.Gap)
	require.Equal(t, Gap{Name: "lock (readers)", From: ms(18), To: ms(100)}, s.ModeGap)
}
