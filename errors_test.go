package redlock_test

import (
	"context"
	"errors"
	"io"
	"testing"
	"time"

	"github.com/gomodule/redigo/redis"
	"github.com/hashicorp/go-multierror"
	"github.com/stretchr/testify/require"

	"github.com/redlock-go/redlock"
	"github.com/redlock-go/redlock/internal/node"
	"github.com/redlock-go/redlock/internal/quorum"
	"github.com/redlock-go/redlock/internal/testnet"
)

func TestErrorsAsFindsRichErrorsByPointerAndByValue(t *testing.T) {
	notConnected := errors.New("not connected yet")
	held := &redlock.HeldError{Name: "x", Holder: "them", Remaining: time.Second}
	quorum := &redlock.QuorumError{Op: "lock", Name: "x", Need: 2, Votes: []redlock.Vote{
		{Index: 0, Node: "node 0", Outcome: redlock.Granted},
		{Index: 1, Node: "node 1", Outcome: redlock.Unknown, Cause: io.ErrUnexpectedEOF},
		{Index: 2, Node: "node 2", Outcome: redlock.NotSent, Cause: notConnected},
	}}

	var byPointer *redlock.HeldError
	var byValue redlock.HeldError
	require.ErrorAs(t, error(held), &byPointer)
	require.ErrorAs(t, error(held), &byValue)
	require.Equal(t, *held, byValue)
	require.Same(t, held, byPointer)

	var q redlock.QuorumError
	var p *redlock.QuorumError
	require.ErrorAs(t, error(quorum), &q)
	require.ErrorAs(t, error(quorum), &p)
	require.ErrorIs(t, quorum, redlock.ErrNoQuorum)
	require.ErrorIs(t, quorum, io.ErrUnexpectedEOF, "every node's cause is found")
	require.ErrorIs(t, quorum, notConnected)
	var all *multierror.Error
	require.ErrorAs(t, error(quorum), &all)
	require.Len(t, all.Errors, 2)
	require.EqualError(t, quorum, `redlock: lock "x": no quorum: 1 of 3 nodes granted, 2 needed; `+
		`node 1: unknown: unexpected EOF; node 2: not sent: not connected yet`)
	require.EqualError(t, held, `redlock: lock "x": held by "them" for 1s`)
	require.ErrorContains(t, &redlock.HeldError{Remaining: -1}, "without an end")
}

func TestErrorOfAnEndedWaitIsItsCauseAndTheLastRefusal(t *testing.T) {
	testnet.InBubble(t, 3, func(t *testing.T, net *testnet.Net) {
		lease, err := net.Client().Mutex("x").Lock(t.Context())
		require.NoError(t, err)
		ctx, cancel := context.WithCancel(t.Context())
		time.AfterFunc(time.Second, cancel)
		_, err = net.Client().Mutex("x").Lock(ctx)

		var byPointer *redlock.HeldError
		var byValue redlock.HeldError
		require.ErrorAs(t, err, &byPointer)
		require.ErrorAs(t, err, &byValue)
		require.Equal(t, *byPointer, byValue)
		require.Equal(t, lease.Owner(), byValue.Holder)
		require.ErrorIs(t, err, redlock.ErrHeld)
		require.ErrorIs(t, err, context.Canceled)
		require.NotErrorIs(t, err, redlock.ErrNoQuorum)
		require.EqualError(t, err, `redlock: lock "x": gave up: context canceled; what was met last: `+byPointer.Error())
	})
}

func TestOnlyAMajorityOfPermanentErrorsEndsLockAtOnce(t *testing.T) {
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
		for failing := range 6 {
			testnet.InBubble(t, 5, func(t *testing.T, net *testnet.Net) {
				for i, n := range net.Nodes {
					n.Refusing = testnet.ErrRefused
					if i < failing {
						n.Refusing = cause
					}
				}
				c := net.NewClient()
				ctx, cancel := context.WithTimeout(t.Context(), 3*time.Second)
				defer cancel()
				var err error
				took := testnet.Elapsed(func() { _, err = c.Mutex("x").Lock(ctx) })
				require.ErrorIs(t, err, redlock.ErrNoQuorum)
				if want && failing >= 3 {
					require.Less(t, took, time.Second, "%d of 5: %v", failing, cause)
					require.NotErrorIs(t, err, context.DeadlineExceeded)
				} else {
					require.Equal(t, 3*time.Second, took, "%d of 5: %v", failing, cause)
					require.ErrorIs(t, err, context.DeadlineExceeded)
				}
			})
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
	testnet.InBubble(t, 3, func(t *testing.T, net *testnet.Net) {
		c := net.Client()
		for _, n := range net.Nodes {
			require.NoError(t, n.Redis.Set("redlock:held", attack))
		}
		_, err := c.Mutex("held").TryLock(t.Context())
		require.ErrorIs(t, err, redlock.ErrHeld)
		requireHarmless(t, err, `held by "ERR \x1b[2J\aforged \u202e"`)
		for _, n := range net.Nodes {
			n.Set(func(n *testnet.Node) {
				n.Override = func(cmd string, _ []string) string {
					if cmd == "EVAL" || cmd == "SET" {
						return attack
					}
					return ""
				}
			})
		}
		_, err = c.Mutex("free").TryLock(t.Context())
		require.ErrorIs(t, err, redlock.ErrNoQuorum)
		requireHarmless(t, err, `refused: ERR \x1b[2J\aforged \u202e`)
		var said redis.Error
		require.ErrorAs(t, err, &said)
		require.Equal(t, redis.Error(attack), said, "a program gets the server's text unchanged")
		requireHarmless(t, errors.Unwrap(err), `refused: ERR \x1b[2J\aforged \u202e`)

		s, err := c.Inspect(t.Context(), "free")
		requireHarmless(t, err, `ERR \x1b[2J\aforged \u202e`)
		requireHarmless(t, s.Nodes[0].Err, `ERR \x1b[2J\aforged \u202e`)
	})
}

func TestOutcomesHaveThePublicNumbers(t *testing.T) {
	for public, internal := range map[redlock.Outcome]quorum.Outcome{
		redlock.Unknown: quorum.Unknown, redlock.Granted: quorum.Confirmed, redlock.Refused: quorum.Refused, redlock.NotSent: quorum.NotSent,
	} {
		require.Equal(t, public, redlock.Outcome(internal))
	}
}
