package redlock

import (
	"context"
	"errors"
	"io"
	"testing"
	"time"

	"github.com/gomodule/redigo/redis"
	"github.com/hashicorp/go-multierror"
	"github.com/stretchr/testify/require"

	"github.com/redlock-go/redlock/internal/node"
)

func TestRichErrorsAreFoundByPointerAndByValue(t *testing.T) {
	notConnected := errors.New("not connected yet")
	held := &HeldError{Name: "x", Holder: "them", Remaining: time.Second}
	quorum := &QuorumError{Op: "lock", Name: "x", Need: 2, Votes: []Vote{
		{Index: 0, Node: "node 0", Outcome: Granted},
		{Index: 1, Node: "node 1", Outcome: Unknown, Cause: io.ErrUnexpectedEOF},
		{Index: 2, Node: "node 2", Outcome: NotSent, Cause: notConnected},
	}}
	both := &waitError{op: "lock", name: "x", cause: context.Canceled, last: held}

	var byPointer *HeldError
	var byValue HeldError
	require.ErrorAs(t, both, &byPointer)
	require.ErrorAs(t, both, &byValue)
	require.Equal(t, *held, byValue)
	require.Same(t, held, byPointer)
	require.ErrorIs(t, both, ErrHeld)
	require.ErrorIs(t, both, context.Canceled)
	require.NotErrorIs(t, both, ErrNoQuorum)

	var q QuorumError
	var p *QuorumError
	require.ErrorAs(t, error(quorum), &q)
	require.ErrorAs(t, error(quorum), &p)
	require.ErrorIs(t, quorum, ErrNoQuorum)
	require.ErrorIs(t, quorum, io.ErrUnexpectedEOF, "every node's cause is found")
	require.ErrorIs(t, quorum, notConnected)
	var all *multierror.Error
	require.ErrorAs(t, error(quorum), &all)
	require.Len(t, all.Errors, 2)
	require.EqualError(t, quorum, `redlock: lock "x": no quorum: 1 of 3 nodes granted, 2 needed; `+
		`node 1: unknown: unexpected EOF; node 2: not sent: not connected yet`)
	require.EqualError(t, held, `redlock: lock "x": held by "them" for 1s`)
	require.ErrorContains(t, &HeldError{Remaining: -1}, "without an end")
}

func TestOnlyAMajorityOfPermanentErrorsIsHopeless(t *testing.T) {
	for cause, want := range map[error]bool{
		redis.Error("WRONGPASS no"):                      true,
		redis.Error("NOAUTH Authentication required."):   true,
		redis.Error("NOPERM no"):                         true,
		redis.Error("ERR invalid password"):              true,
		redis.Error("ERR Client sent AUTH, but no"):      true,
		redis.Error("ERR AUTH <password> called withou"): true,
		redis.Error("DENIED Redis is running in protec"): true,
		&node.UnfitError{Reason: "a replica"}:            true,
		redis.Error("LOADING"):                           false,
		redis.Error("ERR unknown"):                       false,
		io.EOF:                                           false,
		errors.New("WRONGPASS, says somebody else"):      false,
	} {
		require.Equal(t, want, node.IsPermanent(cause), "%v", cause)
		votes := make([]Vote, 5)
		for n := range votes {
			hopeless := (&QuorumError{Need: 3, Votes: votes}).hopeless()
			require.Equal(t, want && n >= 3, hopeless, "%d of 5: %v", n, cause)
			votes[n].Cause = cause
		}
	}
}

func TestErrorsShowForeignTextWithoutEscapeSequences(t *testing.T) {
	const attack = "ERR \x1b[2J\aforged \u202e"
	requireHarmless := func(t *testing.T, err error, shown string) {
		t.Helper()
		require.ErrorContains(t, err, shown)
		require.NotRegexp(t, `\x1b|\x07|\x{202e}`, err.Error())
	}
	inBubble(t, 3, func(t *testing.T, net *testNet) {
		c := net.client()
		for _, n := range net.nodes {
			require.NoError(t, n.redis.Set("redlock:held", attack))
		}
		_, err := c.Mutex("held").TryLock(t.Context())
		require.ErrorIs(t, err, ErrHeld)
		requireHarmless(t, err, `held by "ERR \x1b[2J\aforged \u202e"`)
		for _, n := range net.nodes {
			n.set(func(n *testNode) {
				n.override = func(cmd string, _ []string) string {
					if cmd == "EVAL" || cmd == "SET" {
						return attack
					}
					return ""
				}
			})
		}
		_, err = c.Mutex("free").TryLock(t.Context())
		require.ErrorIs(t, err, ErrNoQuorum)
		requireHarmless(t, err, `refused: ERR \x1b[2J\aforged \u202e`)
		var said redis.Error
		require.ErrorAs(t, err, &said)
		require.Equal(t, redis.Error(attack), said, "a program gets what the server said")
		requireHarmless(t, errors.Unwrap(err), `refused: ERR \x1b[2J\aforged \u202e`)

		s, err := c.Inspect(t.Context(), "free")
		requireHarmless(t, err, `ERR \x1b[2J\aforged \u202e`)
		requireHarmless(t, s.Nodes[0].Err, `ERR \x1b[2J\aforged \u202e`)
	})
}
