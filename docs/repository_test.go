package docs_test

import (
	"cmp"
	"path"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// What GitHub does for the repository is read by actionlint; these tests compare it with the tree.

func TestDependabotLooksAfterEachModule(t *testing.T) {
	var modules []string
	for _, file := range files(t) {
		if path.Base(file) == "go.mod" {
			modules = append(modules, path.Join("/", path.Dir(file)))
		}
	}
	var listed []string
	for _, m := range regexp.MustCompile(`(?m)^ +- (/\S*)$`).FindAllStringSubmatch(read(t, ".github/dependabot.yml"), -1) {
		listed = append(listed, m[1])
	}
	require.ElementsMatch(t, modules, listed)
}

// A module whose tests no command runs is tested by nobody.
func TestMakeKnowsEachModule(t *testing.T) {
	makefile := read(t, "Makefile")
	for _, file := range files(t) {
		if path.Base(file) == "go.mod" && file != "go.mod" {
			assert.Regexp(t, `(?m)[ (]`+regexp.QuoteMeta(path.Dir(file))+`( |$)`, makefile, file)
		}
	}
}

// A workflow runs targets of the Makefile and the script that decides about a change, not steps of its own.
func TestWorkflowsRunTargetsThatExist(t *testing.T) {
	makefile, runs := read(t, "Makefile"), 0
	for _, file := range files(t) {
		if !strings.HasPrefix(file, ".github/workflows/") {
			continue
		}
		text := read(t, file)
		for _, m := range regexp.MustCompile(`run: make (\S+)`).FindAllStringSubmatch(text, -1) {
			runs++
			assert.Regexp(t, `(?m)^`+regexp.QuoteMeta(m[1])+`:`, makefile, "%s: make %s", file, m[1])
		}
		if strings.Contains(text, "pull_request") {
			assert.Contains(t, text, "- run: .ci/run\n", file)
		}
	}
	require.Positive(t, runs)
}

// Whether a change may land depends on the change, and not on seeds that nobody has run: make verify looks for these.
func TestTheGateHasFixedSeeds(t *testing.T) {
	makefile := read(t, "Makefile")
	recipe := func(target string) string {
		m := regexp.MustCompile(`(?m)^` + target + `:.*\n((?:\t.*\n)+)`).FindStringSubmatch(makefile)
		require.NotNil(t, m, target)
		return m[1]
	}
	parts := regexp.MustCompile(`"([^"]*)"`).FindAllStringSubmatch(recipe("test"), -1)
	require.Len(t, parts, 3, "its title and two lanes")
	for _, part := range strings.Fields(parts[1][1] + " " + parts[2][1]) {
		assert.NotRegexp(t, `date|git |SEED|-sim\.time|-sim\.fresh`, recipe(part), part)
	}
	assert.Contains(t, recipe("simulated"), "-sim.runs=300 -sim.seed=1\n")
	assert.Contains(t, recipe("sim-fresh"), "-sim.fresh")
	assert.Contains(t, recipe("sim-fresh"), "date -u")
}

// docs/testing.md lists the parts of each command, and how long those of the gate take.
func TestTheTablesOfPartsListWhatMakeRuns(t *testing.T) {
	parts := make(map[string][]string)
	for _, m := range regexp.MustCompile(`(?m)^\t\$\(PARTS\) "(make \w+)" (.*)$`).FindAllStringSubmatch(read(t, "Makefile"), -1) {
		parts[m[1]] = strings.Fields(strings.ReplaceAll(m[2], `"`, " "))
	}
	page := read(t, "docs/testing.md")
	listed, command := make(map[string][]string), ""
	for _, m := range regexp.MustCompile("(?m)^\\| (?:`(make \\w+)` )?\\| ([\\w, -]+) \\|").FindAllStringSubmatch(page, -1) {
		command = cmp.Or(m[1], command)
		listed[command] = append(listed[command], strings.Split(m[2], ", ")...)
	}
	assert.Len(t, parts, 3, "test, verify and soak")
	for command := range parts {
		assert.ElementsMatch(t, parts[command], listed[command], command)
	}

	_, durations, _ := strings.Cut(page, "\n## Duration of each part\n")
	durations, _, _ = strings.Cut(durations, "\n## ")
	timed := []string{}
	for _, m := range regexp.MustCompile("(?m)^\\| (\\S+|`make lint`) \\| \\d+ \\|").FindAllStringSubmatch(durations, -1) {
		timed = append(timed, m[1])
	}
	assert.Equal(t, append([]string{"`make lint`"}, parts["make test"]...), timed)
}
