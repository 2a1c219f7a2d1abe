package sim

import (
	"flag"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/redlock-go/redlock/internal/testnet"
)

// plantedBug is a row of the table in docs/testing.md: a patch in internal/sim/bugs, and
// the seed that finds it.
var plantedBug = regexp.MustCompile("(?m)^\\| `([a-z-]+)` \\| .* \\| (\\d+) \\| ([a-z ]+) \\|$")

// The simulation can be seen to fail: each bug that is planted into a copy of the
// source is found by the seed that docs/testing.md names, which finds nothing in
// the source as it is.
func TestTheSimulationFindsEveryPlantedBug(t *testing.T) {
	if testnet.RaceDetector || testing.Short() {
		t.Skip("make verify runs it, without the race detector")
	}
	text, err := os.ReadFile(inRepository("docs/testing.md"))
	require.NoError(t, err)
	rows := plantedBug.FindAllStringSubmatch(string(text), -1)
	listed := make(map[string]bool)
	for _, row := range rows {
		listed[row[1]] = true
	}
	patches, err := filepath.Glob("bugs/*.patch")
	require.NoError(t, err)
	require.GreaterOrEqual(t, len(patches), 20)
	for _, p := range patches {
		assert.True(t, listed[strings.TrimSuffix(filepath.Base(p), ".patch")], "docs/testing.md has no row for %s", p)
	}
	require.Len(t, rows, len(patches), "docs/testing.md has rows without a patch")
	var bugs []string
	for _, row := range rows {
		bugs = append(bugs, row[1])
	}
	binaries := plantBugs(t, bugs)
	for _, row := range rows {
		bug, seed, how := row[1], row[2], row[3]
		t.Run(bug, func(t *testing.T) {
			t.Parallel()
			out, err := simulatePlanted(binaries[bug], bug, seed, 1)
			if *simFind > 0 && !strings.Contains(out, simVerdict[how]) {
				t.Fatalf("the first seed that finds it: %s", firstFinder(binaries[bug], bug, simVerdict[how]))
			}
			require.Error(t, err, "seed %s does not find it:\n%s", seed, out)
			require.Contains(t, out, "seed "+seed+" (", "it failed in another way:\n%s", out)
			require.Contains(t, out, simVerdict[how], "seed %s finds it in another way than docs/testing.md says:\n%s", seed, out)
		})
	}
	t.Run("none", func(t *testing.T) {
		t.Parallel()
		for _, row := range rows {
			out, err := simulatePlanted(os.Args[0], "", row[2], 1)
			require.NoError(t, err, "seed %s: %s", row[2], out)
		}
	})
}

// simulatePlanted runs a binary of plantBugs with a bug, for so many seeds from seed on.
func simulatePlanted(binary, bug, seed string, runs int) (string, error) {
	command := exec.Command(binary, "-test.run=^TestSimulation$", fmt.Sprintf("-sim.runs=%d", runs), "-sim.seed="+seed)
	command.Env = append(os.Environ(), plantedEnv+"="+bug)
	out, err := command.CombinedOutput()
	return string(out), err
}

var (
	simFind   = flag.Int("sim.find", 0, "up to which seed to search for one that finds a planted bug, if the seed in docs/testing.md does not any more")
	simFinder = regexp.MustCompile(`seed (\d+) \([a-z ]+\): (.*)`)
)

// firstFinder searches for the first seed that finds a bug as the table says.
func firstFinder(binary, bug, verdict string) string {
	const atOnce = 20
	for from := 1; from <= *simFind; {
		out, err := simulatePlanted(binary, bug, strconv.Itoa(from), atOnce)
		if err == nil {
			from += atOnce
			continue
		}
		next := from + atOnce
		for _, found := range simFinder.FindAllStringSubmatch(out, -1) {
			seed, _ := strconv.Atoi(found[1])
			if strings.Contains(found[2], verdict) {
				return found[1]
			}
			next = min(next, seed+1) // found in another way: the seeds behind it were left out
		}
		from = next
	}
	return fmt.Sprintf("none up to %d", *simFind)
}

// simVerdict is what the simulation says, by the word of the table.
var simVerdict = map[string]string{
	"exclusion": "two holders",
	"tokens":    "after token",
	"orphans":   "still has",
	"progress":  "nobody had",
	"admission": "could admit it",
	"order":     "was passed by",
	"service":   "is not served",
	"loss":      "were deleted",
	"end":       "valid again",
	"downgrade": "after its downgrade",
	"cause":     "without a cause",
	"handoff":   "the hand-off of",
	"rest":      "the minimum hold of",
	"delay":     "the lock delay of",
}
