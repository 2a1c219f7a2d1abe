package chaos

import (
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

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
