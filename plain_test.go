package redlock

import (
	"errors"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/gomodule/redigo/redis"
	"github.com/stretchr/testify/require"

	"github.com/redlock-go/redlock/internal/pipe"
)

func TestAPlainVoteIsGrantedOnlyByWhatAllItsAnswersSay(t *testing.T) {
	const count = int64(firstCount + 7)
	me, them := []byte("me"), []byte("them")
	oom := redis.Error("OOM command not allowed when used memory > 'maxmemory'.")
	for name, c := range map[string]struct {
		set, count, line, holder, left any // the answers; an error among them is one
		want                           answer
	}{
		"granted":                    {"OK", count, int64(0), me, nil, answer{voice: mine, outcome: Granted, token: count}},
		"held":                       {nil, count, int64(0), them, int64(1500), answer{voice: others, outcome: Refused, holder: "them", remaining: 1500 * ms}},
		"held for good":              {nil, count, int64(0), them, int64(-1), answer{voice: others, outcome: Refused, holder: "them", remaining: endless}},
		"held, others wait":          {nil, count, int64(1), them, int64(9), answer{voice: others, outcome: Refused, holder: "them", remaining: 9 * ms}},
		"free, and others wait":      {"OK", count, int64(1), me, int64(9000), answer{voice: others, outcome: Refused, holder: reservation}},
		"free when it was too late":  {nil, count, int64(0), nil, int64(-2), answer{voice: others, outcome: Refused}},
		"expired before it counted":  {"OK", count, int64(0), nil, int64(-2), answer{voice: others, outcome: Refused}},
		"another's before it counts": {"OK", count, int64(0), them, int64(10), answer{voice: others, outcome: Refused, holder: "them", remaining: 10 * ms}},
		"a record that was missing":  {"OK", int64(1), int64(0), me, int64(10), answer{voice: silent, outcome: Refused, cause: errForgot}},
		"missing, and held":          {nil, int64(12), int64(0), them, int64(10), answer{voice: silent, outcome: Refused, cause: errForgot}},
		"no memory for the key":      {oom, count, int64(0), nil, int64(-2), answer{voice: silent, outcome: Refused, cause: oom}},
		"no memory for the count":    {"OK", oom, int64(0), me, int64(10), answer{voice: silent, outcome: Refused, cause: oom}},
	} {
		t.Run(name, func(t *testing.T) {
			v := plainly(t, name != "granted", []any{c.line, c.set, c.count, c.holder, c.left})
			got := v.answer
			if want := c.want.cause; want != nil {
				require.ErrorIs(t, got.cause, want)
				got.cause, c.want.cause = nil, nil
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
			require.Equal(t, Unknown, v.answer.outcome)
			require.Error(t, v.answer.cause)
		})
	}
}

// plainly gives the answers to the first node's commands of an attempt, in turn.
func plainly(t *testing.T, try bool, replies []any) *vote {
	m := unconnected(t).Mutex("x")
	b := m.newBallot(acquiring, "me", nil, 0)
	v := &b.votes[0]
	v.standing = &standing{record: "record"}
	p := make([]plainVote, 1)
	m.askPlainly(v, &p[0], []any{m.keyArg, "me", "PX", m.ttlArg, "NX"}, !try)
	for c := &v.call; c != nil; c = c.Then {
		require.Equal(t, pending, v.answer.voice, "not before the last answer")
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
			require.Zero(t, c.nodes[0].owed())
		})
	}
}

func TestWhatWasCountedWithoutARecordIsRemoved(t *testing.T) {
	inBubble(t, 3, func(t *testing.T, net *testNet) {
		c := net.guarded()
		st := c.nodes[0].standing.Load()
		net.nodes[0].redis.FlushAll()
		lease, err := c.Mutex("x").Lock(t.Context())
		require.NoError(t, err)
		synctest.Wait()
		time.Sleep(time.Second)
		require.NotContains(t, net.nodes[0].keys(), st.record)
		require.NoError(t, lease.Unlock(t.Context()))
		time.Sleep(time.Minute)
		require.True(t, c.nodes[0].standing.Load().votes)
		require.Nil(t, c.nodes[0].stray.Load())
	})
}

// A write-back must not make a record of what was counted where there is none.
func TestAWriteBackDoesNotRaiseWhatWasCountedWithoutARecord(t *testing.T) {
	inBubble(t, 3, func(t *testing.T, net *testNet) {
		c := net.guarded()
		synctest.Wait()
		wiped := net.nodes[1]
		record := c.nodes[1].standing.Load().record.(string)
		wiped.redis.FlushAll()
		// Counts differ, so that there is a write-back; and the wiped node answers late.
		_, err := net.nodes[0].redis.HIncrBy(net.nodes[0].record(), stripeOf("redlock:x"), 5)
		require.NoError(t, err)
		wiped.mute()
		lease, err := c.Mutex("x").TryLock(t.Context())
		require.NoError(t, err)
		synctest.Wait()
		require.Equal(t, 1, wiped.executed("raise"))
		require.Equal(t, "1", wiped.redis.HGet(record, stripeOf("redlock:x")))
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
