package redlock

import (
	"bytes"
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// plantedBug is a row of the table in docs/testing.md: a patch in testdata/bugs, and
// the seed that finds it.
var plantedBug = regexp.MustCompile("(?m)^\\| `([a-z-]+)` \\| .* \\| (\\d+) \\| ([a-z ]+) \\|$")

// The simulation can be seen to fail: each bug that is planted into a copy of the
// source is found by the seed that docs/testing.md names, which finds nothing in
// the source as it is.
func TestTheSimulationFindsEveryPlantedBug(t *testing.T) {
	if raceDetector {
		t.Skip("it runs once, without the race detector: make simulated")
	}
	text, err := os.ReadFile("docs/testing.md")
	require.NoError(t, err)
	rows := plantedBug.FindAllStringSubmatch(string(text), -1)
	listed := make(map[string]bool)
	for _, row := range rows {
		listed[row[1]] = true
	}
	patches, err := filepath.Glob("testdata/bugs/*.patch")
	require.NoError(t, err)
	require.GreaterOrEqual(t, len(patches), 20)
	for _, p := range patches {
		assert.True(t, listed[strings.TrimSuffix(filepath.Base(p), ".patch")], "docs/testing.md has no row for %s", p)
	}
	require.Len(t, rows, len(patches), "docs/testing.md has rows without a patch")
	for _, row := range rows {
		bug, seed, how := row[1], row[2], row[3]
		t.Run(bug, func(t *testing.T) {
			t.Parallel()
			out, err := simulateWith(t, bug, seed)
			require.Error(t, err, "seed %s does not find it:\n%s", seed, out)
			require.Contains(t, out, "seed "+seed+" (", "it failed in another way:\n%s", out)
			require.Contains(t, out, simVerdict[how], "seed %s finds it in another way than docs/testing.md says:\n%s", seed, out)
		})
	}
	t.Run("none", func(t *testing.T) {
		t.Parallel()
		for _, row := range rows {
			out, err := exec.Command(os.Args[0], "-test.run=^TestSimulation$", "-sim.runs=1", "-sim.seed="+row[2]).CombinedOutput()
			require.NoError(t, err, "%s", out)
		}
	})
}

// simVerdict is what the simulation says, by the word of the table.
var simVerdict = map[string]string{
	"exclusion": "two holders",
	"tokens":    "after token",
	"orphans":   "still has",
	"progress":  "nobody had",
	"order":     "was passed by",
	"service":   "is not served",
	"loss":      "were deleted",
	"end":       "valid again",
}

// simulateWith runs one seed of the simulation with a patch applied to a copy of the
// source.
func simulateWith(t *testing.T, bug, seed string) (string, error) {
	dir := t.TempDir()
	patch, err := filepath.Abs(filepath.Join("testdata/bugs", bug+".patch"))
	require.NoError(t, err)
	text, err := os.ReadFile(patch)
	require.NoError(t, err)
	overlay := struct{ Replace map[string]string }{make(map[string]string)}
	for _, m := range regexp.MustCompile(`(?m)^\+\+\+ b/(.+)$`).FindAllSubmatch(text, -1) {
		name := string(m[1])
		source, err := os.ReadFile(name)
		require.NoError(t, err)
		path := filepath.Join(dir, name)
		require.NoError(t, os.MkdirAll(filepath.Dir(path), 0o755))
		require.NoError(t, os.WriteFile(path, source, 0o644))
		here, err := filepath.Abs(name)
		require.NoError(t, err)
		overlay.Replace[here] = path
	}
	apply := exec.Command("git", "apply", patch)
	apply.Dir = dir
	apply.Env = append(os.Environ(), "GIT_DIR="+dir) // no repository around it
	out, err := apply.CombinedOutput()
	require.NoError(t, err, "the patch does not apply any more: %s", out)

	var list bytes.Buffer
	require.NoError(t, json.NewEncoder(&list).Encode(overlay))
	file := filepath.Join(dir, "overlay.json")
	require.NoError(t, os.WriteFile(file, list.Bytes(), 0o644))
	out, err = exec.Command("go", "test", "-count=1", "-vet=off", "-ldflags=-s -w", "-overlay", file,
		"-run", "^TestSimulation$", ".", "-sim.runs=1", "-sim.seed="+seed).CombinedOutput()
	return string(out), err
}
