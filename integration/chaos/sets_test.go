package chaos

import (
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// of sets the locks of operations: their names, with commas between.
func of(names string, ops ...Op) []Op {
	for i := range ops {
		ops[i].Name = names
	}
	return ops
}

// set makes operations of a lease of several locks out of a client's operations.
func set(names string, ops ...Op) []Op {
	for i := range ops {
		ops[i].Set = true
	}
	return of(names, ops...)
}

func TestHistoriesOfSetsAreAccepted(t *testing.T) {
	for name, logs := range map[string][][]Op{
		"one after the other, the first also after the holder of one of its locks": {
			of("b", at(0, 2, Acquire, 7, 0), at(3, 4, Release, 7, 0)),
			set("a, b", at(1, 6, Acquire, 8, 0), at(7, 8, Held, 8, 0), at(9, 9, Unlocking, 8, 0), at(9, 12, Release, 8, 0)),
			set("c, b", at(5, 14, Acquire, 9, 0), at(15, 16, Release, 9, 0)),
			of("a", at(10, 13, Acquire, 9, 0), at(20, 21, Release, 9, 0)),
		},
		"a change of two numbers": {
			slices.Concat(set("a, b", at(0, 2, Acquire, 1, 0)), set("a", at(3, 4, Read, 1, 0), at(7, 8, Write, 1, 1)),
				set("b", at(5, 6, Read, 1, 0), at(9, 10, Write, 1, 1)), set("a, b", at(11, 12, Release, 1, 0))),
			of("b", at(13, 14, Acquire, 2, 0), at(15, 16, Read, 2, 1), at(17, 18, Release, 2, 0)),
			of("a", at(20, 20, Audit, 0, 1)),
		},
		"readers of both locks behind a set": {
			set("a, b", at(0, 2, Acquire, 1, 0), at(3, 4, Release, 1, 0)),
			of("a", shares("x", at(5, 6, Acquire, 1, 0), at(9, 10, Release, 1, 0))...),
			of("b", shares("y", at(5, 6, Acquire, 1, 0), at(9, 10, Release, 1, 0))...),
		},
		"a holder of two locks that was killed": {
			set("a, b", until(at(0, 2, Acquire, 1, 0), 100)),
			of("a", at(102, 103, Acquire, 2, 0), at(104, 105, Release, 2, 0)),
			of("b", at(102, 103, Acquire, 2, 0), at(104, 105, Release, 2, 0)),
		},
		"a set that was lost since one of its locks was": {
			set("a, b", until(at(0, 2, Acquire, 1, 0), 100), until(at(60, 61, Lost, 1, 0), 50)),
			of("b", at(52, 53, Acquire, 2, 0), at(54, 55, Release, 2, 0)),
			of("a", at(52, 53, Acquire, 2, 0), at(54, 55, Release, 2, 0)),
		},
	} {
		t.Run(name, func(t *testing.T) { assert.Empty(t, verdict(logs...)) })
	}
}

func TestOtherHistoriesOfSetsAreRefused(t *testing.T) {
	for name, logs := range map[string][][]Op{
		"a set beside a holder of its second lock": {
			of("b", at(0, 2, Acquire, 1, 0), at(20, 21, Release, 1, 0)),
			set("a, b", at(5, 6, Acquire, 2, 0), at(30, 31, Release, 2, 0)),
		},
		"a holder beside a set that has its lock": {
			set("a, b", at(0, 2, Acquire, 1, 0), at(20, 21, Release, 1, 0)),
			of("b", at(5, 6, Acquire, 2, 0), at(30, 31, Release, 2, 0)),
		},
		"two sets with one lock in common": {
			set("a, b", at(0, 2, Acquire, 1, 0), at(20, 21, Release, 1, 0)),
			set("c, b", at(5, 6, Acquire, 2, 0), at(30, 31, Release, 2, 0)),
		},
		"a set beside a reader of one lock": {
			of("b", shares("x", at(0, 2, Acquire, 1, 0), at(20, 21, Release, 1, 0))...),
			set("a, b", at(5, 6, Acquire, 2, 0), at(30, 31, Release, 2, 0)),
		},
		"a set whose token is not greater than that of one lock": {
			of("a", at(0, 2, Acquire, 3, 0), at(3, 4, Release, 3, 0)),
			of("b", at(0, 2, Acquire, 5, 0), at(3, 4, Release, 5, 0)),
			set("a, b", at(5, 6, Acquire, 4, 0), at(7, 8, Release, 4, 0)),
		},
		"a lock with the token of the set before": {
			set("a, b", at(0, 2, Acquire, 4, 0), at(3, 4, Release, 4, 0)),
			of("b", at(5, 6, Acquire, 4, 0), at(7, 8, Release, 4, 0)),
		},
		"a lock of a dead holder of two, before the validity that it reported": {
			set("a, b", until(at(0, 2, Acquire, 1, 0), 50), until(at(30, 31, Held, 1, 0), 100)),
			of("b", at(60, 61, Acquire, 2, 0), at(62, 63, Release, 2, 0)),
		},
		"a set that is held while one of its locks was granted": {
			set("a, b", at(0, 2, Acquire, 1, 0), at(12, 13, Held, 1, 0), at(14, 15, Release, 1, 0)),
			of("b", at(5, 6, Acquire, 2, 0), at(7, 8, Release, 2, 0)),
		},
		"a set that was lost, and one of its locks granted before": {
			set("a, b", until(at(0, 2, Acquire, 1, 0), 100), until(at(60, 61, Lost, 1, 0), 50)),
			of("b", at(40, 45, Acquire, 2, 0), at(70, 71, Release, 2, 0)),
		},
		"a change of one number that is lost": {
			slices.Concat(set("a, b", at(0, 2, Acquire, 1, 0)), set("b", at(5, 6, Read, 1, 0), at(9, 10, Write, 1, 1)),
				set("a, b", at(11, 12, Release, 1, 0))),
			of("b", at(13, 14, Acquire, 2, 0), at(15, 16, Read, 2, 0), at(17, 18, Release, 2, 0)),
		},
	} {
		t.Run(name, func(t *testing.T) {
			violations := verdict(logs...)
			require.Len(t, violations, 1)
			assert.Contains(t, violations[0].String(), "\n  x ", "it shows the operation")
		})
	}
}

// A set's grant is one acquisition, which ends the time without a grant for each of its locks.
func TestSummaryCountsSets(t *testing.T) {
	dir := t.TempDir()
	log, err := OpenLog(dir, "client")
	require.NoError(t, err)
	for _, op := range set("a, b", at(10, 20, Acquire, 1, 0), at(30, 30, Unlocking, 1, 0), at(30, 31, Release, 1, 0)) {
		require.NoError(t, log.Add(op))
	}
	for _, op := range of("a", at(40, 50, Acquire, 2, 0), at(60, 60, Unlocking, 2, 0), at(60, 61, Release, 2, 0)) {
		require.NoError(t, log.Add(op))
	}
	require.NoError(t, log.Close())
	h, err := Gather(dir, &Memory{Nodes: 5, TTL: time.Second})
	require.NoError(t, err)
	s := NewSummary()
	s.Add(h, []Span{{0, 100 * time.Millisecond}})
	assert.Equal(t, 2, s.Count[Acquire])
	assert.Equal(t, 1, s.Sets)
	assert.Contains(t, s.String(), "several locks at once")
	assert.Len(t, h.Locks["a"], 4)
	assert.Len(t, h.Locks["b"], 2)
	assert.Equal(t, Gap{Name: "b", From: 20 * time.Millisecond, To: 100 * time.Millisecond}, s.Gap)
	assert.Equal(t, 80*time.Millisecond, s.ModeGap.Length())
	assert.True(t, h.Locks["b"][0].Set)
}

// permits makes operations of a lease of permits out of a client's operations: of the locks that the
// slots are.
func permits(names string, n int, ops ...Op) []Op {
	for i := range ops {
		ops[i].Set = n > 1
		if ops[i].Kind == Acquire {
			ops[i].Permits = n
		}
	}
	return of(names, ops...)
}

func TestHistoriesOfPermits(t *testing.T) {
	for name, test := range map[string]struct {
		logs       [][]Op
		violations int
	}{
		"side by side, with tokens that have no order": {logs: [][]Op{
			permits("s#0", 1, at(0, 2, Acquire, 9, 0), at(20, 21, Release, 9, 0)),
			permits("s#2, s#1", 2, at(1, 3, Acquire, 4, 0), at(20, 21, Release, 4, 0)),
			permits("s#1", 1, at(22, 23, Acquire, 5, 0), at(30, 31, Release, 5, 0)),
		}},
		"a slot that two hold": {violations: 1, logs: [][]Op{
			permits("s#0, s#1", 2, at(0, 2, Acquire, 1, 0), at(20, 21, Release, 1, 0)),
			permits("s#1", 1, at(5, 6, Acquire, 2, 0), at(30, 31, Release, 2, 0)),
		}},
		"a token of a slot that does not increase": {violations: 1, logs: [][]Op{
			permits("s#0, s#1", 2, at(0, 2, Acquire, 7, 0), at(3, 4, Release, 7, 0)),
			permits("s#1", 1, at(5, 6, Acquire, 6, 0), at(7, 8, Release, 6, 0)),
		}},
	} {
		t.Run(name, func(t *testing.T) { assert.Len(t, verdict(test.logs...), test.violations) })
	}
}

func TestSummaryCountsPermits(t *testing.T) {
	dir := t.TempDir()
	log, err := OpenLog(dir, "client")
	require.NoError(t, err)
	for _, ops := range [][]Op{
		permits("s#0, s#1", 2, at(10, 20, Acquire, 1, 0), at(30, 31, Release, 1, 0)),
		permits("s#1", 1, at(40, 50, Acquire, 2, 0), at(60, 61, Release, 2, 0)),
		permits("s", 3, at(62, 63, Refused, 0, 0)),
	} {
		for _, op := range ops {
			require.NoError(t, log.Add(op))
		}
	}
	require.NoError(t, log.Close())
	h, err := Gather(dir, &Memory{Nodes: 5})
	require.NoError(t, err)
	s := NewSummary()
	s.Add(h, nil)
	assert.Equal(t, 2, s.Permits)
	assert.Equal(t, 1, s.Sets)
	assert.Regexp(t, `of them, permits +2\n`, s.String())
}
