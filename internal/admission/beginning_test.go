package admission

import (
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/redlock-go/redlock/internal/protocol"
)

// The servers' clocks were set back by an hour, or a clock is wrong by years. The member's client has run for an hour.
func TestCountersBeginAboveAllThatTheClientKnows(t *testing.T) {
	const year = 365 * 24 * time.Hour
	now := time.Date(2030, 1, 1, 0, 0, 0, 0, time.UTC)
	latest := now.UnixMicro()
	most := protocol.GreatestBeginning(time.Duration(latest) * time.Microsecond)
	for name, c := range map[string]struct {
		read  []time.Time // what a server's clock showed when the client's was as it is now
		seen  int64
		wall  time.Time
		voted bool
		want  int64
	}{
		"nothing else":                            {nil, 0, now, false, latest},
		"a clock that was ahead":                  {[]time.Time{now.Add(time.Hour), now}, 0, now, true, latest + time.Hour.Microseconds()},
		"clocks that were behind":                 {[]time.Time{now.Add(-time.Hour)}, 0, now, true, latest},
		"a clock that was ahead by six years":     {[]time.Time{now.Add(6 * year), now}, 0, now, true, most},
		"a clock that was ahead by ten years":     {[]time.Time{now.Add(10 * year), now}, 0, now, true, latest},
		"a count":                                 {nil, latest + 7, now, true, latest + 7},
		"a count that was begun years ahead":      {nil, most + 7, now, true, most},
		"a new client's wall clock":               {nil, 0, now.Add(time.Hour), false, latest + time.Hour.Microseconds()},
		"the wall clock of one that saw a vote":   {nil, 0, now.Add(time.Hour), true, latest},
		"a new client's wall clock, never set":    {nil, 0, time.Time{}, false, latest},
		"a new client's wall clock, of year 9999": {nil, 0, time.Date(9999, 1, 1, 0, 0, 0, 0, time.UTC), false, latest},
	} {
		t.Run(name, func(t *testing.T) {
			m := newMember(Terms{})
			g := m.group
			g.cfg.Wall = func() time.Time { return c.wall }
			for _, at := range c.read {
				m.WatchClock(time.Duration(at.UnixNano()), g.cfg.Clock())
			}
			require.True(t, m.Believes(c.seen))
			g.voted.Store(c.voted)
			require.Equal(t, c.want, g.beginning(latest))
		})
	}
}

func TestCountThatIsNotBelievedIsNotSeen(t *testing.T) {
	m := newMember(Terms{})
	require.False(t, m.Believes(1<<52+1))
	require.Zero(t, m.counted.Load())
}
