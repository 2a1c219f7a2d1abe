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

// Permissions returns the lines of rights under "Permissions" in the README, whose path is given.
func Permissions(t testing.TB, readme string) (lines [][]string) {
	t.Helper()
	text, err := os.ReadFile(readme)
	require.NoError(t, err)
	_, section, _ := strings.Cut(string(text), "### Permissions")
	_, block, _ := strings.Cut(section, "```\n")
	block, _, _ = strings.Cut(block, "```")
	for line := range strings.Lines(block) {
		lines = append(lines, strings.Fields(line))
	}
	require.NotEmpty(t, lines, "%s has no rights", readme)
	return lines
}
