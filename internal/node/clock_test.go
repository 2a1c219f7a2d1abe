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
	n.offset.record(101*second+9*ms, second, second+40*ms)
	requireAhead(100*second - 10*ms) // a reading that took longer is less certain
	n.offset.record(101*second+9*ms, second, second+10*ms)
	requireAhead(100*second + 4*ms)
	asked := second + staleReading
	n.offset.record(102*second+staleReading, asked, asked+40*ms)
	requireAhead(101*second - 20*ms) // the one before is stale
}

// A clock that was set is noticed by every reading, but for what their trips and the rates of two clocks explain.
func TestClockThatWasSetIsNoticed(t *testing.T) {
	const second, ms, hour = time.Second, time.Millisecond, time.Hour
	for name, c := range map[string]struct {
		back time.Duration // ten seconds after the first reading
		trip time.Duration // of the second one
		set  bool
	}{
		"an hour back":              {hour, ms, true},
		"an hour back, read slowly": {hour, second, true},
		"an hour ahead":             {-hour, ms, true},
		"it drifts":                 {150 * ms, ms, false},
		"it is read slowly":         {600 * ms, second, false},
		"half a second back":        {500 * ms, ms, true},
	} {
		t.Run(name, func(t *testing.T) {
			n := newUnconnected()
			n.offset.record(hour, 0, 2*ms)
			n.offset.watch(hour+10*second-c.back+c.trip/2, 10*second, 10*second+c.trip)
			ahead, _ := n.Offset()
			want := hour - ms
			if c.set {
				want = hour - c.back
			}
			require.Equal(t, want, ahead)
			greatest, known := n.GreatestOffset()
			require.True(t, known)
			require.Equal(t, max(hour-ms, hour-c.back), greatest)
		})
	}
}
