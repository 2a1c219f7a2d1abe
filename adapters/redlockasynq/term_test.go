package redlockasynq

import (
	"errors"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/hibiken/asynq"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/redlock-go/redlock"
)

func TestALeaderEnqueuesEachTickOnce(t *testing.T) {
	s := newStage(t)
	term := s.lead("@every 2s", "@every 3s")
	s.after(1900*time.Millisecond, term)
	assert.Empty(t, s.enqueued())
	s.after(2*time.Second, term)
	s.after(2*time.Second, term)
	s.after(6*time.Second, term)
	assert.Equal(t, []string{"a2", "b3", "a4", "a6", "b6"}, sorted(s.enqueued()))
	assert.Less(t, term.pause(), 2*time.Second)
}

// sorted orders those of one instant.
func sorted(ids []string) []string {
	for i := 1; i < len(ids); i++ {
		if ids[i][1:] == ids[i-1][1:] && ids[i] < ids[i-1] {
			ids[i], ids[i-1] = ids[i-1], ids[i]
		}
	}
	return ids
}

func TestANewLeaderEnqueuesTheTicksBetweenTheLeaders(t *testing.T) {
	s := newStage(t)
	first := s.lead("@every 2s")
	s.after(4*time.Second, first)
	s.end(first)
	s.clock = noon.Add(9 * time.Second)
	second := s.lead("@every 2s")
	s.after(9*time.Second, second)
	assert.Equal(t, []string{"a2", "a4", "a6", "a8"}, s.enqueued())
}

func TestALeaderThatDiesBeforeItsFirstTickLeavesARecord(t *testing.T) {
	s := newStage(t)
	s.end(s.lead("@every 2s"))
	s.clock = noon.Add(3 * time.Second)
	s.after(3*time.Second, s.lead("@every 2s"))
	assert.Equal(t, []string{"a2"}, s.enqueued())
}

// A leader died between its tasks and the record.
func TestATickIsEnqueuedOnceIfTheRecordIsBehind(t *testing.T) {
	s := newStage(t)
	first := s.lead("@every 2s")
	s.after(4*time.Second, first)
	s.end(first)
	require.NoError(t, first.record.save(t.Context(), noon))
	s.after(6*time.Second, s.lead("@every 2s"))
	assert.Equal(t, []string{"a2", "a4", "a6"}, s.enqueued())
}

func TestNothingIsEnqueuedForTheTimeBeforeTheFirstLeader(t *testing.T) {
	s := newStage(t)
	s.clock = noon.Add(time.Second)
	s.after(2*time.Second, s.lead("@every 2s", "@every 1s"))
	assert.Equal(t, []string{"a2", "b2"}, sorted(s.enqueued()))
}

func TestTicksOlderThanTheWindowAreMissed(t *testing.T) {
	s := newStage(t)
	first := s.lead("@every 30s")
	s.after(30*time.Second, first)
	s.end(first)
	s.clock = noon.Add(5 * time.Minute)
	s.after(5*time.Minute, s.lead("@every 30s"))
	assert.Equal(t, []string{"a30", "a270", "a300"}, s.enqueued())
	assert.Contains(t, s.log.String(), `not all ticks of "periodic" after 2026-03-01T12:00:30Z were enqueued`)
}

func TestALeaderWhoseClockIsBehindRepeatsNoTick(t *testing.T) {
	s := newStage(t)
	first := s.lead("@every 2s")
	s.after(30*time.Second, first) // its clock is ahead by 25 s
	s.end(first)
	ahead := s.enqueued()
	s.clock = noon.Add(5 * time.Second)
	second := s.lead("@every 2s")
	s.after(29*time.Second, second)
	assert.Equal(t, ahead, s.enqueued())
	s.after(32*time.Second, second)
	assert.Equal(t, append(ahead, "a32"), s.enqueued())
}

func TestAClockThatWasFarAheadDoesNotStopTheTicks(t *testing.T) {
	s := newStage(t)
	first := s.lead("@yearly")
	s.after(48*time.Hour, first)
	s.after(time.Second, first) // the clock is set right
	s.after(48*time.Hour, first)
	s.end(first)
	s.clock = noon.Add(time.Second)
	second := s.lead("@every 2s")
	s.after(2*time.Second, second)
	assert.Equal(t, []string{"a2"}, s.enqueued())
	assert.Contains(t, s.log.String(), "a clock was or is wrong")
}

func TestTicksThatFailAreTriedAgain(t *testing.T) {
	s := newStage(t)
	term := s.lead("@every 2s")
	s.queue.SetError("LOADING")
	s.after(2*time.Second, term)
	s.after(4*time.Second, term)
	s.queue.SetError("")
	assert.Empty(t, s.enqueued())
	s.after(5*time.Second, term)
	assert.Equal(t, []string{"a2", "a4"}, s.enqueued())
	assert.Contains(t, s.log.String(), `cannot enqueue task "a@2026-03-01T12:00:02Z"`)
}

func TestATickThatFailsForTheWindowIsMissed(t *testing.T) {
	s := newStage(t)
	term := s.lead("@every 90s")
	s.queue.SetError("LOADING")
	s.after(90*time.Second, term)
	s.queue.SetError("")
	s.after(151*time.Second, term)
	assert.Empty(t, s.enqueued())
	assert.Contains(t, s.log.String(), `task "a@2026-03-01T12:01:30Z" is missed`)
}

// A task that asynq always refuses delays no other task, and the record stays before it: it may be
// asynq's Redis that fails.
func TestATaskThatFailsDelaysNoOther(t *testing.T) {
	s := newStage(t)
	term := s.leadTasks(Tasks{periodic("@every 3s", "bad", asynq.Queue("")), named("@every 2s", "g")})
	s.after(6*time.Second, term)
	assert.Equal(t, []string{"g2", "g4", "g6"}, s.enqueued())
	recorded, err := term.record.load(t.Context())
	require.NoError(t, err)
	assert.Equal(t, noon.Add(3*time.Second-time.Nanosecond), recorded)
}

func TestALeaderThatCannotWriteForLongGivesUp(t *testing.T) {
	s := newStage(t)
	term := s.lead("@every 2s")
	s.queue.SetError("READONLY")
	s.after(2*time.Second, term)
	term.saved = time.Now().Add(-giveUpAfter - time.Second)
	s.clock = noon.Add(3 * time.Second)
	err := term.round(t.Context())
	require.ErrorContains(t, err, "READONLY")
	require.ErrorIs(t, err, redlock.ErrResign, "Lead must not pause: ticks would fall into the pause")
}

// handle records the ticks for which the error handler is called: its calls by task ID.
func (s *stage) handle() map[string]int {
	handled := make(map[string]int)
	//lint:ignore SA1019 programs that have this handler keep it
	s.opts.EnqueueErrorHandler = func(_ *asynq.Task, opts []asynq.Option, err error) {
		assert.Error(s.t, err)
		id, _ := opts[len(opts)-1].Value().(string)
		handled[strings.TrimPrefix(id, "a@2026-03-01T12:")]++
	}
	return handled
}

func TestTheErrorHandlerSeesEachTickWhileTheQueueIsOutFromTheStart(t *testing.T) {
	s := newStage(t)
	first := s.lead("@every 2s")
	s.after(2*time.Second, first)
	s.end(first)

	handled := s.handle()
	s.queue.SetError("LOADING")
	s.clock = noon.Add(6*time.Second + 500*time.Millisecond) // the tick at six fell between the leaders
	second := s.lead("@every 2s")
	s.after(8*time.Second, second)
	s.after(12*time.Second, second)
	assert.ElementsMatch(t, []string{"00:06Z", "00:08Z", "00:10Z", "00:12Z"}, slices.Collect(maps.Keys(handled)))
	recorded := len(handled)

	s.queue.SetError("")
	s.after(13*time.Second, second)
	assert.Equal(t, []string{"a2", "a4", "a6", "a8", "a10", "a12"}, s.enqueued(), "the record says from where on")
	assert.Len(t, handled, recorded)
}

func TestALeaderThatGivesUpReportsTheTicksThatItCouldNotTry(t *testing.T) {
	s := newStage(t)
	handled := s.handle()
	term := s.lead("@every 2s")
	s.queue.SetError("LOADING")
	s.after(2*time.Second, term)
	term.saved = time.Now().Add(-giveUpAfter - time.Second)
	term.opts.PreEnqueueFunc = func(*asynq.Task, []asynq.Option) { s.clock = noon.Add(9 * time.Second) } // the try takes so long
	s.clock = noon.Add(4 * time.Second)
	require.ErrorIs(t, term.round(t.Context()), redlock.ErrResign)
	assert.Equal(t, map[string]int{"00:02Z": 2, "00:04Z": 1, "00:06Z": 1, "00:08Z": 1}, handled)
}

// Without a record there is nothing to go on from but the term's own begin.
func TestTheFirstLeaderEnqueuesTheTicksOfAnOutageOfTheQueue(t *testing.T) {
	s := newStage(t)
	s.queue.SetError("LOADING")
	s.clock = noon.Add(time.Second)
	term := s.lead("@every 2s")
	s.after(3*time.Second, term)
	s.after(5*time.Second, term)
	s.queue.SetError("")
	s.after(7*time.Second, term)
	assert.Equal(t, []string{"a2", "a4", "a6"}, s.enqueued())
}

func TestALeaderThatLostItsLeaseEnqueuesNothing(t *testing.T) {
	s := newStage(t)
	term := s.lead("@every 2s")
	require.Eventually(t, func() bool {
		_, err := s.client.ForceUnlock(t.Context(), lockName)
		return err == nil
	}, patience, poll)
	require.ErrorIs(t, term.lease.Extend(t.Context()), redlock.ErrLost)
	s.clock = noon.Add(2 * time.Second)
	require.ErrorIs(t, term.round(t.Context()), redlock.ErrLost, "though its context is not cancelled")
	assert.Empty(t, s.enqueued())
}

func TestARecordThatIsNoTimeEndsTheTerm(t *testing.T) {
	s := newStage(t)
	term := s.lead()
	require.NoError(t, s.queue.Set("redlockasynq:periodic", "tomorrow"))
	term.unread = errUnread
	require.ErrorContains(t, term.round(t.Context()), `key "redlockasynq:periodic" at asynq's Redis has no time`)
}

func TestEntriesThatChangeHaveTicksFromThenOn(t *testing.T) {
	s := newStage(t)
	term := s.lead("@every 2s")
	s.after(4*time.Second, term)
	term.use(Tasks{named("@every 1s", "b"), named("often", "c"), named("@every 1s", "b")})
	s.after(6*time.Second, term)
	assert.Equal(t, []string{"a2", "a4", "b5", "b6"}, s.enqueued())
	assert.Contains(t, s.log.String(), `periodic task "c" has a bad schedule`)
	assert.Contains(t, s.log.String(), `two periodic tasks are equal, or have the TaskID "b"`)
}

func TestTicksAreInTheProgramsTimeZone(t *testing.T) {
	s := newStage(t)
	s.opts.Location = tokyo
	s.after(time.Minute, s.lead("1 21 * * *", "1 12 * * *"))
	assert.Equal(t, []string{"a60"}, s.enqueued())
}

func TestTasksOfOneInstantAreAllEnqueued(t *testing.T) {
	s := newStage(t)
	term := s.lead(slices.Repeat([]string{"@every 2s"}, maxTogether+3)...)
	s.after(2*time.Second, term)
	assert.Len(t, s.enqueued(), maxTogether+3)
}

func TestHooksSeeWhatIsEnqueued(t *testing.T) {
	s := newStage(t)
	var before, after []string
	var failures []error
	s.opts.PreEnqueueFunc = func(_ *asynq.Task, opts []asynq.Option) {
		before = append(before, opts[len(opts)-1].String())
	}
	handled := 0
	//lint:ignore SA1019 programs that have this handler keep it
	s.opts.EnqueueErrorHandler = func(*asynq.Task, []asynq.Option, error) { handled++ }
	s.opts.PostEnqueueFunc = func(info *asynq.TaskInfo, err error) {
		if err != nil {
			failures = append(failures, err)
			return
		}
		after = append(after, info.ID)
		assert.Equal(t, 2*window, info.Retention)
	}
	term := s.leadTasks(Tasks{named("@every 2s", "u", asynq.Unique(time.Hour))})
	s.after(4*time.Second, term)
	assert.Equal(t, []string{`TaskID("u@2026-03-01T12:00:02Z")`, `TaskID("u@2026-03-01T12:00:04Z")`}, before)
	assert.Equal(t, []string{"u@2026-03-01T12:00:02Z"}, after)
	require.Len(t, failures, 1)
	assert.Equal(t, 1, handled)
	assert.True(t, errors.Is(failures[0], asynq.ErrDuplicateTask), "the program's own Unique skips a tick")
	assert.Empty(t, term.failed)
}
