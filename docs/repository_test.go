package docs_test

import (
	"cmp"
	"go/ast"
	"go/parser"
	"go/token"
	"path"
	"regexp"
	"strconv"
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

// packageRow is a row of the table of packages in docs/architecture.md.
var packageRow = regexp.MustCompile("(?m)^\\| `(internal/[a-z/]+)` \\| [^|]+ \\|(.*)\\|$")

func TestPackagesImportOnlyWhatStandsBelow(t *testing.T) {
	const module = "github.com/redlock-go/redlock/"
	allowed := make(map[string]string)
	for _, row := range packageRow.FindAllStringSubmatch(read(t, "docs/architecture.md"), -1) {
		allowed[row[1]] = row[2]
	}
	require.NotEmpty(t, allowed)
	for _, file := range files(t) {
		dir := path.Dir(file)
		if !strings.HasPrefix(dir, "internal/") || !strings.HasSuffix(file, ".go") || strings.HasSuffix(file, "_test.go") {
			continue
		}
		row, listed := allowed[dir]
		assert.True(t, listed, "docs/architecture.md has no row for %s", dir)
		tree, err := parser.ParseFile(token.NewFileSet(), file, read(t, file), parser.ImportsOnly)
		require.NoError(t, err)
		for _, spec := range tree.Imports {
			imported, _ := strconv.Unquote(spec.Path.Value)
			if below, ours := strings.CutPrefix(imported, module); ours {
				assert.Contains(t, row, "`"+below+"`", "%s imports %s, which docs/architecture.md does not allow", file, below)
			}
		}
	}
	for dir := range allowed {
		assert.True(t, isPackage(t, dir), "docs/architecture.md names %s: there is no such package", dir)
	}
}

func isPackage(t *testing.T, dir string) bool {
	for _, file := range files(t) {
		if path.Dir(file) == dir && strings.HasSuffix(file, ".go") {
			return true
		}
	}
	return false
}

// realTime matches the tests that run in real time against servers or embedded nodes. Examples are programs for readers.
var realTime = regexp.MustCompile(`^(adapters|cmd|deploy|docs|examples|integration|redlockotel|redlockweb)/.*_test\.go$`)

// A busy machine fails tests whose clients have the default node timeout, or ask before the nodes have answered once.
func TestClientsOfTestsAreOpenedByOneHelper(t *testing.T) {
	looked := 0
	for _, file := range files(t) {
		if !realTime.MatchString(file) || strings.HasPrefix(path.Base(file), "example") {
			continue
		}
		looked++
		places := token.NewFileSet()
		tree, err := parser.ParseFile(places, file, read(t, file), parser.SkipObjectResolution)
		require.NoError(t, err)
		ast.Inspect(tree, func(n ast.Node) bool {
			switch n := n.(type) {
			case *ast.FuncDecl:
				return !strings.HasPrefix(n.Name.Name, "Example")
			case *ast.AssignStmt: // a call whose client is thrown away is about its error
				client, named := n.Lhs[0].(*ast.Ident)
				return !named || client.Name != "_"
			case *ast.CallExpr:
				if name := opensClient(n); name != "" {
					assert.Fail(t, "a client of a test is not opened by its helper", "%s: %s: use Open, New, OpenUnready or OpenInProcess "+
						"of internal/test/testclient, or the package's own function that calls one of them", places.Position(n.Pos()), name)
				}
			}
			return true
		})
	}
	require.Greater(t, looked, 100)
}

// opensClient returns the name of a function that opens a client as users do, if the call is one of it.
func opensClient(call *ast.CallExpr) string {
	function, isOf := call.Fun.(*ast.SelectorExpr)
	if !isOf {
		return ""
	}
	of, _ := function.X.(*ast.Ident)
	first := ""
	if len(call.Args) > 0 {
		if argument, named := call.Args[0].(*ast.Ident); named {
			first = argument.Name
		}
	}
	switch name := function.Sel.Name; {
	case of != nil && of.Name == "redlock" && (name == "Open" || name == "New"):
		return "redlock." + name
	case name == "Client" && (first == "t" || first == "tb" || first == "b"): // of redlocktest, or of its nodes
		return "redlocktest's " + name
	}
	return ""
}
