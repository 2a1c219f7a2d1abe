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
)

func TestRichErrorsAreFoundByPointerAndByValue(t *testing.T) {
	held := &HeldError{Name: "x", Holder: "them", Remaining: time.Second}
	quorum := &QuorumError{Op: "lock", Name: "x", Need: 2, Votes: []Vote{
		{Index: 0, Node: "node 0", Outcome: Granted},
		{Index: 1, Node: "node 1", Outcome: Unknown, Cause: io.ErrUnexpectedEOF},
		{Index: 2, Node: "node 2", Outcome: NotSent, Cause: errConnecting},
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
	require.ErrorIs(t, quorum, errConnecting)
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
		&misfitError{"a replica"}:                        true,
		redis.Error("LOADING"):                           false,
		redis.Error("ERR unknown"):                       false,
		io.EOF:                                           false,
		errors.New("WRONGPASS, says somebody else"):      false,
	} {
		require.Equal(t, want, permanent(cause), "%v", cause)
		votes := make([]Vote, 5)
		for n := range votes {
			hopeless := (&QuorumError{Need: 3, Votes: votes}).hopeless()
			require.Equal(t, want && n >= 3, hopeless, "%d of 5: %v", n, cause)
			votes[n].Cause = cause
		}
	}
}

func FuzzReplies(f *testing.F) {
	f.Add(int64(1), []byte("holder"), int64(5), "OK", uint8(0))
	f.Add(int64(-2), []byte(nil), int64(-1), "", uint8(3))
	kinds := []*ballotKind{acquiring, claiming, renewing, releasing, pinging}
	f.Fuzz(func(t *testing.T, n int64, holder []byte, ttl int64, word string, shape uint8) {
		replies := []any{n, holder, word, nil, redis.Error(word),
			[]any{holder, ttl}, []any{holder, word}, []any{n, ttl}, []any{holder, ttl, n}, []any{}, []any{[]any{holder}, ttl}}
		reply := replies[int(shape)%len(replies)]
		kind := kinds[int(shape>>4)%len(kinds)]
		a := understand(kind, reply, nil)
		switch {
		case a.voice <= pending || a.voice >= voices:
			t.Fatalf("%v for %v", a, reply)
		case a.voice == others && a.remaining < -1:
			t.Fatalf("%v for %v", a, reply)
		case (a.voice == silent) != (a.cause != nil):
			t.Fatalf("%v for %v: silence has a cause, and nothing else has", a, reply)
		case a.outcome == Granted && (a.voice == silent || a.voice == others):
			t.Fatalf("%v for %v", a, reply)
		}
	})
}

func FuzzOptions(f *testing.F) {
	f.Add(int64(10*time.Second), int64(500*time.Millisecond), 0.01, int64(2*time.Millisecond))
	f.Add(int64(-1), int64(0), -1.0, int64(-1))
	f.Fuzz(func(t *testing.T, ttl, timeout int64, factor float64, base int64) {
		o, err := defaultOptions().with([]Option{
			WithTTL(time.Duration(ttl)), WithNodeTimeout(time.Duration(timeout)), WithDrift(factor, time.Duration(base)),
		})
		if err != nil {
			require.ErrorIs(t, err, ErrConfig)
			return
		}
		// A ballot that takes the whole node timeout still leaves some validity.
		require.Positive(t, o.validUntil(0)-o.voteTimeout())
		require.Less(t, o.validUntil(0), o.ttl+1)
	})
}

func TestTheCodeOfAnErrorThatAScriptMetIsTheCommands(t *testing.T) {
	for text, want := range map[string]string{
		"OOM command not allowed": "OOM",
		"ERR Error running script (call to f_0a): @user_script:1: @user_script: 1: -READONLY You can't write against a read only replica.": "READONLY",
		"ERR The user executing the script can't run this command or subcommand script: f_0a, on @user_script:1.":                          "NOPERM",
		"ERR syntax error": "ERR",
	} {
		require.Equal(t, want, code(redis.Error(text)))
	}
}
