package system

import (
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// machine is a machine's clocks, on which nothing but advance and suspend moves time.
type machine struct {
	mono, wall, boot time.Duration
	bootRead         int
	reading          time.Duration // how long a reading of the boot clock takes
}

func (m *machine) advance(d time.Duration) { m.mono, m.wall, m.boot = m.mono+d, m.wall+d, m.boot+d }
func (m *machine) suspend(d time.Duration) { m.wall, m.boot = m.wall+d, m.boot+d }

func (m *machine) clock(start time.Time) *bootClock {
	return newBootClock(start, func(time.Time) time.Duration { return m.mono },
		func() time.Time { return time.Unix(0, int64(time.Hour+m.wall)) },
		func() time.Duration {
			m.bootRead++
			m.advance(m.reading / 2)
			defer m.advance(m.reading / 2)
			return m.boot
		})
}

// requireNear expects the clock to show what the boot clock shows, within the distance that its docs promise.
func requireNear(t *testing.T, m *machine, got, within time.Duration) {
	t.Helper()
	require.LessOrEqual(t, (got - m.boot).Abs(), within)
}

func TestNowReadsTheBootClockSeldom(t *testing.T) {
	m := &machine{boot: time.Hour}
	c := m.clock(time.Now())
	for range 1000 {
		requireNear(t, m, c.now(), 0)
		m.advance(time.Millisecond)
	}
	assert.LessOrEqual(t, m.bootRead, 11)
	assert.GreaterOrEqual(t, m.bootRead, 10)
}

func TestNowNoticesASuspensionAtOnce(t *testing.T) {
	for _, s := range []time.Duration{maxStep, time.Second, 100 * 24 * time.Hour} {
		m := &machine{boot: time.Hour}
		c := m.clock(time.Now())
		c.now()
		m.advance(time.Millisecond)
		m.suspend(s)
		requireNear(t, m, c.now(), 0)
		m.advance(time.Millisecond)
		requireNear(t, m, c.now(), 0)
	}
}

func TestNowNoticesAShortSuspensionSoon(t *testing.T) {
	m := &machine{boot: time.Hour}
	c := m.clock(time.Now())
	c.now()
	m.suspend(maxStep - 1)
	requireNear(t, m, c.now(), maxStep)
	m.advance(maxTrust)
	requireNear(t, m, c.now(), 0)
}

func TestSettingTheWallClockMovesNothing(t *testing.T) {
	for _, step := range []time.Duration{-50 * 365 * 24 * time.Hour, -time.Hour, -time.Microsecond, time.Microsecond, time.Hour, 100 * 365 * 24 * time.Hour} {
		m := &machine{boot: time.Hour}
		c := m.clock(time.Now())
		c.now()
		m.wall += step
		for range 300 {
			requireNear(t, m, c.now(), 0)
			m.advance(time.Millisecond)
		}
	}
}

// A wall clock that is set back by just the time of a suspension hides it, until the boot clock is read again.
func TestSuspensionThatASetClockHidesIsNoticedSoon(t *testing.T) {
	m := &machine{boot: time.Hour}
	c := m.clock(time.Now())
	c.now()
	m.suspend(time.Hour)
	m.wall -= time.Hour
	m.advance(maxTrust)
	requireNear(t, m, c.now(), 0)
}

func TestNowNeverGoesBack(t *testing.T) {
	for _, reading := range []time.Duration{0, 2, maxReading - 2, maxReading, maxReading + 2, time.Millisecond} {
		m := &machine{boot: time.Hour, reading: reading}
		c := m.clock(time.Now())
		last := c.now()
		for i := range 5000 {
			m.advance(time.Duration(i%7) * time.Microsecond)
			switch {
			case i%100 == 0:
				m.advance(maxTrust)
			case i%331 == 0:
				m.suspend(time.Duration(i) * time.Microsecond)
			case i%77 == 0:
				m.reading = reading / time.Duration(1+i%3)
			}
			now := c.now()
			require.GreaterOrEqual(t, now, last)
			requireNear(t, m, now, max(maxStep, reading))
			last = now
		}
	}
}

// Such a time has no reading of Go's clock, and differences from it would be those of the wall clock.
func TestStartWithoutAReadingOfGosClockReadsTheBootClock(t *testing.T) {
	m := &machine{boot: time.Hour}
	c := m.clock(time.Now().Round(0))
	for i := range 10 {
		requireNear(t, m, c.now(), 0)
		require.Equal(t, i+1, m.bootRead)
	}
}

func TestNowOfThisMachineIsItsBootClock(t *testing.T) {
	var wg sync.WaitGroup
	for range 4 {
		wg.Go(func() {
			for range 10_000 {
				before := readSleepless()
				now := Now()
				after := readSleepless()
				if !assert.GreaterOrEqual(t, now, before-maxStep) || !assert.LessOrEqual(t, now, after+maxStep) {
					return
				}
			}
		})
	}
	wg.Wait()
}
