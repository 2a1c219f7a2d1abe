package printable

import (
	"fmt"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"
)

// Quote returns a name, label or other value as it is if all of it is printable, and
// quoted as a Go string if not. Text that begins with a quotation mark is quoted too, so
// that foreign text cannot pose as quoted.
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

// Age returns for how long something has lasted, rounded down: "12s", "41m", "3h5m", "2d4h".
func Age(d time.Duration) string {
	const day = 24 * time.Hour
	switch {
	case d < time.Minute:
		return fmt.Sprintf("%ds", d/time.Second)
	case d < time.Hour:
		return fmt.Sprintf("%dm", d/time.Minute)
	case d < day:
		return fmt.Sprintf("%dh%dm", d/time.Hour, d%time.Hour/time.Minute)
	}
	return fmt.Sprintf("%dd%dh", d/day, d%day/time.Hour)
}

// Line returns a message with each character that is not printable replaced by its
// escape sequence in Go. A message that is printable stays as it is.
func Line(text string) string {
	if isPrintable(text) {
		return text
	}
	var line strings.Builder
	for len(text) > 0 {
		r, size := utf8.DecodeRuneInString(text)
		if isPrintable(text[:size]) {
			line.WriteRune(r)
		} else {
			escape := strconv.Quote(text[:size])
			line.WriteString(escape[1 : len(escape)-1])
		}
		text = text[size:]
	}
	return line.String()
}

func isPrintable(text string) bool {
	for _, r := range text {
		if !strconv.IsPrint(r) {
			return false
		}
	}
	return utf8.ValidString(text)
}
