package lock

import (
	"errors"
	"testing"

	"github.com/gomodule/redigo/redis"
	"github.com/stretchr/testify/require"

	"github.com/redlock-go/redlock/internal/admission"
	"github.com/redlock-go/redlock/internal/pipe"
	"github.com/redlock-go/redlock/internal/protocol"
	"github.com/redlock-go/redlock/internal/quorum"
)

func TestFastPathVoteIsGrantedOnlyByAllItsAnswersTogether(t *testing.T) {
	const count = int64(protocol.FirstCount + 7)
	me, them := []byte("me"), []byte("them")
	oom := redis.Error("OOM command not allowed when used memory > 'maxmemory'.")
	for name, c := range map[string]struct {
		set, count, queue, holder, left any // the answers; an error among them is one
		want                            quorum.Answer
	}{
		"granted":                    {"OK", count, int64(0), me, nil, quorum.Answer{Count: quorum.Yes, Outcome: quorum.Confirmed, Token: count}},
		"held":                       {nil, count, int64(0), them, int64(1500), quorum.Answer{Count: quorum.No, Outcome: quorum.Refused, Holder: "them", Remaining: 1500 * ms}},
		"held for good":              {nil, count, int64(0), them, int64(-1), quorum.Answer{Count: quorum.No, Outcome: quorum.Refused, Holder: "them", Remaining: protocol.Endless}},
		"held, waiters queue":        {nil, count, int64(1), them, int64(9), quorum.Answer{Count: quorum.No, Outcome: quorum.Refused, Holder: "them", Remaining: 9 * ms}},
		"free, and waiters queue":    {"OK", count, int64(1), me, int64(9000), quorum.Answer{Count: quorum.No, Outcome: quorum.Refused, Holder: protocol.Reservation}},
		"free when it was too late":  {nil, count, int64(0), nil, int64(-2), quorum.Answer{Count: quorum.No, Outcome: quorum.Refused}},
		"expired before it counted":  {"OK", count, int64(0), nil, int64(-2), quorum.Answer{Count: quorum.No, Outcome: quorum.Refused}},
		"another's before it counts": {"OK", count, int64(0), them, int64(10), quorum.Answer{Count: quorum.No, Outcome: quorum.Refused, Holder: "them", Remaining: 10 * ms}},
		"a record that was missing":  {"OK", int64(1), int64(0), me, int64(10), quorum.Answer{Count: quorum.NoAnswer, Outcome: quorum.Refused, Cause: admission.ErrForgot}},
		"missing, and held":          {nil, int64(12), int64(0), them, int64(10), quorum.Answer{Count: quorum.NoAnswer, Outcome: quorum.Refused, Cause: admission.ErrForgot}},
		"no memory for the key":      {oom, count, int64(0), nil, int64(-2), quorum.Answer{Count: quorum.NoAnswer, Outcome: quorum.Refused, Cause: oom}},
		"no memory for the count":    {"OK", oom, int64(0), me, int64(10), quorum.Answer{Count: quorum.NoAnswer, Outcome: quorum.Refused, Cause: oom}},
	} {
		t.Run(name, func(t *testing.T) {
			v := answered(t, name != "granted", []any{c.queue, c.set, c.count, c.holder, c.left})
			got := answerOf(v)
			if want := c.want.Cause; want != nil {
				require.ErrorIs(t, got.Cause, want)
				got.Cause, c.want.Cause = nil, nil
			}
			require.Equal(t, c.want, got)
		})
	}
	for name, replies := range map[string][]any{
		"a word for the count":   {int64(0), "OK", "seven", me, int64(10)},
		"a number for the owner": {int64(0), "OK", count, int64(3), int64(10)},
		"a pair for the queue":   {[]any{me, me}, "OK", count, me, int64(10)},
		"bytes for the ttl":      {int64(0), "OK", count, me, []byte("soon")},
		"a status for the owner": {int64(0), "OK", count, "OK", int64(10)},
		"a broken connection":    {int64(0), errors.New("EOF"), errors.New("EOF"), errors.New("EOF"), errors.New("EOF")},
	} {
		t.Run(name, func(t *testing.T) {
			v := answered(t, true, replies)
			a := answerOf(v)
			require.Equal(t, quorum.Unknown, a.Outcome)
			require.Error(t, a.Cause)
		})
	}
}

// answerOf returns the answer of a ballot's first vote.
func answerOf(v *quorum.Vote) (first quorum.Answer) {
	for i, a := range v.Ballot().Answers() {
		if i == 0 {
			first = *a
		}
	}
	return first
}

// answered returns the first node's vote of an attempt after it has received the answers to its
// commands, in turn. remaining says that the caller learns how long the holder has left.
func answered(t *testing.T, remaining bool, replies []any) *quorum.Vote {
	x := unconnected()
	b := new(quorum.Ballot)
	x.begin(b, opLock, "me", 0, quorum.Acquire, acquiring)
	v := &b.Votes[0]
	v.Right = &admission.VoteRight{Record: "record"}
	set := x.setArgs("me")
	new(plainVote).prepare(v, x, &set, remaining)
	for range v.Call.Series {
		require.Equal(t, quorum.Pending, answerOf(v).Count, "not before the last answer")
		var r pipe.Reply
		err, _ := replies[0].(error)
		r.Set(replies[0])
		v.Call.Deliver(&r, err)
		replies = replies[1:]
	}
	return v
}
