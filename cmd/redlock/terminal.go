package main

import (
	"io"
	"os"

	"golang.org/x/term"

	"github.com/redlock-go/redlock/internal/overview"
)

// isTerminal reports whether a writer or reader is a terminal.
func isTerminal(w any) bool {
	switch to := w.(type) {
	case *output:
		w = to.Writer
	case *messages:
		w = to.stderr
	}
	f, ok := w.(*os.File)
	return ok && term.IsTerminal(int(f.Fd()))
}

// paint reports whether text for one writer is coloured.
type paint bool

// newPaint colours on terminals only, unless NO_COLOR or TERM=dumb forbid it.
func newPaint(w io.Writer) paint {
	return paint(isTerminal(w) && os.Getenv("NO_COLOR") == "" && os.Getenv("TERM") != "dumb")
}

func (p paint) in(code, text string) string {
	if !p {
		return text
	}
	return "\x1b[" + code + "m" + text + "\x1b[0m"
}

// at colours text by its level.
func (p paint) at(l overview.Level, text string) string {
	switch l {
	case overview.Error:
		return p.red(text)
	case overview.Warning:
		return p.yellow(text)
	}
	return p.green(text)
}

func (p paint) red(text string) string    { return p.in("31;1", text) }
func (p paint) yellow(text string) string { return p.in("33", text) }
func (p paint) green(text string) string  { return p.in("32", text) }
func (p paint) bold(text string) string   { return p.in("1", text) }
func (p paint) dim(text string) string    { return p.in("2", text) }
