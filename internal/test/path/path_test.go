package main

import (
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// bounds are how many functions each call may run: 5 % more than it ran when the bound was set. What has no bound grows.
var bounds = map[string]int{
	"a free Lock":         142,
	"Unlock":              96,
	"a refused TryLock":   163,
	"a hand-off":          205,
	"a scheduled renewal": 100,
}

func TestCallsRunFewFunctions(t *testing.T) {
	program := filepath.Join(t.TempDir(), "path")
	build := exec.Command("go", "build", "-cover", "-covermode=atomic", "-coverpkg=github.com/redlock-go/redlock/...", "-o", program, ".")
	out, err := build.CombinedOutput()
	require.NoError(t, err, "%s", out)
	counts := exec.Command(program, t.TempDir())
	counts.Env = append(counts.Environ(), "GOCOVERDIR="+t.TempDir(), "PATH_PRINTS=")
	out, err = counts.CombinedOutput()
	require.NoError(t, err, "%s", out)
	t.Logf("functions:\n%s", out)
	counted := 0
	for line := range strings.Lines(string(out)) {
		number, call, _ := strings.Cut(strings.TrimSpace(line), " ")
		n, err := strconv.Atoi(number)
		require.NoError(t, err, line)
		assert.LessOrEqual(t, n, bounds[call], "%s: what is added is paid for", call)
		assert.Greater(t, n, bounds[call]*8/10, "%s: lower its bound", call)
		counted++
	}
	require.Equal(t, len(bounds), counted)
}
