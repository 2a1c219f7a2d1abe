// Package printable makes text of servers and other clients safe to print, since escape sequences
// control a terminal and line breaks forge lines. It also writes durations. It has no state.
package printable

import (
	"fmt"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"
)

// Quote returns a name or another value as it is if it is printable, else quoted as a Go string;
// also if it begins with a quotation mark, so that foreign text cannot pose as quoted.
func Quote(text string) string {
	if isPrintable(text) && !strings.HasPrefix(text, `"`) {
		return text
	}
	return strconv.Quote(text)
}

// maxCut is how many bytes of a name or a value a message has at most.
const maxCut = 200

// Cut returns a name or another value for a message: its beginning, and its length, if it is long.
func Cut(text string) string {
	if len(text) <= maxCut {
		return text
	}
	return fmt.Sprintf("%s… (%d bytes)", text[:maxCut], len(text))
}

// Age writes how long something has lasted, or what a live face counts down: in whole seconds, for
// narrow columns, "12s", "41m7s", "3h5m", "2d4h".
func Age(d time.Duration) string {
	switch hours := d / time.Hour; {
	case hours < 1:
		return d.Truncate(time.Second).String()
	case hours < 24:
		return fmt.Sprintf("%dh%dm", hours, d%time.Hour/time.Minute)
	default:
		return fmt.Sprintf("%dd%dh", hours/24, hours%24)
	}
}

// Duration writes a time that is left or was measured, such as a round trip, to three digits:
// "456µs", "9.88s"; from a minute on as Age does.
func Duration(d time.Duration) string {
	if d.Abs() >= time.Minute {
		return Age(d)
	}
	unit := time.Nanosecond
	for unit < d.Abs()/1000 {
		unit *= 10
	}
	return d.Round(unit).String()
}

// Line returns a message with each character that is not printable replaced by its
// escape sequence in Go. A message that is printable stays as it is.
func Line(text string) string {
	if isPrintable(text) {
		return text
	}
	var line strings.Builder
	for text != "" {
		_, size := utf8.DecodeRuneInString(text)
		part := text[:size]
		if text = text[size:]; !isPrintable(part) {
			part = strings.Trim(strconv.Quote(part), `"`)
		}
		line.WriteString(part)
	}
	return line.String()
}

func isPrintable(text string) bool {
	hidden := func(r rune) bool { return !strconv.IsPrint(r) }
	return utf8.ValidString(text) && !strings.ContainsFunc(text, hidden)
}
