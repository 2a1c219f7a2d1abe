package lock

import (
	"reflect"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/redlock-go/redlock/internal/admission"
	"github.com/redlock-go/redlock/internal/pipe"
	"github.com/redlock-go/redlock/internal/quorum"
)

// sizes adds up what commands take on the wire, about.
type sizes int

func (s *sizes) Send(command string, args ...any) error {
	*s += sizes(pipe.Size(command, args))
	return nil
}

func requireSize(t *testing.T, p *plainVote) {
	var exact sizes
	require.NoError(t, p.Send(&exact))
	require.GreaterOrEqual(t, p.Size(), int(exact))
	require.Less(t, p.Size(), int(exact)+300)
}

// A pipe bounds what is unanswered by these sizes: a caller must not block on a server that has stopped reading.
func TestAnAttemptWithoutAScriptIsNoLongerThanItSays(t *testing.T) {
	for _, owner := range []string{"26 random characters in all", strings.Repeat("x", 300)} {
		for _, key := range []string{"x", strings.Repeat("y", 4000)} {
			for _, fencing := range []bool{true, false} {
				for _, remaining := range []bool{true, false} {
					x := unconnectedAs(key, fencing)
					b := new(quorum.Ballot)
					x.begin(b, opLock, owner, 0, quorum.Acquire, acquiring)
					b.Votes[0].Right = &admission.VoteRight{Record: "redlock::record:" + strings.Repeat("r", 60)}
					set := x.setArgs(owner)
					p := new(plainVote)
					p.prepare(&b.Votes[0], x, &set, remaining)
					requireSize(t, p)
					if p.asked &^= holderPart; !fencing {
						p.merged = true
						requireSize(t, p)
					}
				}
			}
		}
	}
}

func TestWhatIsUsedAgainIsAsNew(t *testing.T) {
	var s spares
	s.attempts.Put(&Attempt{Waits: true, set: setArgs{"key"}, plain: []plainVote{{holder: "other", count: 7}}})
	a := s.attempt()
	for i := range a.plain { // none, if the pool has dropped it
		require.Zero(t, a.plain[i])
	}
	a.plain = nil
	require.True(t, reflect.ValueOf(a).Elem().IsZero())

	s.releases.Put(&release{ticket: "ticket", lasts: 1, restsUntil: 2})
	require.True(t, reflect.ValueOf(s.release()).Elem().IsZero())
}

// The nodes that keep the lease are settled: the others are told to drop its keys, also one that answers just then.
func TestAnswerThatComesAfterTheNodesAreSettledIsNotInTheText(t *testing.T) {
	h := new(Transfer)
	h.add(keeper{1, "a"})
	h.settled = true
	h.add(keeper{2, "b"})
	require.Equal(t, []string{"a"}, h.Records())
}
