package schedulers

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"strings"
	"time"
)

// clock is that of one process: the machine's, but behind, and counted in ticks.
type clock struct {
	period time.Duration // between ticks
	behind time.Duration
}

// tick returns the last tick at an instant.
func (c clock) tick(now time.Time) int64 { return now.Add(-c.behind).UnixNano() / int64(c.period) }

// at returns the instant at which a tick is due by this clock.
func (c clock) at(tick int64) time.Time { return time.Unix(0, tick*int64(c.period)).Add(c.behind) }

// what is what a process records.
type what string

const (
	granted what = "granted" // it got the lock of the tick
	ran     what = "ran"     // it runs the tick
	ended   what = "ended"   // it has run the tick, and gives the lock back
	refused what = "refused" // another process has the lock, or leads
	late    what = "late"    // the process is too late or too early for a tick
	failed  what = "failed"  // too few servers answered
	elected what = "elected" // it leads; without a tick
	deposed what = "deposed" // it does not lead any more; without a tick
)

// event is one line of the history.
type event struct {
	at      time.Time
	slot    int // of the process: each is restarted when it was killed
	process int // the process's id
	what    what
	tick    int64
}

// history is a file to which all processes append a line for each event. A line that was written stays, however the
// process ends.
type history struct {
	file *os.File
	slot int
}

func openHistory(path string, slot int) (*history, error) {
	file, err := os.OpenFile(path, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	return &history{file, slot}, err
}

// add appends an event, in one write. A process that cannot record what it does must not go on.
func (h *history) add(w what, tick int64) {
	_, err := fmt.Fprintf(h.file, "%d %d %d %s %d\n", time.Now().UnixNano(), h.slot, os.Getpid(), w, tick)
	if err != nil {
		panic(err)
	}
}

// readHistory returns the events so far. A last line without an end is still being written.
func readHistory(path string) (events []event, err error) {
	text, err := os.ReadFile(path)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, err
	}
	for line := range strings.Lines(string(text)) {
		if !strings.HasSuffix(line, "\n") {
			break
		}
		var e event
		var at int64
		if _, err := fmt.Sscan(line, &at, &e.slot, &e.process, &e.what, &e.tick); err != nil {
			return nil, fmt.Errorf("%q: %w", line, err)
		}
		e.at = time.Unix(0, at)
		events = append(events, e)
	}
	return events, nil
}
