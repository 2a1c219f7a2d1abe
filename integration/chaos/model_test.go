package chaos

import (
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// at makes an operation that happens within the given milliseconds. Leases with different
// tokens have different owners.
func at(from, to int64, kind Kind, token, value int64) Op {
	return Op{Kind: kind, Name: "lock", Owner: fmt.Sprint(token), Token: token, Value: value,
		Call: time.Duration(from) * time.Millisecond, Return: time.Duration(to) * time.Millisecond}
}

// until sets the end of validity that the lease reported.
func until(op Op, ms int64) Op {
	op.Until = time.Duration(ms) * time.Millisecond
	return op
}

func verdict(logs ...[]Op) []Violation { return verdictAfter(nil, logs...) }

// verdictAfter returns the model's verdict on the clients' operations, where some of five
// nodes forgot.
func verdictAfter(forgotten map[int]Span, logs ...[]Op) []Violation {
	memory := &Memory{Nodes: 5, TTL: 100 * time.Millisecond}
	for node, within := range forgotten {
		memory.Forgot(node, within)
	}
	h := &History{Locks: map[string][]Op{}, Count: map[Kind]int{}, Why: map[string]int{}, memory: memory}
	for _, ops := range logs {
		h.add(ops)
	}
	for name, ops := range h.Locks {
		h.Locks[name] = order(ops)
	}
	c := &Checker{Timeout: 10 * time.Second}
	return c.Check(h)
}

func TestHistoriesOfALeaseLockAreAccepted(t *testing.T) {
	for name, logs := range map[string][][]Op{
		"one after the other": {
			{at(0, 2, Acquire, 1, 0), at(3, 4, Read, 1, 0), at(5, 6, Write, 1, 1), at(7, 9, Release, 1, 0)},
			{at(8, 10, Acquire, 2, 0), at(11, 12, Read, 2, 1), at(13, 14, Write, 2, 2), at(15, 16, Release, 2, 0)},
			{at(20, 20, Audit, 0, 2)},
		},
		"a lease that ends by itself, and was lost": {
			{until(at(0, 2, Acquire, 1, 0), 100), until(at(300, 301, Lost, 1, 0), 100)},
			{at(99, 101, Acquire, 2, 0), at(103, 104, Held, 2, 0)},
		},
		"a holder that was killed": {
			{until(at(0, 2, Acquire, 1, 0), 50), until(at(30, 31, Held, 1, 0), 100)},
			{at(102, 103, Acquire, 5, 0), at(103, 104, Release, 5, 0)},
		},
		"a holder that was killed while it released": {
			{until(at(0, 2, Acquire, 1, 0), 100), at(10, 10, Unlocking, 1, 0)},
			{at(11, 12, Acquire, 2, 0), at(103, 104, Release, 2, 0)},
		},
		"a lease that was taken away before its end, and the next one": {
			{until(at(0, 2, Acquire, 1, 0), 100), until(at(60, 61, Lost, 1, 0), 50)},
			{at(40, 52, Acquire, 2, 0), at(53, 54, Held, 2, 0), at(55, 56, Release, 2, 0)},
		},
		"a late write that the fence refuses, and one before any other": {
			{until(at(0, 2, Acquire, 1, 0), 100), at(3, 4, FencedRead, 1, 0), at(300, 301, StaleWrite, 1, 1), until(at(302, 303, Lost, 1, 0), 100)},
			{until(at(110, 112, Acquire, 2, 0), 200), at(120, 121, FencedRead, 2, 0), at(400, 401, FencedWrite, 2, 1), until(at(402, 403, Lost, 2, 0), 200)},
			{at(310, 311, Acquire, 3, 0)},
		},
		"a late write without a fence": {
			{until(at(0, 2, Acquire, 1, 0), 100), at(3, 4, Read, 1, 0), at(90, 200, Late, 1, 1), until(at(200, 201, Lost, 1, 0), 100)},
			{at(110, 112, Acquire, 2, 0), at(120, 121, Read, 2, 0), at(130, 131, Write, 2, 1), at(140, 141, Release, 2, 0)},
			{at(250, 250, Audit, 0, 1)},
		},
	} {
		t.Run(name, func(t *testing.T) { assert.Empty(t, verdict(logs...)) })
	}
}

func TestOtherHistoriesAreRefused(t *testing.T) {
	for name, logs := range map[string][][]Op{
		"two holders": {
			{until(at(0, 2, Acquire, 1, 0), 100), at(10, 11, Held, 1, 0), at(12, 13, Release, 1, 0)},
			{until(at(5, 6, Acquire, 2, 0), 100), at(20, 21, Release, 2, 0)},
		},
		"two holders, one of them paused": {
			{until(at(0, 2, Acquire, 1, 0), 100), until(at(300, 301, Lost, 1, 0), 100)},
			{at(97, 98, Acquire, 2, 0), at(103, 104, Release, 2, 0)},
		},
		"two holders, one of them dead, by the validity that it last reported": {
			{until(at(0, 2, Acquire, 1, 0), 50), until(at(30, 31, Held, 1, 0), 100)},
			{at(60, 61, Acquire, 2, 0)},
		},
		"two holders, one of which lost its lease later, before its end": {
			{until(at(0, 2, Acquire, 1, 0), 100), until(at(60, 61, Lost, 1, 0), 50)},
			{at(40, 45, Acquire, 2, 0), at(70, 71, Release, 2, 0)},
		},
		"a lease that outlives the next one": {
			{at(0, 2, Acquire, 1, 0), at(30, 31, Held, 1, 0), at(32, 33, Release, 1, 0)},
			{at(10, 12, Acquire, 2, 0), at(13, 14, Release, 2, 0)},
		},
		"a token that goes back": {
			{at(0, 2, Acquire, 2, 0), at(3, 4, Release, 2, 0)},
			{at(5, 6, Acquire, 1, 0), at(7, 8, Release, 1, 0)},
		},
		"a token that comes twice": {
			{at(0, 2, Acquire, 2, 0), at(3, 4, Release, 2, 0)},
			{at(5, 6, Acquire, 2, 0), at(7, 8, Release, 2, 0)},
		},
		"a lost update": {
			{at(0, 2, Acquire, 1, 0), at(3, 4, Read, 1, 0), at(5, 6, Write, 1, 1), at(7, 9, Release, 1, 0)},
			{at(8, 10, Acquire, 2, 0), at(11, 12, Read, 2, 0), at(13, 14, Write, 2, 1), at(15, 16, Release, 2, 0)},
		},
		"a number that changed by itself": {
			{at(0, 2, Acquire, 1, 0), at(3, 4, Read, 1, 0), at(5, 6, Write, 1, 1), at(7, 9, Release, 1, 0)},
			{at(20, 20, Audit, 0, 0)},
		},
		"a stale write that is accepted": {
			{until(at(0, 2, Acquire, 1, 0), 100), at(3, 4, FencedRead, 1, 0), at(300, 301, FencedWrite, 1, 1), until(at(302, 303, Lost, 1, 0), 100)},
			{until(at(110, 112, Acquire, 2, 0), 500), at(120, 121, FencedRead, 2, 0), at(400, 401, Release, 2, 0)},
		},
		"a write that is refused without a reason": {
			{at(0, 2, Acquire, 1, 0), at(3, 4, FencedRead, 1, 0), at(5, 6, StaleWrite, 1, 0), at(7, 9, Release, 1, 0)},
		},
		"a write with a token of the future": {
			{at(0, 2, Acquire, 1, 0), at(3, 4, FencedRead, 7, 0), at(7, 9, Release, 1, 0)},
		},
	} {
		t.Run(name, func(t *testing.T) {
			violations := verdict(logs...)
			require.Len(t, violations, 1)
			assert.Contains(t, violations[0].String(), "\n  x ", "it shows the operation")
		})
	}
}

func TestOverlapWithALostLeaseIsAllowedOnlyIfAMajorityForgot(t *testing.T) {
	span := func(from, to int) Span {
		return Span{From: time.Duration(from) * time.Millisecond, To: time.Duration(to) * time.Millisecond}
	}
	meanwhile, before, after := span(20, 30), span(-30, -20), span(70, 80)
	for name, test := range map[string]struct {
		forgotten map[int]Span
		excused   bool
	}{
		"none forgot":       {nil, false},
		"a minority forgot": {map[int]Span{0: meanwhile, 1: meanwhile}, false},
		"a majority forgot": {map[int]Span{0: meanwhile, 1: meanwhile, 4: meanwhile}, true},
		"a majority forgot, one node after the other":           {map[int]Span{0: span(2, 3), 1: span(10, 20), 4: span(40, 60)}, true},
		"a majority forgot before the lease":                    {map[int]Span{0: before, 1: before, 4: before}, false},
		"a majority forgot when the loss was known":             {map[int]Span{0: after, 1: after, 4: after}, false},
		"a minority forgot meanwhile, and one other one before": {map[int]Span{0: meanwhile, 1: meanwhile, 4: before}, false},
	} {
		t.Run(name, func(t *testing.T) {
			violations := verdictAfter(test.forgotten,
				[]Op{until(at(0, 2, Acquire, 1, 0), 100), until(at(60, 61, Lost, 1, 0), 50)},
				[]Op{at(40, 45, Acquire, 2, 0), at(70, 71, Release, 2, 0)})
			assert.Equal(t, test.excused, len(violations) == 0)
		})
	}
}

func TestANodeThatForgetsTwiceIsNoMajority(t *testing.T) {
	m := &Memory{Nodes: 3}
	m.Forgot(1, Span{0, 1})
	m.Forgot(1, Span{2, 3})
	require.False(t, m.majorityForgot(Span{0, 3}))
	m.Forgot(2, Span{3, 4})
	require.True(t, m.majorityForgot(Span{0, 3}))
	require.False(t, m.majorityForgot(Span{4, 5}))
}

func TestRoundBeginsWithTheStateAfterTheOneBefore(t *testing.T) {
	c := &Checker{Timeout: 10 * time.Second}
	round := func(ops ...Op) *History { return &History{Locks: map[string][]Op{"lock": ops}} }
	require.Empty(t, c.Check(round(at(0, 2, Acquire, 5, 0), at(3, 4, FencedRead, 5, 0), at(5, 6, FencedWrite, 5, 1), at(7, 8, Release, 5, 0))))
	require.Empty(t, c.Check(round(at(10, 12, Acquire, 6, 0), at(13, 14, FencedRead, 6, 1), at(17, 18, Release, 6, 0))))
	require.Len(t, c.Check(round(at(20, 22, Acquire, 6, 0), at(27, 28, Release, 6, 0))), 1)
	require.Empty(t, c.Check(round(at(30, 32, Acquire, 7, 0), at(37, 38, Release, 7, 0))), "one violation is reported once")
	require.Equal(t, 4+3+2+2, c.Ops)
}

// A long history is checked in pieces, and so in a short time, even if leases end by
// themselves or their holders wait.
func TestALongHistoryIsCheckedSoon(t *testing.T) {
	const leases = 20_000
	var ops, lost []Op
	for i := int64(0); i < leases; i++ {
		from := 10 * i
		ops = append(ops, at(from, from+2, Acquire, i+1, 0), at(from+3, from+4, Read, i+1, i), at(from+4, from+5, Write, i+1, i+1))
		if i%10 == 0 { // found long after it ended
			ops[len(ops)-3].Until = time.Duration(from+8) * time.Millisecond
			lost = append(lost, until(ops[len(ops)-3], from+8), until(at(from+5000, from+5001, Lost, i+1, 0), from+8))
			ops = append(ops[:len(ops)-3], ops[len(ops)-2:]...)
			continue
		}
		ops = append(ops, at(from+6, from+7, Release, i+1, 0))
	}
	start := time.Now()
	require.Empty(t, verdict(ops, lost))
	assert.Less(t, time.Since(start), 20*time.Second)
}

func TestAVerdictThatTakesTooLongIsAViolation(t *testing.T) {
	c := &Checker{Timeout: time.Nanosecond}
	var ops []Op
	for i := int64(0); i < 20_000; i++ { // a third of a second to check
		ops = append(ops, at(i, i+1000, Held, 1, 0))
	}
	ops = append([]Op{at(0, 30_000, Acquire, 1, 0)}, ops...)
	violations := c.Check(&History{Locks: map[string][]Op{"lock": ops}})
	require.Len(t, violations, 1)
	assert.Contains(t, violations[0].String(), "Unknown")
}
