package main

import (
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"

	"github.com/redlock-go/redlock"
	"github.com/redlock-go/redlock/internal/printable"
)

// Exit codes. Those from 64 on are what sysexits.h calls EX_USAGE, EX_NOINPUT, EX_UNAVAILABLE,
// EX_TEMPFAIL, EX_PROTOCOL, EX_NOPERM and EX_CONFIG; 126 and 127 are the shells'.
const (
	codeDanger        = 1
	codeUsage         = 64
	codeFree          = 66
	codeNoQuorum      = 69
	codeHeld          = 75
	codeLost          = 76
	codeGoesOn        = 77
	codeConfig        = 78
	codeNotExecutable = 126
	codeNotFound      = 127
	codeSignal        = 128 // plus the signal's number
)

// exitTable describes them, for --help and the man page.
var exitTable = []struct{ code, meaning string }{
	{"0", "success; of run and resume: the command's own success"},
	{"1 to 255", "of run and resume: the command's own exit code, unless one of those below"},
	{"1", "doctor found a danger; or redlock itself failed, or its output could not be written"},
	{"64", "usage: the command line is wrong, or redlock run was started under a run that already holds this lock " +
		"(REDLOCK_OUTER)"},
	{"66", "free: nobody holds the lock, or the permits, that unlock --force was to break; nothing was changed"},
	{"69", "no quorum: too few nodes answer or may vote; the command was not run, or its lock was not transferred"},
	{"75", "held: somebody else holds the lock (--no-wait, --wait); the command was not run"},
	{"76", "lost: the lock was lost, or could no longer be kept, while the command ran: it was stopped, or had ended " +
		"before redlock noticed; this replaces the command's own code. Of resume, also: it came too late, and the " +
		"command was not run"},
	{"77", "goes on: as 76, but processes of the command are still there and work WITHOUT the lock: redlock may not " +
		"signal them, or they wait for a disk"},
	{"78", "configuration: no nodes, a bad URL, settings that do not fit together, a text for resume that is " +
		"missing, damaged, of other nodes or another prefix, or open to other users"},
	{"126", "the command cannot be executed"},
	{"127", "the command was not found"},
	{"128+n", "the command, or redlock while it waited, was ended by signal n"},
}

// exit is an error with its exit code. If why is nil, nothing is printed.
type exit struct {
	code int
	why  error
	hint string    // a line of its own, after the error
	by   os.Signal // by which redlock ends itself, or nil
}

func (e *exit) Error() string { return message(e.why) }

func (e *exit) Unwrap() error { return e.why }

func usage(format string, args ...any) error {
	return &exit{code: codeUsage, why: fmt.Errorf(format, args...)}
}

// checkNames returns why names on the command line cannot be those of locks.
func checkNames(names []string) error {
	for i, name := range names {
		switch {
		case name == "":
			return usage("a lock's name is empty")
		case slices.Contains(names[:i], name):
			return usage("the name %q is given twice", name)
		}
	}
	return nil
}

// coded gives an error of the library its exit code.
func coded(err error) error {
	var known *exit
	switch {
	case err == nil || errors.As(err, &known):
		return err
	case errors.Is(err, redlock.ErrConfig):
		return &exit{code: codeConfig, why: err}
	case errors.Is(err, redlock.ErrLost):
		return &exit{code: codeLost, why: err}
	case errors.Is(err, redlock.ErrHeld):
		return &exit{code: codeHeld, why: err}
	case errors.Is(err, redlock.ErrNoQuorum):
		return &exit{code: codeNoQuorum, why: err}
	}
	return &exit{code: codeDanger, why: err}
}

// message returns an error as one printable line, after the tool's name: errors repeat text
// of servers and other clients.
func message(err error) string {
	if err == nil {
		return ""
	}
	return "redlock: " + printable.Line(withoutName(err))
}

// withoutName returns the text of an error without the library's name in front.
func withoutName(err error) string { return strings.TrimPrefix(err.Error(), "redlock: ") }
