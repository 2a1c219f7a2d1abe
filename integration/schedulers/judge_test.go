package schedulers

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// slack is how much later than it is due something may happen on a machine that is busy.
const slack = 300 * time.Millisecond

// early is how much sooner than it is due something may happen.
const early = 50 * time.Millisecond

// verdict is what a history shows.
type verdict struct {
	ticks     int // that were judged
	twice     []int64
	missed    []int64 // ran never
	explained int     // of them, by a strike
	unclear   []int64 // the others
}

// trial is a history, and what is known beside it.
type trial struct {
	clock       func(slot int) clock
	leads       bool          // one process runs all ticks
	rest        time.Duration // how long after its election a leader runs its first tick
	events      []event
	strikes     []strike
	servers     []outage
	first, last int64 // ticks to judge
}

// judge counts the runs of each tick.
func (j *trial) judge() (v verdict) {
	runs := make(map[int64]int)
	for _, e := range j.events {
		if e.what == ran {
			runs[e.tick]++
		}
	}
	for tick := j.first; tick <= j.last; tick++ {
		v.ticks++
		switch {
		case runs[tick] > 1:
			v.twice = append(v.twice, tick)
		case runs[tick] == 0:
			v.missed = append(v.missed, tick)
			if j.explained(tick) {
				v.explained++
			} else {
				v.unclear = append(v.unclear, tick)
			}
		}
	}
	return v
}

// explained reports whether a strike explains that the tick was missed.
func (j *trial) explained(tick int64) bool {
	return j.lossExplains(tick) || slices.ContainsFunc(j.strikes, func(s strike) bool {
		if j.leads {
			return s.explainsLed(j, tick)
		}
		return s.explains(j, tick)
	})
}

// explains reports whether the strike is why no process ran a tick, with a lock for each run.
func (s *strike) explains(j *trial, tick int64) bool {
	due := clock{period: j.clock(0).period}.at(tick)
	for earlier := range int64(5) { // no strike, and no key, lasts for longer
		asks, holds := s.strikesRun(j, tick-earlier)
		switch {
		case !asks && !holds:
		case earlier == 0:
			return true
		case !due.After(s.keysEnd(j)):
			return true
		case asks && !s.killed && due.After(s.to.Add(-slack-maxApart)) && due.Before(s.to.Add(minHold+slack)):
			return true // it may have got the lock when it went on, too late to run, so that the lock rests
		}
	}
	return false
}

// keysEnd returns when the last key is gone of a process that was struck with a lock, or while it asked for one: a ttl after a server
// executed its last request. A server that was stopped then executes the request when it goes on.
func (s *strike) keysEnd(j *trial) time.Time {
	last := s.from
	for _, o := range j.servers {
		if o.how == serverStopped && o.covers(s.from) && o.to.After(last) {
			last = o.to
		}
	}
	return last.Add(ttl)
}

// strikesRun reports whether the process was struck while it was about to ask for the lock of a tick, or waited for the answer, and
// whether it had the lock.
func (s *strike) strikesRun(j *trial, tick int64) (asks, holds bool) {
	due := j.clock(s.slot).at(tick)
	asks = s.from.After(due.Add(-early)) && s.from.Before(due.Add(tolerance+slack))
	for _, e := range j.events {
		if e.process != s.process || e.tick != tick || e.at.After(s.from) {
			continue
		}
		switch e.what {
		case granted, ran: // maybe early: a process that went on just before a tick runs it at once
			asks, holds = false, true
		case ended:
			// The release may take that long, and longer at a server that is stopped.
			asks, holds = false, s.from.Before(e.at.Add(nodeTimeout+slack)) || s.killed && j.isStopped(e.at, s.from)
		case refused, late, failed:
			asks, holds = false, false
		}
	}
	return asks, holds
}

// isStopped reports whether a server was stopped all the time between two instants.
func (j *trial) isStopped(from, to time.Time) bool {
	return slices.ContainsFunc(j.servers, func(o outage) bool { return o.how == serverStopped && o.covers(from) && o.covers(to) })
}

// explainsLed reports whether the strike is why no process ran a tick, where one process leads: the tick was not due yet for
// the leader when it was struck, and it was over for the next one when that was elected, or for the same one when it went on.
func (s *strike) explainsLed(j *trial, tick int64) bool {
	if !s.strikesLeader(j) || !j.clock(s.slot).at(tick).After(s.from.Add(-slack)) {
		return false
	}
	begin, slot := s.to, s.slot // it leads on
	limit := s.from.Add(succession + j.rest)
	if next := s.successor(j); next != nil {
		begin, slot = next.at.Add(j.rest), next.slot
	} else if s.killed {
		begin = limit
	}
	if begin.After(limit) {
		begin = limit
	}
	return j.clock(slot).at(tick).Before(begin.Add(slack))
}

// lossExplains reports whether a leader that was not struck had lost its lease when the tick was due, since two servers were struck
// at that time, and none led yet. Two servers that forget a lease are no majority. But a third one may not have it: one that was stopped
// executes the last request of a leader that was killed when it goes on, and refuses all others for a ttl.
func (j *trial) lossExplains(tick int64) bool {
	if !j.leads {
		return false
	}
	for i, lost := range j.events {
		if lost.what != deposed || j.struckAt(lost.at) < atOnce || !j.clock(lost.slot).at(tick).After(lost.at.Add(-slack)) {
			continue
		}
		for _, next := range j.events[i:] {
			if next.what != elected {
				continue
			}
			if next.at.Before(lost.at.Add(succession)) && j.clock(next.slot).at(tick).Before(next.at.Add(j.rest+slack)) {
				return true
			}
			break
		}
	}
	return false
}

// struckAt returns how many servers were struck at an instant, or went on so shortly before that clients may not be connected
// again.
func (j *trial) struckAt(at time.Time) (n int) {
	for _, o := range j.servers {
		if o.how == serverStopped {
			o.to = o.to.Add(reconnects)
		}
		if o.covers(at) {
			n++
		}
	}
	return n
}

// succession is how long it takes at most until another process leads after the leader was struck: its keys last for a ttl, and then the
// lock is not free for longer than three seconds and a ttl, even if the next waiters are struck too.
const succession = ttl + (3*time.Second + ttl)

// strikesLeader reports whether the process led when it was struck.
func (s *strike) strikesLeader(j *trial) bool {
	led := false
	for _, e := range j.events {
		switch {
		case e.process != s.process || e.at.After(s.from.Add(early)):
		case e.what == elected:
			led = true
		case e.what == deposed:
			led = e.at.After(s.from.Add(-early))
		}
	}
	return led
}

// successor returns the election after the strike; nil if the process was stopped, and led on.
func (s *strike) successor(j *trial) *event {
	ledOn := !s.killed
	for i, e := range j.events {
		switch {
		case !e.at.After(s.from.Add(early)):
		case e.what == deposed && e.process == s.process && e.at.Before(s.to.Add(slack)):
			ledOn = false
		case e.what == elected && (!ledOn || e.at.Before(s.to)):
			return &j.events[i]
		}
	}
	return nil
}

// successions returns how often leaders were struck, and the longest time from such a strike to the next election that it
// caused.
func (j *trial) successions() (struck int, longest time.Duration) {
	for _, s := range j.strikes {
		if !s.strikesLeader(j) {
			continue
		}
		struck++
		if next := s.successor(j); next != nil {
			longest = max(longest, next.at.Sub(s.from))
		}
	}
	return struck, longest
}

// story returns the events around a tick, to explain a failure.
func (j *trial) story(tick int64) string {
	var lines []string
	due := j.clock(0).at(tick)
	near := func(at time.Time) bool { return at.After(due.Add(-3*ttl)) && at.Before(due.Add(2*ttl)) }
	add := func(at time.Time, format string, args ...any) {
		lines = append(lines, fmt.Sprintf("%9.3f s  %s", at.Sub(due).Seconds(), fmt.Sprintf(format, args...)))
	}
	type line struct {
		at   time.Time
		text string
	}
	var all []line
	for _, e := range j.events {
		all = append(all, line{e.at, fmt.Sprintf("slot %d, process %d: %s %d", e.slot, e.process, e.what, e.tick-tick)})
	}
	for _, s := range j.strikes {
		how := "stopped"
		if s.killed {
			how = "killed"
		}
		all = append(all, line{s.from, fmt.Sprintf("slot %d, process %d: %s", s.slot, s.process, how)},
			line{s.to, fmt.Sprintf("slot %d: goes on", s.slot)})
	}
	slices.SortStableFunc(all, func(a, b line) int { return a.at.Compare(b.at) })
	for _, l := range all {
		if near(l.at) {
			add(l.at, "%s", l.text)
		}
	}
	return strings.Join(lines, "\n")
}

// What follows is about the judge: it must find what is wrong in histories that are made up. Their ticks are two seconds
// apart, the first one is at 0, and slot 1's clock is 300 ms behind. Times are in milliseconds.

func at(ms int) time.Time { return time.UnixMilli(int64(ms)) }

// seen is an event of slot 0, whose process is 10, or of slot 1, whose process is 11.
func seen(ms, slot int, w what, tick int64) event { return event{at(ms), slot, 10 + slot, w, tick} }

func stopped(slot, from, to int) []strike {
	return []strike{{slot: slot, process: 10 + slot, from: at(from), to: at(to)}}
}

func killedAt(slot, from int) []strike {
	return []strike{{slot: slot, process: 10 + slot, killed: true, from: at(from), to: at(from + 100)}}
}

func trialOf(leads bool, last int64, strikes []strike, events ...event) *trial {
	clocks := func(slot int) clock { return clock{specPeriod, time.Duration(slot) * maxApart} }
	return &trial{clock: clocks, leads: leads, events: events, strikes: strikes, last: last}
}

func TestJudgeCountsTheRunsOfEachTick(t *testing.T) {
	v := trialOf(false, 3, nil, seen(0, 0, ran, 0), seen(300, 1, ran, 0), seen(2000, 0, ran, 1), seen(6000, 0, ran, 3)).judge()
	assert.Equal(t, verdict{ticks: 4, twice: []int64{0}, missed: []int64{2}, unclear: []int64{2}}, v)
}

func TestJudgeExplainsAMissedRunByStrikesOfItsLock(t *testing.T) {
	holding := []event{seen(0, 0, granted, 0), seen(0, 0, ran, 0)}
	for name, c := range map[string]struct {
		strikes []strike
		events  []event
		unclear []int64 // of the ticks 0 to 3
	}{
		"without a strike":                   {nil, nil, []int64{0, 1, 2, 3}},
		"killed at its attempt":              {killedAt(0, 100), nil, []int64{2, 3}},
		"killed long before its attempt":     {killedAt(0, -1000), nil, []int64{0, 1, 2, 3}},
		"killed long after its attempt":      {killedAt(0, 1000), nil, []int64{0, 1, 2, 3}},
		"killed after it was refused":        {killedAt(0, 100), []event{seen(50, 0, refused, 0)}, []int64{0, 1, 2, 3}},
		"killed with the lock":               {killedAt(0, 500), holding, []int64{2, 3}},
		"killed early, with the lock":        {killedAt(1, 200), []event{seen(150, 1, granted, 0)}, []int64{2, 3}},
		"killed after it gave the lock back": {killedAt(0, 1000), append(holding, seen(100, 0, ended, 0)), []int64{1, 2, 3}},
		"stopped with the lock":              {stopped(0, 500, 5900), holding, []int64{2, 3}},
		"stopped at its attempt":             {stopped(0, 100, 5900), nil, []int64{2}},
		"stopped at its attempt, for longer": {stopped(0, 100, 9000), nil, []int64{2, 3}},
	} {
		assert.Equal(t, c.unclear, trialOf(false, 3, c.strikes, c.events...).judge().unclear, name)
	}
}

func TestJudgeExplainsAMissedRunByStrikesOfTheLeader(t *testing.T) {
	first := seen(-9000, 0, elected, 0)
	next := seen(4100, 1, elected, 0) // just before tick 2, by its clock
	for name, c := range map[string]struct {
		strikes []strike
		events  []event
		unclear []int64 // of the ticks 0 to 3
	}{
		"the leader was killed":               {killedAt(0, 100), []event{first, next}, []int64{3}},
		"another process was killed":          {killedAt(1, 100), []event{first, next}, []int64{0, 1, 2, 3}},
		"the leader had lost the lease":       {killedAt(0, 100), []event{first, seen(-1000, 0, deposed, 0), next}, []int64{0, 1, 2, 3}},
		"the leader was stopped, and led on":  {stopped(0, 1900, 2100), []event{first}, []int64{0, 2, 3}},
		"the leader was stopped, and deposed": {stopped(0, 1900, 9000), []event{first, next, seen(9001, 0, deposed, 0)}, []int64{0, 3}},
		"no other process was elected":        {killedAt(0, -9000+200), []event{first}, []int64{1, 2, 3}},
	} {
		v := trialOf(true, 3, c.strikes, c.events...).judge()
		assert.Equal(t, c.unclear, v.unclear, name)
	}
	resting := trialOf(true, 3, killedAt(0, 100), first, next)
	resting.rest = 2 * time.Second
	assert.Empty(t, resting.judge().unclear, "a new leader's first runs wait")
}

func TestJudgeExplainsAMissedRunByAKeyThatAServerSetWhenItWentOn(t *testing.T) {
	holding := []event{seen(0, 0, granted, 0), seen(0, 0, ran, 0)}
	for name, c := range map[string]struct {
		server  outage
		unclear []int64 // of the ticks 0 to 3
	}{
		"stopped when the process was killed": {outage{"", serverStopped, at(0), at(1500)}, []int64{3}},
		"stopped before":                      {outage{"", serverStopped, at(-900), at(100)}, []int64{2, 3}},
		"killed":                              {outage{"", serverKilled, at(0), at(1500)}, []int64{2, 3}},
	} {
		j := trialOf(false, 3, killedAt(0, 500), holding...)
		j.servers = []outage{c.server}
		assert.Equal(t, c.unclear, j.judge().unclear, name)
	}
}

// The process was killed after its run, and before a server that was stopped had its release.
func TestJudgeExplainsAMissedRunByAReleaseThatAServerDidNotGet(t *testing.T) {
	released := []event{seen(0, 0, granted, 0), seen(0, 0, ran, 0), seen(0, 0, ended, 0)}
	for name, c := range map[string]struct {
		server  outage
		unclear []int64 // of the ticks 0 to 3
	}{
		"stopped all the time":      {outage{"", serverStopped, at(-900), at(2500)}, []int64{3}},
		"went on before the strike": {outage{"", serverStopped, at(-900), at(1000)}, []int64{1, 2, 3}},
		"stopped after the run":     {outage{"", serverStopped, at(500), at(2500)}, []int64{1, 2, 3}},
		"killed":                    {outage{"", serverKilled, at(-900), at(2500)}, []int64{1, 2, 3}},
	} {
		j := trialOf(false, 3, killedAt(0, 1500), released...)
		j.servers = []outage{c.server}
		assert.Equal(t, c.unclear, j.judge().unclear, name)
	}
}

func TestJudgeExplainsALossWithoutAStrikeByTwoServersOnly(t *testing.T) {
	events := []event{seen(-9000, 0, elected, 0), seen(1000, 0, deposed, 0), seen(3000, 1, elected, 0)}
	struck := outage{"", serverKilled, at(500), at(3500)}
	for servers, unclear := range [][]int64{{0, 1, 2, 3}, {0, 1, 2, 3}, {0, 2, 3}} {
		j := trialOf(true, 3, nil, events...)
		for range servers {
			j.servers = append(j.servers, struck)
		}
		assert.Equal(t, unclear, j.judge().unclear, "%d servers", servers)
	}
}

// The renewal that found a majority without the lease may have begun when the server was not back yet.
func TestJudgeExplainsALossByAServerThatWentOnShortlyBefore(t *testing.T) {
	events := []event{seen(-9000, 0, elected, 0), seen(1000, 0, deposed, 0), seen(3000, 1, elected, 0)}
	for name, c := range map[string]struct {
		how     string
		to      int
		unclear []int64 // of the ticks 0 to 3
	}{
		"stopped until just before": {serverStopped, 800, []int64{0, 2, 3}},
		"stopped until long before": {serverStopped, -900, []int64{0, 1, 2, 3}},
		"killed, and voted again":   {serverKilled, 800, []int64{0, 1, 2, 3}},
	} {
		j := trialOf(true, 3, nil, events...)
		j.servers = []outage{{"", serverKilled, at(500), at(3500)}, {"", c.how, at(-2000), at(c.to)}}
		assert.Equal(t, c.unclear, j.judge().unclear, name)
	}
}

func TestHistoryIsReadWithoutALineThatIsBeingWritten(t *testing.T) {
	path := filepath.Join(t.TempDir(), "history")
	none, err := readHistory(path)
	require.NoError(t, err)
	require.Empty(t, none)
	h, err := openHistory(path, 3)
	require.NoError(t, err)
	defer h.file.Close()
	h.add(granted, 7)
	_, err = h.file.WriteString("17 3 99 ra")
	require.NoError(t, err)
	events, err := readHistory(path)
	require.NoError(t, err)
	require.Len(t, events, 1)
	assert.Equal(t, event{events[0].at, 3, os.Getpid(), granted, 7}, events[0])
}
