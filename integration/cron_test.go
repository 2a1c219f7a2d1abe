package integration

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/robfig/cron/v3"
	"github.com/stretchr/testify/require"

	"github.com/redlock-go/redlock"
	"github.com/redlock-go/redlock/integration/cluster"
	"github.com/redlock-go/redlock/internal/test/long"
	"github.com/redlock-go/redlock/internal/test/testclient"
)

const (
	cronSpec   = "*/2 * * * * *" // with seconds
	cronPeriod = 2 * time.Second
	cronHold   = time.Second            // the minimum hold
	cronApart  = 300 * time.Millisecond // by how much the processes' clocks differ
	cronLate   = 500 * time.Millisecond // a process that is later than this at a tick is not judged there
)

// cronProcess has the settings of a process of TestCronRunsEachTickOnceWithAMinimumHold, which runs the schedule by a clock
// that is behind, and tries to get the lock at each tick.
type cronProcess struct {
	behind      time.Duration
	first, last int64 // ticks, counted from 1970
}

// Next implements cron.Schedule: the library's own schedule, by the clock that is behind.
func (p cronProcess) Next(now time.Time) time.Time {
	parser := cron.NewParser(cron.Second | cron.Minute | cron.Hour | cron.Dom | cron.Month | cron.Dow)
	schedule, err := parser.Parse(cronSpec)
	if err != nil {
		panic(err)
	}
	return schedule.Next(now.Add(-p.behind)).Add(p.behind)
}

// at returns the instant of a tick.
func (p cronProcess) at(tick int64) time.Time {
	return time.Unix(0, tick*int64(cronPeriod)).Add(p.behind)
}

// tick returns the last tick before an instant.
func (p cronProcess) tick(now time.Time) int64 {
	return now.Add(-p.behind).UnixNano() / int64(cronPeriod)
}

// runCron is the job of such a process. At the line "B F L" it runs ticks F to L by a clock that is behind by B.
// Of each tick it says whether the job ran, and how long after the tick that was over.
func runCron(args []string, lines <-chan string, say func(string, ...any)) error {
	client, err := testclient.OpenInProcess(context.Background(), strings.Split(args[0], ","), withDefaults(nil)...)
	if err != nil {
		return err
	}
	defer client.Close()
	ctx, cancel := context.WithTimeout(context.Background(), 2*time.Minute)
	defer cancel()
	say("ready")
	var p cronProcess
	if _, err := fmt.Sscan(<-lines, (*int64)(&p.behind), &p.first, &p.last); err != nil {
		return err
	}
	job := client.Mutex("job", redlock.WithMinHold(cronHold))
	jobs := cron.New()
	jobs.Schedule(p, cron.FuncJob(func() {
		tick := p.tick(time.Now())
		lease, err := job.TryLock(ctx)
		if err == nil {
			err = lease.Unlock(ctx) // the work between takes no time
		}
		if err != nil && !errors.Is(err, redlock.ErrHeld) {
			say("failed: tick %d: %v", tick, err)
			return
		}
		say("%d %t %d", tick, lease != nil, time.Since(p.at(tick)))
	}))
	jobs.Start()
	time.Sleep(time.Until(p.at(p.last + 1).Add(-cronPeriod / 4)))
	<-jobs.Stop().Done()
	say("over")
	return nil
}

// cronTick is what the processes said of a tick: how many of them were there in time, and ran the job.
type cronTick struct{ inTime, runs int }

// Two machines have the same schedule in a cron library, jobs that take no time, and clocks that differ. A
// minimum hold that is longer than the difference lets each tick run once.
func TestCronRunsEachTickOnceWithAMinimumHold(t *testing.T) {
	t.Parallel()
	ticks := int64(30)
	if !long.Tests() {
		ticks = 5
	}
	nodes := cluster.Use(t, 5)
	var processes []*worker
	for range 2 {
		processes = append(processes, startWorker(t, "cron", strings.Join(nodes.URLs(), ",")))
	}
	for _, w := range processes {
		w.expect(t, "ready")
	}
	first := cronProcess{}.tick(time.Now()) + 2
	for i, w := range processes {
		w.say(t, fmt.Sprintf("%d %d %d", time.Duration(i)*cronApart, first, first+ticks-1))
	}
	seen := make(map[int64]cronTick)
	for _, w := range processes {
		w.readTicks(t, seen)
	}
	judged, runs := 0, 0
	for tick := first; tick < first+ticks; tick++ {
		s := seen[tick]
		runs += s.runs
		// A run that was late rests late, and may leave the next tick out.
		if late := s.inTime < 2 || tick > first && seen[tick-1].inTime < 2; late {
			t.Logf("tick %d: a process was late, then or at the tick before; the job ran %d times", tick-first, s.runs)
			continue
		}
		judged++
		require.Equal(t, 1, s.runs, "runs of tick %d", tick-first)
	}
	t.Logf("%d of %d ticks judged", judged, ticks)
	require.NotZero(t, runs)
}

// readTicks adds what a process says of its ticks, until it is over.
func (w *worker) readTicks(t *testing.T, seen map[int64]cronTick) {
	t.Helper()
	for line := range w.lines {
		require.False(t, strings.HasPrefix(line, "failed"), line)
		if line == "over" {
			return
		}
		var tick int64
		var ran bool
		var late time.Duration
		_, err := fmt.Sscan(line, &tick, &ran, (*int64)(&late))
		require.NoError(t, err, line)
		s := seen[tick]
		if late <= cronLate {
			s.inTime++
		}
		if ran {
			s.runs++
		}
		seen[tick] = s
	}
	require.Fail(t, "a process ended before its last tick")
}
