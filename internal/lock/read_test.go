package lock

import (
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/gomodule/redigo/redis"
	"github.com/stretchr/testify/require"

	"github.com/redlock-go/redlock/internal/admission"
	"github.com/redlock-go/redlock/internal/pipe"
	"github.com/redlock-go/redlock/internal/protocol"
	"github.com/redlock-go/redlock/internal/quorum"
	"github.com/redlock-go/redlock/internal/system"
	"github.com/redlock-go/redlock/internal/test/testreply"
)

// A reply means different things as an answer to different scripts.
func TestReplyIsReadByWhatWasAsked(t *testing.T) {
	held := []any{[]byte("them"), int64(1500)}
	for name, c := range map[string]struct {
		reader *reader
		reply  any
		err    error
		want   quorum.Answer
	}{
		"granted":                   {acquiring, int64(7), nil, quorum.Answer{Count: quorum.Yes, Outcome: quorum.Confirmed, Kind: protocol.Done, Token: 7}},
		"held":                      {acquiring, held, nil, quorum.Answer{Count: quorum.No, Outcome: quorum.Refused, Kind: protocol.Refused, Holder: "them", Remaining: 1500 * ms}},
		"held for good":             {acquiring, []any{[]byte("them"), int64(-1)}, nil, quorum.Answer{Count: quorum.No, Outcome: quorum.Refused, Kind: protocol.Refused, Holder: "them", Remaining: -1}},
		"recreated":                 {renewing, int64(2), nil, quorum.Answer{Count: quorum.Recreated, Outcome: quorum.Confirmed, Kind: protocol.Recreated}},
		"released":                  {releasing, int64(1), nil, quorum.Answer{Count: quorum.Yes, Outcome: quorum.Confirmed, Kind: protocol.Done}},
		"released beside readers":   {releasing, int64(4), nil, quorum.Answer{Count: quorum.Yes, Outcome: quorum.Confirmed, Kind: protocol.StillHeld}},
		"kept for the waiter":       {releasing, int64(2), nil, quorum.Answer{Count: quorum.Yes, Outcome: quorum.Confirmed, Kind: protocol.Kept}},
		"handed off to another":     {releasing, int64(3), nil, quorum.Answer{Count: quorum.Yes, Outcome: quorum.Confirmed, Kind: protocol.HandedOff}},
		"held for less than a tick": {acquiring, []any{[]byte("them"), int64(0)}, nil, quorum.Answer{Count: quorum.No, Outcome: quorum.Refused, Kind: protocol.Refused, Holder: "them"}},
		"held for the longest Duration": {acquiring, []any{[]byte("them"), int64(system.Forever / ms)}, nil,
			quorum.Answer{Count: quorum.No, Outcome: quorum.Refused, Kind: protocol.Refused, Holder: "them", Remaining: system.Forever / ms * ms}},
		"queued":                    {acquiring, []any{[]byte("them"), int64(5), int64(7), []byte("")}, nil, quorum.Answer{Count: quorum.No, Outcome: quorum.Refused, Kind: protocol.Refused, Holder: "them", Remaining: 5 * ms, Place: protocol.Place{Position: 7}}},
		"new in the queue":          {acquiring, []any{[]byte("them"), int64(5), int64(7), []byte("n")}, nil, quorum.Answer{Count: quorum.No, Outcome: quorum.Refused, Kind: protocol.Refused, Holder: "them", Remaining: 5 * ms, Place: protocol.Place{Position: 7, Joined: true}}},
		"new, unheard, with doubts": {acquiring, []any{[]byte("them"), int64(5), int64(7), []byte("nucd1250")}, nil, quorum.Answer{Count: quorum.No, Outcome: quorum.Refused, Kind: protocol.Refused, Holder: "them", Remaining: 5 * ms, Place: protocol.Place{Position: 7, Joined: true, Watches: true, LookIn: 1250, Unheard: true}}},
		"few permits":               {permitting, []any{[]byte("redlock::permits"), int64(5), []byte("ABCD    ")}, nil, quorum.Answer{Count: quorum.No, Outcome: quorum.Refused, Kind: protocol.Refused, Holder: "redlock::permits", Remaining: 5 * ms, Slots: "ABCD    "}},
		"permits awaited":           {permitting, []any{[]byte("redlock::permits"), int64(5), int64(0), []byte("c")}, nil, quorum.Answer{Count: quorum.No, Outcome: quorum.Refused, Kind: protocol.Refused, Holder: "redlock::permits", Remaining: 5 * ms, Place: protocol.Place{Watches: true}}},
		"nothing to free":           {releasing, int64(0), nil, quorum.Answer{Count: quorum.NotFound, Outcome: quorum.Confirmed, Kind: protocol.NotFound}},
		"alive":                     {pinging, []byte("looked"), nil, quorum.Answer{Count: quorum.Yes, Outcome: quorum.Confirmed, Kind: protocol.Done}},
	} {
		t.Run(name, func(t *testing.T) {
			require.Equal(t, c.want, c.reader.Read(nil, c.reply, c.err))
		})
	}
	for name, c := range map[string]struct {
		reader *reader
		reply  any
		err    error
		want   quorum.Outcome
	}{
		"lost memory":                     {acquiring, int64(-1), nil, quorum.Refused},
		"zero is no grant":                {acquiring, int64(0), nil, quorum.Unknown},
		"nothing":                         {acquiring, nil, nil, quorum.Unknown},
		"a word":                          {acquiring, "OK", nil, quorum.Unknown},
		"a holder without a ttl":          {acquiring, []any{[]byte("them")}, nil, quorum.Unknown},
		"a position without flags":        {acquiring, []any{[]byte("them"), int64(5), int64(7)}, nil, quorum.Unknown},
		"an unknown flag":                 {acquiring, []any{[]byte("them"), int64(5), int64(7), []byte("nx")}, nil, quorum.Unknown},
		"a flag that lacks its time":      {acquiring, []any{[]byte("them"), int64(5), int64(7), []byte("nd")}, nil, quorum.Unknown},
		"more than a position and flags":  {acquiring, []any{[]byte("them"), int64(5), int64(7), []byte("n"), int64(4)}, nil, quorum.Unknown},
		"no holder":                       {acquiring, []any{nil, int64(-2)}, nil, quorum.Unknown},
		"a ttl beyond a Duration":         {acquiring, []any{[]byte("them"), int64(system.Forever/ms) + 1}, nil, quorum.Unknown},
		"a ttl beyond reason":             {acquiring, []any{[]byte("them"), int64(1 << 62)}, nil, quorum.Unknown},
		"an error in a script, 6.2":       {acquiring, nil, redis.Error("ERR Error running script (call to f_ab): @user_script:1: @user_script: 1: -OOM command not allowed"), quorum.Refused},
		"missing scripts":                 {acquiring, nil, redis.Error("NOSCRIPT No matching script."), quorum.NotSent},
		"never sent":                      {acquiring, nil, fmt.Errorf("%w: broken", pipe.ErrNotSent), quorum.NotSent},
		"an error reply":                  {acquiring, nil, redis.Error("OOM command not allowed"), quorum.Refused},
		"a broken connection":             {acquiring, nil, errors.New("EOF"), quorum.Unknown},
		"a word in place of a release":    {releasing, "OK", nil, quorum.Unknown},
		"five in place of a release":      {releasing, int64(5), nil, quorum.Unknown},
		"a number in place of a look":     {pinging, int64(1), nil, quorum.Unknown},
		"a pair in place of a release":    {releasing, held, nil, quorum.Unknown},
		"half the owner of a slot":        {permitting, []any{[]byte("redlock::permits"), int64(5), []byte("ABCDEF")}, nil, quorum.Unknown},
		"owners of no slot":               {permitting, []any{[]byte("redlock::permits"), int64(5), []byte{}}, nil, quorum.Unknown},
		"owners of too many slots":        {permitting, []any{[]byte("redlock::permits"), int64(5), make([]byte, 257*4)}, nil, quorum.Unknown},
		"a number in place of owners":     {permitting, []any{[]byte("redlock::permits"), int64(5), int64(1)}, nil, quorum.Unknown},
		"owners of slots, and one holder": {permitting, []any{[]byte("them"), int64(5), []byte("ABCD")}, nil, quorum.Unknown},
		"owners of slots of a mutex":      {acquiring, []any{[]byte("redlock::permits"), int64(5), []byte("ABCD")}, nil, quorum.Unknown},
		"bytes in place of a number":      {acquiring, []byte("them"), nil, quorum.Unknown},
	} {
		t.Run(name, func(t *testing.T) {
			got := c.reader.Read(nil, c.reply, c.err)
			require.Equal(t, quorum.NoAnswer, got.Count)
			require.Equal(t, c.want, got.Outcome)
			require.Error(t, got.Cause)
		})
	}
}

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

// A reply is understood as one of those that the scripts give, or not at all.
func FuzzReply(f *testing.F) {
	testreply.Fuzz(f, func(t *testing.T, replies []any) {
		for _, r := range []*reader{acquiring, raising, renewing, releasing, pinging} {
			requireUnderstood(t, r, replies[0])
		}
		requireWakeUpsDoNoHarm(t, replies[0])
	}, refusedWith("n"), refusedWith("nud750c"), refusedWith("d"), refusedWith("x"), refusedWith(""))
}

// refusedWith is a waiter's refusal with these flags.
func refusedWith(flags string) []any {
	return []any{[]any{[]byte("owner"), int64(9), int64(7), []byte(flags)}}
}

// meaning returns what a reply means by the scripts' own comments.
func meaning(r *reader, reply any) quorum.Outcome {
	n, number := reply.(int64)
	held := isHolder(testreply.Values(reply))
	if r == pinging {
		text, _ := reply.([]byte)
		return map[bool]quorum.Outcome{true: quorum.Confirmed, false: quorum.Unknown}[string(text) == "looked"]
	}
	switch {
	case held && r != raising && r != releasing:
		return quorum.Refused
	case !number:
		return quorum.Unknown
	}
	confirmed := map[*reader]bool{acquiring: n >= 1, raising: n == 1, renewing: n == 1 || n == 2 || n == 11 || n == 12, releasing: n >= 0 && n <= 4}
	refused := map[*reader]bool{acquiring: n == -1, raising: n == 0, renewing: n == 0 || n == 5}
	switch {
	case confirmed[r]:
		return quorum.Confirmed
	case refused[r]:
		return quorum.Refused
	}
	return quorum.Unknown
}

// refusalFlags are the flags of a refusal. The flag d has milliseconds behind it.
var refusalFlags = regexp.MustCompile(`^[nuc]*(d\d{1,9}[nuc]*)*$`)

// isHolder reports whether a reply is {holder, milliseconds} or {holder, milliseconds, position, flags}.
func isHolder(reply []any) bool {
	if len(reply) != 2 && len(reply) != 4 {
		return false
	}
	_, is := reply[0].([]byte)
	for _, n := range reply[1:min(len(reply), 3)] {
		_, number := n.(int64)
		is = is && number
	}
	if len(reply) == 4 {
		flags, text := reply[3].([]byte)
		is = is && text && refusalFlags.Match(flags)
	}
	return is && reply[1].(int64) <= int64(system.Forever/time.Millisecond)
}

func requireUnderstood(t *testing.T, r *reader, reply any) {
	if refusal, is := reply.(redis.Error); is {
		for _, err := range []error{refusal, errors.Join(pipe.ErrNotSent, refusal)} {
			a := r.Read(nil, nil, err)
			require.Equal(t, quorum.NoAnswer, a.Count)
			require.Contains(t, []quorum.Outcome{quorum.Refused, quorum.NotSent}, a.Outcome)
			require.Error(t, a.Cause)
		}
	}
	a := r.Read(nil, reply, nil)
	require.Equal(t, meaning(r, reply), a.Outcome, "%s: %#v", r.op, reply)
	require.Equal(t, a.Outcome == quorum.Confirmed, a.Count == quorum.Yes || a.Count == quorum.Recreated || a.Count == quorum.NotFound)
	if a.Count == quorum.NoAnswer {
		require.Error(t, a.Cause)
	}
	require.True(t, a.Remaining >= 0 || a.Remaining == protocol.Endless)
	require.Equal(t, a.Outcome == quorum.Confirmed && r == acquiring, a.Token > 0)
}

// requireWakeUpsDoNoHarm takes a reply, or its last part, as a wake-up's text. The samples name
// the ticket "ticket".
func requireWakeUpsDoNoHarm(t *testing.T, reply any) {
	x := unconnected()
	q := x.engine.Queue()
	w, err := q.NewWaiter(t.Context(), x.WaitedFor(), 0)
	require.NoError(t, err)
	defer w.Leave()
	if parts := testreply.Values(reply); len(parts) > 0 {
		reply = parts[len(parts)-1]
	}
	q.Subscribed(x.engine.Cluster.Nodes()[0].Node, true)
	text, _ := redis.String(reply, nil)
	q.Message(x.engine.Cluster.Nodes()[0].Node, strings.ReplaceAll(text, "ticket", w.Ticket()))
}

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
			x.engine.Cluster.Roster.Store(&admission.Roster{Nodes: slices.Repeat(x.engine.Cluster.Nodes(), 3), Need: 2})
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
