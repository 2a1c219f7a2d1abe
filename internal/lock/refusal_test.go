package lock

import (
	"slices"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/redlock-go/redlock/internal/admission"
	"github.com/redlock-go/redlock/internal/protocol"
	"github.com/redlock-go/redlock/internal/quorum"
)

// An attempt of the owner BBBB… at one permit is refused at three nodes. It is made again, behind the attempts whose
// owners come first, unless owners have the permits at a quorum.
func TestRefusedAttemptAtAPermitIsMadeAgainWhereTheVotesWereSplit(t *testing.T) {
	silent := quorum.Answer{Count: quorum.NoAnswer, Outcome: quorum.Unknown}
	granted := quorum.Answer{Count: quorum.Yes, Outcome: quorum.Confirmed, Slots: "0"}
	awaited := quorum.Answer{Count: quorum.No, Outcome: quorum.Refused, Holder: protocol.Permits}
	refused := func(owners string) quorum.Answer {
		a := awaited
		a.Slots = owners
		return a
	}
	for name, c := range map[string]struct {
		answers     []quorum.Answer
		held, again bool
		rank        int
	}{
		"each node has another owner":         {[]quorum.Answer{granted, refused("AAAA"), refused("CCCC")}, false, true, 1},
		"this one is the first":               {[]quorum.Answer{granted, refused("CCCC"), refused("DDDD")}, false, true, 0},
		"without a vote, behind all":          {[]quorum.Answer{refused("AAAA"), refused("CCCC"), refused("DDDD")}, false, true, 3},
		"an owner has a quorum":               {[]quorum.Answer{granted, refused("CCCC"), refused("CCCC")}, true, false, 0},
		"an owner may have one":               {[]quorum.Answer{granted, refused("AAAA"), silent}, true, true, 1},
		"an owner may have one, and no vote":  {[]quorum.Answer{refused("AAAA"), refused("CCCC"), silent}, true, false, 0},
		"a slot is held, the last is not":     {[]quorum.Answer{granted, refused("DDDDXXXX"), refused("AAAAXXXX")}, false, true, 1},
		"all slots are held":                  {[]quorum.Answer{refused("AAAAXXXX"), refused("AAAAXXXX"), silent}, true, false, 0},
		"waiters keep it out":                 {[]quorum.Answer{granted, awaited, awaited}, true, false, 0},
		"owners of other slots are no rivals": {[]quorum.Answer{granted, refused("CCCCAAAA"), silent}, true, true, 0},
	} {
		t.Run(name, func(t *testing.T) {
			x := unconnected()
			x.engine.Cluster = &quorum.Cluster{Nodes: slices.Repeat(x.engine.Cluster.Nodes, 3), Need: 2, Clock: x.engine.Clock}
			b := new(quorum.Ballot)
			x.begin(b, opLock, "BBBBBBBBBBBBBBBBBBBBBBBBBB", 0, quorum.Acquire, permitting)
			b.Permits = 1
			b.SetAnswers(0, func(i int) (*admission.VoteRight, quorum.Answer) { return nil, c.answers[i] })
			r := (&call{Lock: &x.Lock}).refusalOf(b, nil)
			require.Equal(t, []any{c.held, c.again, c.rank}, []any{r.Held, r.again, r.rank})
			require.Equal(t, c.held, r.Permits)
		})
	}
}
