package cluster

import (
	"os"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// Eventually polls until the condition holds, more and more rarely. It reports
// whether it held in time.
func Eventually(d time.Duration, condition func() bool) bool {
	const first, most = 2 * time.Millisecond, 40 * time.Millisecond
	pause := first
	for deadline := time.Now().Add(d); ; pause = min(pause+pause/2, most) {
		switch {
		case condition():
			return true
		case time.Now().After(deadline):
			return false
		}
		time.Sleep(pause)
	}
}

// Stays reports whether the condition holds within d, and still holds a stillness later: then no
// bytes that were on their way have changed it. It may hold, be broken for a moment, and hold again:
// an attempt that reaches a server late sets a key, which the release behind it deletes.
func Stays(d time.Duration, condition func() bool) bool {
	return Eventually(d, func() bool {
		if !condition() {
			return false
		}
		time.Sleep(Stillness)
		return condition()
	})
}

// Stillness is how long tests look for keys that should not appear: enough for bytes that are on
// their way to a server of this machine.
const Stillness = 100 * time.Millisecond

// Permissions returns the lines of rights in docs/reference/rights.md, whose path is given.
func Permissions(t testing.TB, page string) (lines [][]string) {
	t.Helper()
	text, err := os.ReadFile(page)
	require.NoError(t, err)
	_, block, _ := strings.Cut(string(text), "```\n")
	block, _, _ = strings.Cut(block, "```")
	for line := range strings.Lines(block) {
		lines = append(lines, strings.Fields(line))
	}
	require.NotEmpty(t, lines, "%s has no rights", page)
	return lines
}
