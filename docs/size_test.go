package docs_test

import (
	"go/ast"
	"go/parser"
	"go/token"
	"path"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// The limits of a file and of a function. A larger one has several ideas, and should be split
// by them.
const (
	maxFileLines     = 700
	maxFunctionLines = 60
)

// The limits of the documentation, in words. What is added is paid for: a fact has one home, and
// a page that grows takes its words from one that said the same, or that nobody needs any more.
// The proofs alone are longer than a page, since they are read together.
const (
	maxWords     = 90_000 // of all Markdown
	maxPageWords = 6000
	proofs       = "docs/safety.md"
)

// goFile is a parsed Go file of the repository.
type goFile struct {
	path   string // from the root, with slashes
	length int    // in lines
	tree   *ast.File
	places *token.FileSet
}

// goFiles parses the Go files of all modules, except generated ones.
func goFiles(t *testing.T) (all []goFile) {
	t.Helper()
	for _, name := range files(t) {
		if !strings.HasSuffix(name, ".go") {
			continue
		}
		text := read(t, name)
		f := goFile{path: name, length: strings.Count(text, "\n"), places: token.NewFileSet()}
		var err error
		f.tree, err = parser.ParseFile(f.places, name, text, parser.ParseComments|parser.SkipObjectResolution)
		require.NoError(t, err)
		if !ast.IsGenerated(f.tree) {
			all = append(all, f)
		}
	}
	require.Greater(t, len(all), 50)
	return all
}

// lines returns how many lines a node of the tree takes.
func (f goFile) lines(n ast.Node) int {
	return f.places.Position(n.End()-1).Line - f.places.Position(n.Pos()).Line + 1
}

// functionLines returns how many lines a function is long. In a table test, a Test function
// with its cases in the literal of a slice or a map, the lines of the longest such literal
// count as one: there may be many cases, but the code that uses them must be short.
func (f goFile) functionLines(fn *ast.FuncDecl) int {
	table := 1
	if strings.HasPrefix(fn.Name.Name, "Test") && strings.HasSuffix(f.path, "_test.go") && fn.Recv == nil {
		ast.Inspect(fn, func(n ast.Node) bool {
			if literal, ok := n.(*ast.CompositeLit); ok && isSliceOrMap(literal.Type) {
				table = max(table, f.lines(literal))
			}
			return true
		})
	}
	return f.lines(fn) - (table - 1)
}

func isSliceOrMap(e ast.Expr) bool {
	switch e.(type) {
	case *ast.ArrayType, *ast.MapType:
		return true
	}
	return false
}

func TestFilesAndFunctionsAreShort(t *testing.T) {
	for _, f := range goFiles(t) {
		assert.LessOrEqual(t, f.length, maxFileLines, "%s has too many lines", f.path)
		for _, d := range f.tree.Decls {
			if fn, ok := d.(*ast.FuncDecl); ok {
				assert.LessOrEqual(t, f.functionLines(fn), maxFunctionLines, "%s: %s has too many lines", f.path, fn.Name.Name)
			}
		}
	}
}

func TestTheDocumentationIsShort(t *testing.T) {
	all, _ := pages(t)
	total := 0
	for _, p := range all {
		if dir, _, _ := strings.Cut(p.path, "/"); dir == "dist" || strings.Contains(p.path, "/out/") {
			continue // make release and make bench write reports there
		}
		words := len(strings.Fields(p.text))
		total += words
		if p.path != proofs {
			assert.LessOrEqual(t, words, maxPageWords, "%s has too many words", p.path)
		}
	}
	assert.Greater(t, total, maxWords/2, "this counts nothing")
	assert.LessOrEqual(t, total, maxWords, "shorten other pages by what is added here")
}

// The sizes of the whole. Each bound is some three in a hundred above what was reached: what is added is paid for by
// something that goes.
func TestTheCodeIsSmall(t *testing.T) {
	sizes := map[string]int{}
	for _, f := range goFiles(t) {
		if strings.HasSuffix(f.path, "_test.go") {
			sizes["tests"] += f.length
			continue
		}
		sizes["code"] += f.length
		dir := path.Dir(f.path)
		switch {
		case dir != "." && !strings.HasPrefix(dir, "internal/"):
		case strings.HasPrefix(dir, "internal/test/"), dir == "internal/overview":
		default:
			sizes["core"] += f.length
		}
		switch dir {
		case "internal/lock":
			sizes["files of lock"]++
		case "internal/lease", "internal/waitqueue":
			sizes[path.Base(dir)] += f.length
		}
	}
	for _, name := range files(t) {
		if strings.HasPrefix(name, "internal/protocol/") && strings.HasSuffix(name, ".lua") {
			for line := range strings.Lines(read(t, name)) {
				if line = strings.TrimSpace(line); line != "" && !strings.HasPrefix(line, "--") {
					sizes["code of the scripts"]++
				}
			}
		}
	}
	for what, most := range map[string]int{
		"core": 22_080, "code": 53_940, "tests": 76_780, "code of the scripts": 1_675, "lease": 1_862, "waitqueue": 1_310,
		"files of lock": 16,
	} {
		t.Logf("%s: %d, at most %d", what, sizes[what], most)
		assert.Greater(t, sizes[what], most*9/10, "%s: lower the bound", what)
		assert.LessOrEqual(t, sizes[what], most, "%s: it has grown; take something away", what)
	}
}
