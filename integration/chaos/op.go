// Package chaos makes random plans of faults, and checks whether the operations of clients
// meanwhile can be the history of a lock with leases and tokens.
//
// A Plan has the faults of nodes and clients; the same seed gives the same plan. Clients
// write their operations to a Log, as Ops. Gather reads the logs of all of them, and a
// Checker asks porcupine whether these operations can have happened in some order, each
// within its time, by the model in model.go.
package chaos

import (
	"bytes"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"time"
)

// Kind is the kind of an Op.
type Kind string

// The kinds of operations of clients, and of their results.
const (
	Acquire   Kind = "acquire"   // the lock was granted, with Token
	Refused   Kind = "refused"   // it was not, for the reason in Note
	Held      Kind = "held"      // the lease reported that it is valid, up to Until
	Downgrade Kind = "downgrade" // Downgrade is about to be called

	Read  Kind = "read"  // Value was read, and the lease was valid after it
	Write Kind = "write" // Value was written, and the lease was valid after it
	Late  Kind = "late"  // Value was written, but the lease had ended when that was done

	FencedRead  Kind = "fenced read"  // a read that takes Token past the fence
	FencedWrite Kind = "fenced write" // a write that does
	StaleRead   Kind = "stale read"   // the fence refused the read
	StaleWrite  Kind = "stale write"  // the fence refused the write

	Unlocking Kind = "unlocking" // Unlock is about to be called
	Release   Kind = "release"   // Unlock was called while the lease was held
	Lost      Kind = "lost"      // the lease had ended by itself, or was taken away, at Until

	Expire Kind = "expire" // the lease ends by itself; made by Gather
	Audit  Kind = "audit"  // in the end, Value was there
)

// Op is one line of a history. Call and Return enclose the instant at which it
// happened.
type Op struct {
	Kind   Kind   `json:"op"`
	Name   string `json:"lock"`          // in a log: all locks of a set, as Lease.Name has them
	Set    bool   `json:"set,omitempty"` // the lease holds several locks at once, or was to hold them
	Owner  string `json:"owner,omitempty"`
	Shared bool   `json:"shared,omitempty"` // the lease is a share

	// Permits is, of Acquire, how many permits of a semaphore were asked for. Their lease is one of the
	// locks that the slots are, a set if they are several.
	Permits int `json:"permits,omitempty"`

	Token  int64         `json:"token,omitempty"`
	Value  int64         `json:"value,omitempty"`
	Call   time.Duration `json:"call"`
	Return time.Duration `json:"return"`
	Until  time.Duration `json:"until,omitempty"` // the end of validity, as the lease has it; of Lost: its actual end
	Note   string        `json:"note,omitempty"`
}

// separator is between the names of the locks of a set.
const separator = ", "

// split returns the operation as one of each of its locks.
func (o Op) split() []Op {
	var all []Op
	for name := range strings.SplitSeq(o.Name, separator) {
		part := o
		part.Name = name
		all = append(all, part)
	}
	return all
}

func (o Op) String() string {
	s := fmt.Sprintf("%v … %v  %s %s%s", o.Call, o.Return, o.Name, o.mode(), o.Kind)
	if o.Owner != "" {
		s += "  by " + o.Owner
	}
	if o.Token != 0 {
		s += fmt.Sprintf("  token %d", o.Token)
	}
	switch o.Kind {
	case Read, Write, Late, FencedRead, FencedWrite, Audit:
		s += fmt.Sprintf("  value %d", o.Value)
	case Acquire, Held:
		s += fmt.Sprintf("  valid until %v", o.Until)
	}
	return s + "  " + o.Note
}

// mode names the mode of a share or a set, and is empty for a lease that holds one lock alone.
func (o Op) mode() string {
	switch {
	case o.Shared:
		return "shared "
	case o.Set:
		return "set's "
	}
	return ""
}

// logs is the ending of a Log's file name.
const logs = ".jsonl"

// Log is the history of one client, as a file of JSON lines. Each line is written
// at once, in one piece: the process may be killed at any time.
type Log struct{ file *os.File }

// OpenLog makes the log of a client; no two may have the same name.
func OpenLog(dir, client string) (*Log, error) {
	file, err := os.OpenFile(filepath.Join(dir, client+logs), os.O_CREATE|os.O_EXCL|os.O_APPEND|os.O_WRONLY, 0o600)
	return &Log{file}, err
}

// Add appends an operation.
func (l *Log) Add(op Op) error {
	line, err := json.Marshal(op)
	if err != nil {
		return err
	}
	_, err = l.file.Write(append(line, '\n'))
	return err
}

// Close ends the log.
func (l *Log) Close() error { return l.file.Close() }

// readLogs returns the operations of each client whose log is in dir.
func readLogs(dir string) (map[string][]Op, error) {
	files, err := filepath.Glob(filepath.Join(dir, "*"+logs))
	if err != nil {
		return nil, err
	}
	all := make(map[string][]Op, len(files))
	for _, file := range files {
		text, err := os.ReadFile(file)
		if err != nil {
			return nil, err
		}
		var ops []Op
		for line := range bytes.Lines(text) {
			var op Op
			if !bytes.HasSuffix(line, []byte("\n")) {
				break // the process was killed within the line
			}
			if err := json.Unmarshal(line, &op); err != nil {
				return nil, fmt.Errorf("%s: %w: %s", file, err, line)
			}
			ops = append(ops, op)
		}
		all[strings.TrimSuffix(filepath.Base(file), logs)] = ops
	}
	return all, nil
}
