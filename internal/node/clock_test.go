package node

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

func TestClockKeepsItsQuickestReadingWhileThatIsFresh(t *testing.T) {
	n := newUnconnected()
	requireAhead := func(want time.Duration) {
		t.Helper()
		ahead, known := n.Offset()
		require.True(t, known)
		require.Equal(t, want, ahead)
	}
	_, known := n.Offset()
	require.False(t, known)
	const second, ms = time.Second, time.Millisecond
	n.offset.record(100*second, 0, 20*ms)
	requireAhead(100*second - 10*ms)
	n.offset.record(200*second, second, second+40*ms)
	requireAhead(100*second - 10*ms) // a reading that took longer is less certain
	n.offset.record(200*second, second, second+10*ms)
	requireAhead(199*second - 5*ms)
	asked := second + staleReading
	n.offset.record(900*second, asked, asked+40*ms)
	requireAhead(900*second - asked - 20*ms) // the one before is stale
}
