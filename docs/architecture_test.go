package docs_test

import (
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
