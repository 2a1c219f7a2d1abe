package schedulers

import (
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// The tests in this file are about the judge: it must find what is wrong in histories that are made up. Their ticks are two seconds
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
