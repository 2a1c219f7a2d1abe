package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"time"

	"github.com/redlock-go/redlock/internal/printable"
)

// lastLook is what doctor keeps in the file of --last: the clocks as they were at its last look.
type lastLook struct {
	At      time.Time          `json:"at"`         // by this machine's clock
	Offsets map[string]float64 `json:"offsets_ms"` // by node: its clock, less this machine's
}

// readLastLook reads the file; nil if there is none yet.
func readLastLook(file string) (*lastLook, error) {
	text, err := os.ReadFile(file)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return nil, nil
	case err != nil:
		return nil, fmt.Errorf("--last: %w", err)
	}
	last := &lastLook{}
	if err := json.Unmarshal(text, last); err != nil {
		return nil, fmt.Errorf("--last: %s is no file that doctor has written; remove it, or name another one: %w",
			file, err)
	}
	return last, nil
}

// write replaces the file.
func (l *lastLook) write(file string) error {
	text, err := json.Marshal(l)
	if err == nil {
		err = os.WriteFile(file, append(text, '\n'), 0o644)
	}
	if err != nil {
		return fmt.Errorf("--last: %w", err)
	}
	return nil
}

// look returns the clocks as they are now. Nodes that do not answer keep what is known of them.
func (x *examination) look(last *lastLook, now time.Time) *lastLook {
	l := &lastLook{now, make(map[string]float64)}
	for _, f := range x.Nodes {
		if f.Clock.Known {
			l.Offsets[f.Node] = f.Clock.Offset
		} else if before, known := last.of(f.Node); known {
			l.Offsets[f.Node] = before
		}
	}
	return l
}

// of returns a node's offset. l may be nil.
func (l *lastLook) of(node string) (offset float64, known bool) {
	if l == nil {
		return 0, false
	}
	offset, known = l.Offsets[node]
	return offset, known
}

// judgeSteps reports the clocks that were set since the last look. This machine's is one of the clocks, and gained 0 on
// itself: most of them show which one was set.
func (x *examination) judgeSteps(last *lastLook, now time.Time) {
	gains, all := make(map[string]float64), []float64{0}
	for _, f := range x.Nodes {
		if before, known := last.of(f.Node); known && f.Clock.Known {
			gains[f.Node] = f.Clock.Offset - before
			all = append(all, gains[f.Node])
		}
	}
	if len(gains) == 0 {
		return
	}
	middle := median(all)
	since := "since doctor's last look, " + printable.Age(now.Sub(last.At)) + " ago"
	for _, f := range x.Nodes {
		gain, known := gains[f.Node]
		if by := millisec(gain - middle); known && by.Abs() > x.limits.offset {
			x.add(warning, "clock-stepped", f.Node,
				fmt.Sprintf("its clock was set %s by %v %s", forwardOrBack(by), printable.Duration(by.Abs()), since),
				"set forward, it ended keys and quarantines early: leases were lost as revoked, and two may have "+
					"held a lock; set back, it makes them last longer",
				"let the clock be slewed, never stepped (chrony without makestep, ntpd -x); docs/operations.md, A "+
					"master's clock was stepped")
		}
	}
	if by := millisec(-middle); by.Abs() > x.limits.offset {
		x.add(note, "own-clock-stepped", "",
			fmt.Sprintf("this machine's clock was set %s by %s %s",
				forwardOrBack(by), printable.Duration(by.Abs()), since),
			"none for locks and tokens; times in logs do not match", "let the clock be slewed here too")
	}
}

func forwardOrBack(d time.Duration) string {
	if d > 0 {
		return "forward"
	}
	return "back"
}
