package lease

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/redlock-go/redlock/internal/admission"
	"github.com/redlock-go/redlock/internal/node"
	"github.com/redlock-go/redlock/internal/quorum"
)

func TestRenewalRecountsTheAnswerOfANodeThatIsToUndoTheAttempt(t *testing.T) {
	r := &renewal{lease: &Lease{Grant: Grant{Owner: "me"}}}
	n := &admission.Member{Node: node.New(1, "node", nil, nil)}
	count := func(c quorum.Count) quorum.Count {
		return r.Answered(&quorum.Vote{Node: n}, quorum.Answer{Count: c}).Count
	}
	undo, other := &node.Undo{Owner: "me"}, &node.Undo{Owner: "other"}
	n.Undo(undo)
	n.Undo(other)
	require.Equal(t, quorum.NoAnswer, count(quorum.Yes))
	require.Equal(t, quorum.No, count(quorum.Recreated))
	require.Equal(t, quorum.No, count(quorum.Yes), "an earlier renewal created the key anew")
	undo.Receive(int64(1), nil)
	require.Equal(t, quorum.Recreated, count(quorum.Yes))
	r.lease.renewal.restored = 0
	require.Equal(t, quorum.Yes, count(quorum.Yes))
}
