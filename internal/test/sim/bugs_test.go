package sim

import (
	"cmp"
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

	"github.com/redlock-go/redlock/internal/test/long"
	"github.com/redlock-go/redlock/internal/test/testnet"
)

// plantedBug is a row of the table in docs/testing.md: a patch in internal/test/sim/bugs, the seed and
// the generation that find it, and the check that does.
var plantedBug = regexp.MustCompile("(?m)^\\| `([a-z-]+)` \\| .* \\| (\\d+)(?:, generation (\\d+))? \\| ([a-z ]+) \\|$")

// plantedRow is what such a row says.
type plantedRow struct {
	bug, seed, generation, verdict string
}

// plantedRows returns the rows of a text.
func plantedRows(t *testing.T, text string) (rows []plantedRow) {
	for _, m := range plantedBug.FindAllStringSubmatch(text, -1) {
		verdict, known := simVerdict[m[4]]
		require.True(t, known, "the row of %s says %q, which is no check; simVerdict has the words", m[1], m[4])
		rows = append(rows, plantedRow{m[1], m[2], cmp.Or(m[3], "1"), verdict})
	}
	return rows
}

// The simulation can be seen to fail: each bug that is planted into a copy of the
// source is found by the seed that docs/testing.md names, which finds nothing in
// the source as it is.
func TestTheSimulationFindsEveryPlantedBug(t *testing.T) {
	if testnet.RaceDetector || !long.Tests() {
		t.Skip("make verify runs it, without the race detector")
	}
	text, err := os.ReadFile(inRepository("docs/testing.md"))
	require.NoError(t, err)
	rows := plantedRows(t, string(text))
	listed := make(map[string]bool)
	for _, row := range rows {
		listed[row.bug] = true
	}
	patches, err := filepath.Glob("bugs/*.patch")
	require.NoError(t, err)
	require.GreaterOrEqual(t, len(patches), 20)
	for _, p := range patches {
		assert.True(t, listed[strings.TrimSuffix(filepath.Base(p), ".patch")], "docs/testing.md has no row for %s", p)
	}
	var bugs []string
	for _, row := range rows {
		bugs = append(bugs, row.bug)
	}
	require.Len(t, bugs, len(patches), "docs/testing.md has rows without a patch")
	binaries := plantBugs(t, bugs)
	for _, row := range rows {
		t.Run(row.bug, func(t *testing.T) {
			t.Parallel()
			out, err := row.simulate(binaries[row.bug], row.seed, 1)
			if *simFind > 0 && !strings.Contains(out, row.verdict) {
				t.Fatalf("the first seed that finds it: %s", row.firstFinder(binaries[row.bug]))
			}
			const remedy = "a change of the library can have changed that: -sim.find=2000 -v searches for another seed"
			require.Error(t, err, "seed %s does not find it; %s:\n%s", row.seed, remedy, out)
			require.Contains(t, out, "seed "+row.seed+" (", "it failed in another way:\n%s", out)
			require.Contains(t, out, row.verdict, "seed %s finds it in another way than docs/testing.md says; %s:\n%s", row.seed, remedy, out)
		})
	}
	t.Run("none", func(t *testing.T) {
		t.Parallel()
		for _, row := range rows {
			healthy := plantedRow{generation: row.generation}
			out, err := healthy.simulate(os.Args[0], row.seed, 1)
			require.NoError(t, err, "seed %s: %s", row.seed, out)
		}
	})
}

// simulate runs a binary of plantBugs with the row's bug, for so many seeds from seed on.
func (row plantedRow) simulate(binary, seed string, runs int) (string, error) {
	command := exec.Command(binary, "-test.run=^TestSimulation$", fmt.Sprintf("-sim.runs=%d", runs), "-sim.seed="+seed, "-sim.generation="+row.generation)
	command.Env = append(os.Environ(), plantedEnv+"="+row.bug)
	out, err := command.CombinedOutput()
	return string(out), err
}

var (
	simFind   = flag.Int("sim.find", 0, "up to which seed to search for one that finds a planted bug, if the seed in docs/testing.md does not any more")
	simFinder = regexp.MustCompile(`seed (\d+) \([a-z ]+\): (.*)`)
)

// firstFinder searches for the first seed that finds the bug as the row says. It prints how far it is.
func (row plantedRow) firstFinder(binary string) string {
	const atOnce = 20
	told := 0
	for from := 1; from <= *simFind; {
		if from >= told+10*atOnce {
			fmt.Printf("%s: no seed below %d finds it\n", row.bug, from)
			told = from
		}
		out, err := row.simulate(binary, strconv.Itoa(from), atOnce)
		if err == nil {
			from += atOnce
			continue
		}
		next := from + atOnce
		for _, found := range simFinder.FindAllStringSubmatch(out, -1) {
			seed, _ := strconv.Atoi(found[1])
			if strings.Contains(found[2], row.verdict) {
				fmt.Printf("%s: seed %s finds it\n", row.bug, found[1])
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
	"transfer":  "the transfer of",
	"rest":      "the minimum hold of",
	"delay":     "the lock delay of",
	"burst":     "the burst of",
	"owners":    "gave the key of",
	"memory":    "that was given back",
}
