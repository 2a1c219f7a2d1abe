package admission

import (
	"errors"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/redlock-go/redlock/internal/protocol"
)

// The counters begin from the clock only if no quorum of admitted nodes can exist: an
// admitted node that does not answer may have higher counters.
func TestCountersBeginFromTheClockOnlyIfNoQuorumIsAdmitted(t *testing.T) {
	for n := 1; n <= 7; n++ {
		terms := &Terms{Nodes: n, Quorum: n/2 + 1}
		for admitted := range n {
			for unadmitted := 1; admitted+unadmitted <= n; unadmitted++ {
				c := &collected{admitted: admitted, unadmitted: unadmitted, times: []int64{protocol.FirstCount + 7}}
				c.counts[0], c.counts[1] = protocol.FirstCount+5, protocol.FirstCount+9
				left := n - unadmitted // at most so many are admitted
				want := nothing
				switch {
				case admitted >= terms.Quorum:
					want = others
				case left < terms.Quorum:
					want = clock
				}
				require.Equal(t, want, c.basis(terms), "%d: %d admitted, %d unadmitted", n, admitted, unadmitted)
				counts := c.countersFrom(c.latest())
				require.Equal(t, []int64{protocol.FirstCount + 7, protocol.FirstCount + 9, protocol.FirstCount + 7}, counts[:3])
				c.listed = "first second"
				if want != others {
					want = together
				}
				require.Equal(t, want, c.basis(terms))
			}
		}
	}
}

// The latest of the clocks is no earlier than the one from which earlier counters began, but for one that nobody believes.
func TestCountersBeginFromTheLatestClock(t *testing.T) {
	const now, ahead int64 = 1_800_000_000_000_000, 3_600_000_000
	for _, times := range [][]int64{{int64(now + ahead), now, now - ahead}, {now - ahead, now, now + ahead}, {now, now + ahead, now - ahead, now << 1}} {
		require.Equal(t, now+ahead, (&collected{times: times}).latest(), "%v", times)
	}
}

func TestRecordsMergeToTheGreatest(t *testing.T) {
	c := new(collected)
	c.merge(&protocol.Memory{Counts: [protocol.Stripes]int64{5, 7, -1}, Longest: 1500 * time.Millisecond}, 6)
	c.merge(&protocol.Memory{Counts: [protocol.Stripes]int64{6, 3, 0}, Longest: 500 * time.Millisecond}, 6)
	require.Equal(t, []int64{6, 3, 0}, c.counts[:3])
	require.Equal(t, 1500*time.Millisecond, c.longest)
}

func TestMissingServerTimeIsAnError(t *testing.T) {
	refused := errors.New("connection refused")
	require.ErrorIs(t, new(collected).addTime(nil, refused), refused)
}

// Only records of known runs are deleted: if a run is unknown, its record may be in use by
// other clients.
func TestOnlyTheRecordOfAKnownRunIsObsolete(t *testing.T) {
	for _, c := range []struct {
		older         string
		olderRun, run protocol.Run
		obsolete      bool
	}{
		{"old", "a", "b", true},
		{"", "", "b", false},
		{"old", unknownRun, "b", false},
		{"old", "a", unknownRun, false},
	} {
		older, olderRun := (&collected{older: c.older, olderRun: c.olderRun}).obsolete(c.run)
		if !c.obsolete {
			c.older, c.olderRun = "", ""
		}
		require.Equal(t, c.older, older)
		require.Equal(t, c.olderRun, olderRun)
	}
}
