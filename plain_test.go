package redlock

import (
	"errors"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/gomodule/redigo/redis"
	"github.com/stretchr/testify/require"

	"github.com/redlock-go/redlock/internal/admission"
	"github.com/redlock-go/redlock/internal/pipe"
	"github.com/redlock-go/redlock/internal/protocol"
	"github.com/redlock-go/redlock/internal/quorum"
)

func TestAPlainVoteIsGrantedOnlyByWhatAllItsAnswersSay(t *testing.T) {
	const count = int64(protocol.FirstCount + 7)
	me, them := []byte("me"), []byte("them")
	oom := redis.Error("OOM command not allowed when used memory > 'maxmemory'.")
	for name, c := range map[string]struct {
		set, count, line, holder, left any // the answers; an error among them is one
		want                           quorum.Answer
	}{
		"granted":                    {"OK", count, int64(0), me, nil, quorum.Answer{Count: quorum.Yes, Outcome: quorum.Confirmed, Token: count}},
		"held":                       {nil, count, int64(0), them, int64(1500), quorum.Answer{Count: quorum.No, Outcome: quorum.Refused, Holder: "them", Remaining: 1500 * ms}},
		"held for good":              {nil, count, int64(0), them, int64(-1), quorum.Answer{Count: quorum.No, Outcome: quorum.Refused, Holder: "them", Remaining: endless}},
		"held, others wait":          {nil, count, int64(1), them, int64(9), quorum.Answer{Count: quorum.No, Outcome: quorum.Refused, Holder: "them", Remaining: 9 * ms}},
		"free, and others wait":      {"OK", count, int64(1), me, int64(9000), quorum.Answer{Count: quorum.No, Outcome: quorum.Refused, Holder: reservation}},
		"free when it was too late":  {nil, count, int64(0), nil, int64(-2), quorum.Answer{Count: quorum.No, Outcome: quorum.Refused}},
		"expired before it counted":  {"OK", count, int64(0), nil, int64(-2), quorum.Answer{Count: quorum.No, Outcome: quorum.Refused}},
		"another's before it counts": {"OK", count, int64(0), them, int64(10), quorum.Answer{Count: quorum.No, Outcome: quorum.Refused, Holder: "them", Remaining: 10 * ms}},
		"a record that was missing":  {"OK", int64(1), int64(0), me, int64(10), quorum.Answer{Count: quorum.NoAnswer, Outcome: quorum.Refused, Cause: admission.ErrForgot}},
		"missing, and held":          {nil, int64(12), int64(0), them, int64(10), quorum.Answer{Count: quorum.NoAnswer, Outcome: quorum.Refused, Cause: admission.ErrForgot}},
		"no memory for the key":      {oom, count, int64(0), nil, int64(-2), quorum.Answer{Count: quorum.NoAnswer, Outcome: quorum.Refused, Cause: oom}},
		"no memory for the count":    {"OK", oom, int64(0), me, int64(10), quorum.Answer{Count: quorum.NoAnswer, Outcome: quorum.Refused, Cause: oom}},
	} {
		t.Run(name, func(t *testing.T) {
			v := plainly(t, name != "granted", []any{c.line, c.set, c.count, c.holder, c.left})
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
		"a pair for the line":    {[]any{me, me}, "OK", count, me, int64(10)},
		"bytes for the ttl":      {int64(0), "OK", count, me, []byte("soon")},
		"a status for the owner": {int64(0), "OK", count, "OK", int64(10)},
		"cut off in the midst":   {int64(0), "OK", fmt.Errorf("%w: EOF", pipe.ErrNotSent), fmt.Errorf("%w: EOF", pipe.ErrNotSent), fmt.Errorf("%w: EOF", pipe.ErrNotSent)},
		"a broken connection":    {int64(0), errors.New("EOF"), errors.New("EOF"), errors.New("EOF"), errors.New("EOF")},
	} {
		t.Run(name, func(t *testing.T) {
			v := plainly(t, true, replies)
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

// plainly gives the answers to the first node's commands of an attempt, in turn.
func plainly(t *testing.T, try bool, replies []any) *quorum.Vote {
	m := unconnected(t).Mutex("x")
	b := m.newBallot(acquiring, "me", nil, 0)
	v := &b.Votes[0]
	v.Right = &admission.VoteRight{Record: "record"}
	p := make([]plainVote, 1)
	m.askPlainly(v, &p[0], []any{m.keyArg, "me", "PX", m.ttlArg, "NX"}, !try)
	for c := &v.Call; c != nil; c = c.Then {
		require.Equal(t, quorum.Pending, answerOf(v).Count, "not before the last answer")
		if err, is := replies[0].(error); is {
			c.To.Receive(nil, err)
		} else {
			c.To.Receive(replies[0], nil)
		}
		replies = replies[1:]
	}
	return v
}

// Where the commands' connection breaks in the midst of them, the attempt may have been
// granted, and is undone.
func TestAnAttemptThatWasCutInTheMidstIsUndone(t *testing.T) {
	for answered := range 5 {
		inBubble(t, 1, func(t *testing.T, net *testNet) {
			c := net.client()
			commands := 0
			net.nodes[0].set(func(n *testNode) {
				n.override = func(cmd string, args []string) string {
					switch cmd {
					case "SET", "HINCRBY", "EXISTS", "GET", "PTTL":
						if commands++; commands == answered+1 {
							go n.cut()
						}
					}
					return ""
				}
			})
			if lease, err := c.Mutex("x").TryLock(t.Context()); err == nil {
				_ = lease.Unlock(t.Context()) // it may meet the cut
			}
			time.Sleep(time.Second)
			net.requireNoKeys()
			require.Zero(t, c.nodes[0].Undos())
		})
	}
}

func TestWhatWasCountedWithoutARecordIsRemoved(t *testing.T) {
	inBubble(t, 3, func(t *testing.T, net *testNet) {
		c := net.guarded()
		st := c.nodes[0].Current()
		var probes []string // how many keys each probe of the first node has
		net.nodes[0].set(func(n *testNode) {
			n.override = func(cmd string, args []string) string {
				if n.label(cmd, args) == "probe" {
					probes = append(probes, args[1])
				}
				return ""
			}
		})
		net.nodes[0].redis.FlushAll()
		lease, err := c.Mutex("x").Lock(t.Context())
		require.NoError(t, err)
		synctest.Wait()
		time.Sleep(time.Second)
		require.NotContains(t, net.nodes[0].keys(), st.Record)
		require.NoError(t, lease.Unlock(t.Context()))
		time.Sleep(time.Minute)
		require.True(t, c.nodes[0].Current().Votes)
		synctest.Wait()
		require.Equal(t, "4", probes[0], "the first one names the key that is removed")
		require.NotContains(t, probes[1:], "4", "and no other does")
	})
}

// A write-back must not make a record of what was counted where there is none.
func TestAWriteBackDoesNotRaiseWhatWasCountedWithoutARecord(t *testing.T) {
	inBubble(t, 3, func(t *testing.T, net *testNet) {
		c := net.guarded()
		synctest.Wait()
		wiped := net.nodes[1]
		record := c.nodes[1].Current().Record.(string)
		wiped.redis.FlushAll()
		// Counts differ, so that there is a write-back; and the wiped node answers late.
		_, err := net.nodes[0].redis.HIncrBy(net.nodes[0].record(), protocol.StripeOf("redlock:x"), 5)
		require.NoError(t, err)
		wiped.mute()
		lease, err := c.Mutex("x").TryLock(t.Context())
		require.NoError(t, err)
		synctest.Wait()
		require.Equal(t, 1, wiped.executed("raise"))
		require.Equal(t, "1", wiped.redis.HGet(record, protocol.StripeOf("redlock:x")))
		require.NoError(t, lease.Unlock(t.Context()))
	})
}

// Where all who wait have died, those who only try need not call each of them.
func TestTryLockGetsPastALineOfTheDead(t *testing.T) {
	inBubble(t, 3, func(t *testing.T, net *testNet) {
		a, c := net.client(WithTTL(2*time.Second)), net.client()
		b, pools := net.cuttableClient()
		lease, err := a.Mutex("x").Lock(t.Context())
		require.NoError(t, err)
		leave, gone := queueUp(t, b, 30)
		time.Sleep(500 * ms)
		for _, p := range pools {
			p.hold(true)
		}
		a.die(lease)
		time.Sleep(3 * time.Second)
		tries := 1
		for ; ; tries++ {
			last, err := c.Mutex("x").TryLock(t.Context())
			if err == nil {
				require.NoError(t, last.Unlock(t.Context()))
				break
			}
			require.ErrorIs(t, err, ErrHeld)
			time.Sleep(time.Second)
		}
		require.LessOrEqual(t, tries, 3)
		for _, p := range pools {
			p.hold(false)
		}
		leave()
		gone.Wait()
	})
}
