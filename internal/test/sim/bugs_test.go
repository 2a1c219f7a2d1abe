package sim

import (
	"cmp"
	"flag"
	"fmt"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/redlock-go/redlock/internal/test/long"
	"github.com/redlock-go/redlock/internal/test/testnet"
)

// plantedBug is a patch in bugs/: what its first lines say, which git apply skips.
type plantedBug struct {
	name       string // of the patch
	seed       string // finds the bug
	generation string // of that run
	verdict    string // what the simulation says then

	pkg, test string // of a bug that a schedule by hand finds, in a test of a package: then there is no seed
}

// plantedSeed is a seed and its generation; without one, the seed is of the first.
var plantedSeed = regexp.MustCompile(`^(\d+)(?:, generation (\d+))?$`)

// readPlantedBug reads the first lines of a patch, which are "key: value".
func readPlantedBug(name, text string) (plantedBug, error) {
	said := map[string]string{"bug": "", "seed": "", "found as": "", "test": ""}
	about, _, _ := strings.Cut(text, "diff --git ")
	for line := range strings.Lines(about) {
		key, value, _ := strings.Cut(strings.TrimSpace(line), ": ")
		if key == "" {
			continue
		}
		if before, known := said[key]; !known || before != "" || value == "" {
			return plantedBug{}, fmt.Errorf("%s.patch: %q is not one of the lines bug, seed, found as, test, each followed by a colon and once", name, line)
		}
		said[key] = value
	}
	pkg, test, directed := strings.Cut(said["test"], " ")
	if directed && said["bug"] != "" && said["seed"] == "" && said["found as"] == "" {
		return plantedBug{name: name, pkg: pkg, test: test}, nil
	}
	delete(said, "test")
	for _, key := range slices.Sorted(maps.Keys(said)) {
		if said[key] == "" {
			return plantedBug{}, fmt.Errorf("%s.patch: there is no line %q ahead of the diff", name, key+": …")
		}
	}
	seed := plantedSeed.FindStringSubmatch(said["seed"])
	if seed == nil {
		return plantedBug{}, fmt.Errorf("%s.patch: the seed is %q; write 7, or 7, generation 2", name, said["seed"])
	}
	verdict, known := simVerdict[said["found as"]]
	if !known {
		return plantedBug{}, fmt.Errorf("%s.patch: %q is no check; these are: %s", name, said["found as"],
			strings.Join(slices.Sorted(maps.Keys(simVerdict)), ", "))
	}
	return plantedBug{name: name, seed: seed[1], generation: cmp.Or(seed[2], "1"), verdict: verdict}, nil
}

// plantedBugs reads all patches of the simulation, and those of tests, by their packages.
func plantedBugs(t *testing.T) (all []plantedBug, ofTests map[string][]plantedBug) {
	ofTests = make(map[string][]plantedBug)
	patches, err := filepath.Glob("bugs/*.patch")
	require.NoError(t, err)
	require.GreaterOrEqual(t, len(patches), 20)
	for _, p := range patches {
		text, err := os.ReadFile(p)
		require.NoError(t, err)
		b, err := readPlantedBug(strings.TrimSuffix(filepath.Base(p), ".patch"), string(text))
		require.NoError(t, err)
		if b.pkg != "" {
			ofTests[b.pkg] = append(ofTests[b.pkg], b)
			continue
		}
		all = append(all, b)
	}
	return all, ofTests
}

func namesOf(bugs []plantedBug) (names []string) {
	for _, b := range bugs {
		names = append(names, b.name)
	}
	return names
}

func TestPlantedBugIsReadFromItsPatch(t *testing.T) {
	const diff = "\ndiff --git a/a.go b/a.go\nindex: 7\n"
	for _, row := range []struct{ text, err string }{
		{"bug: it is: wrong\nseed: 7\nfound as: order\n", ""},
		{"bug: it is wrong\nseed: 7, generation 2\nfound as: order\n", ""},
		{"", `no line "bug: …"`},
		{"It is wrong.\n", `"It is wrong.\n" is not one of the lines`},
		{"bug: it is wrong\nseed: 7\n", `no line "found as: …"`},
		{"bug: it is wrong\nbug: it is worse\nseed: 7\nfound as: order\n", `"bug: it is worse\n" is not`},
		{"bug: it is wrong\nseed: \nfound as: order\n", `"seed: \n" is not`},
		{"bug: it is wrong\nseed: 7\nfind as: order\n", `"find as: order\n" is not`},
		{"bug: it is wrong\nseed: 7, 2\nfound as: order\n", `the seed is "7, 2"`},
		{"bug: it is wrong\nseed: 7\nfound as: chaos\n", `"chaos" is no check; these are: admission,`},
		{"bug: it is wrong\ntest: internal/lock TestX\n", ""},
		{"bug: it is wrong\ntest: internal/lock TestX\nseed: 7\n", `no line "found as: …"`},
		{"test: internal/lock TestX\n", `no line "bug: …"`},
		{"bug: it is wrong\ntest: TestX\n", `no line "found as: …"`},
	} {
		b, err := readPlantedBug("a-bug", row.text+diff)
		if row.err != "" {
			assert.ErrorContains(t, err, row.err, row.text)
			assert.ErrorContains(t, err, "a-bug.patch")
			continue
		}
		assert.NoError(t, err)
		assert.Contains(t, []plantedBug{{name: "a-bug", seed: "7", generation: "1", verdict: "was passed by"},
			{name: "a-bug", seed: "7", generation: "2", verdict: "was passed by"}, {name: "a-bug", pkg: "internal/lock", test: "TestX"}}, b)
	}
	plantedBugs(t)
}

// The simulation can be seen to fail: each bug that is planted into a copy of the
// source is found by the seed that its patch names, which finds nothing in the
// source as it is.
func TestTheSimulationFindsEveryPlantedBug(t *testing.T) {
	if testnet.RaceDetector || !long.Tests() {
		t.Skip("make test runs it, with REDLOCK_LONG=1 and without the race detector")
	}
	bugs, _ := plantedBugs(t)
	binaries := plantBugs(t, ".", namesOf(bugs))
	for _, bug := range bugs {
		t.Run(bug.name, func(t *testing.T) {
			t.Parallel()
			out, err := bug.simulate(binaries[bug.name], bug.seed, 1)
			if *simFind > 0 && !strings.Contains(out, bug.verdict) {
				t.Fatalf("the first seed that finds it: %s", bug.firstFinder(binaries[bug.name]))
			}
			const remedy = "a change of the library can have changed that: -sim.find=2000 -v searches for another seed"
			require.Error(t, err, "seed %s does not find it; %s:\n%s", bug.seed, remedy, out)
			require.Contains(t, out, "seed "+bug.seed+" (", "it failed in another way:\n%s", out)
			require.Contains(t, out, bug.verdict, "seed %s finds it in another way than its patch says; %s:\n%s", bug.seed, remedy, out)
		})
	}
	t.Run("none", func(t *testing.T) {
		t.Parallel()
		ran := make(map[plantedBug]bool)
		for _, bug := range bugs {
			healthy := plantedBug{seed: bug.seed, generation: bug.generation}
			if ran[healthy] {
				continue
			}
			ran[healthy] = true
			out, err := healthy.simulate(os.Args[0], bug.seed, 1)
			require.NoError(t, err, "seed %s: %s", bug.seed, out)
		}
		t.Logf("%d seeds", len(ran))
	})
}

// Schedules that no seed is likely to have are tests, and these can be seen to fail, too.
func TestEachTestFindsThePlantedBugThatNamesIt(t *testing.T) {
	if testnet.RaceDetector || !long.Tests() {
		t.Skip("make test runs it, with REDLOCK_LONG=1 and without the race detector")
	}
	_, all := plantedBugs(t)
	for pkg, bugs := range all {
		binaries := plantBugs(t, inRepository(pkg), namesOf(bugs))
		for _, bug := range bugs {
			t.Run(bug.name, func(t *testing.T) {
				t.Parallel()
				command := exec.Command(binaries[bug.name], "-test.run=^"+bug.test+"$")
				command.Dir = inRepository(pkg)
				command.Env = append(os.Environ(), plantedEnv+"="+bug.name)
				out, err := command.CombinedOutput()
				require.Error(t, err, "%s does not find it", bug.test)
				require.Contains(t, string(out), "--- FAIL: "+bug.test)
			})
		}
	}
}

// simulate runs a binary of plantBugs with the bug, for so many seeds from seed on.
func (bug plantedBug) simulate(binary, seed string, runs int) (string, error) {
	command := exec.Command(binary, "-test.run=^TestSimulation$", fmt.Sprintf("-sim.runs=%d", runs), "-sim.seed="+seed, "-sim.generation="+bug.generation)
	command.Env = append(os.Environ(), plantedEnv+"="+bug.name)
	out, err := command.CombinedOutput()
	return string(out), err
}

var (
	simFind   = flag.Int("sim.find", 0, "up to which seed to search for one that finds a planted bug, if the seed of its patch does not any more")
	simFinder = regexp.MustCompile(`seed (\d+) \([a-z ]+\): (.*)`)
)

// firstFinder searches for the first seed that finds the bug as the patch says. It prints how far it is.
func (bug plantedBug) firstFinder(binary string) string {
	const atOnce = 20
	told := 0
	for from := 1; from <= *simFind; {
		if from >= told+10*atOnce {
			fmt.Printf("%s: no seed below %d finds it\n", bug.name, from)
			told = from
		}
		out, err := bug.simulate(binary, strconv.Itoa(from), atOnce)
		if err == nil {
			from += atOnce
			continue
		}
		next := from + atOnce
		for _, found := range simFinder.FindAllStringSubmatch(out, -1) {
			seed, _ := strconv.Atoi(found[1])
			if strings.Contains(found[2], bug.verdict) {
				fmt.Printf("%s: seed %s finds it\n", bug.name, found[1])
				return found[1]
			}
			next = min(next, seed+1) // found in another way: the seeds behind it were left out
		}
		from = next
	}
	return fmt.Sprintf("none up to %d", *simFind)
}

// simVerdict is what the simulation says, by the word of a patch.
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
	"observer":  "the observer of",
}
