package docs_test

import (
	"go/ast"
	"go/parser"
	"go/token"
	"os/exec"
	"path"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// The reference is complete: it has a row for each option, each error and each method of the package.

// ofMethods are the types whose methods docs/reference/methods.md lists.
var ofMethods = []string{"Client", "Mutex", "RWMutex", "Semaphore", "Lease"}

func TestTheReferenceListsEachOptionAndError(t *testing.T) {
	options, failures := read(t, "docs/reference/options.md"), read(t, "docs/reference/errors.md")
	checked := 0
	eachDeclaration(t, func(d ast.Decl) {
		for _, name := range exportedNames(d) {
			switch {
			case optional.MatchString(name):
				assert.Regexp(t, "(?m)^\\| `"+name+"\\(", options, "docs/reference/options.md lacks %s", name)
			case sentinel.MatchString(name):
				assert.Regexp(t, "(?m)^\\| `"+name+"` \\|", failures, "docs/reference/errors.md lacks %s", name)
			case strings.HasSuffix(name, "Error"):
				assert.Contains(t, failures, "`*"+name+"`", "docs/reference/errors.md lacks %s", name)
			default:
				continue
			}
			checked++
		}
	})
	assert.Greater(t, checked, 25, "this checks nothing")
}

func TestTheReferenceListsEachMethod(t *testing.T) {
	listed := listedMethods(read(t, "docs/reference/methods.md"))
	var declared []string
	eachDeclaration(t, func(d ast.Decl) {
		fn, ok := d.(*ast.FuncDecl)
		if !ok || fn.Recv == nil || !fn.Name.IsExported() {
			return
		}
		receiver := fn.Recv.List[0].Type
		if pointer, ok := receiver.(*ast.StarExpr); ok {
			receiver = pointer.X
		}
		if name, ok := receiver.(*ast.Ident); ok && slices.Contains(ofMethods, name.Name) {
			declared = append(declared, name.Name+"."+fn.Name.Name)
		}
	})
	require.Greater(t, len(declared), 40, "this finds nothing")
	assert.ElementsMatch(t, declared, listed)
}

var (
	methodRow  = regexp.MustCompile("(?m)^\\| (`(?:" + strings.Join(ofMethods, "|") + ")\\.[^|]+) \\|(.*)\\|$")
	methodName = regexp.MustCompile("`(?:(\\w+)\\.)?(\\w+)(?:\\([^`]*\\))?`")
)

// listedMethods returns the methods in the first cells of the rows. One that has no type there is of the type before it.
func listedMethods(text string) (names []string) {
	for _, row := range methodRow.FindAllStringSubmatch(text, -1) {
		of := ""
		for _, m := range methodName.FindAllStringSubmatch(row[1], -1) {
			if m[1] != "" {
				of = m[1]
			}
			names = append(names, of+"."+m[2])
		}
	}
	return names
}

// eachDeclaration calls f with each declaration of the package, without its tests.
func eachDeclaration(t *testing.T, f func(ast.Decl)) {
	t.Helper()
	for _, file := range files(t) {
		if path.Dir(file) != "." || !strings.HasSuffix(file, ".go") || strings.HasSuffix(file, "_test.go") {
			continue
		}
		tree, err := parser.ParseFile(token.NewFileSet(), file, read(t, file), parser.SkipObjectResolution)
		require.NoError(t, err)
		for _, d := range tree.Decls {
			f(d)
		}
	}
}

var (
	stateSet = regexp.MustCompile(`s\.State(?:, s\.Err)? = "(\w+)"`)
	stateRow = regexp.MustCompile("(?m)^\\| `\"(\\w+)\"` \\|")
)

func TestTheReferenceListsTheStatesOfANode(t *testing.T) {
	list := func(where *regexp.Regexp, file string) (states []string) {
		for _, m := range where.FindAllStringSubmatch(read(t, file), -1) {
			states = append(states, m[1])
		}
		slices.Sort(states)
		return states
	}
	set := list(stateSet, "pool.go")
	assert.Len(t, set, 6, "the code sets them in another way")
	assert.Equal(t, set, list(stateRow, "docs/reference/methods.md"))
}

// maxAPINames is how many names the package may export: types, functions, constants and variables, without
// methods and fields. A reader of its documentation must find the few that everybody needs.
const maxAPINames = 69

func TestThePackageExportsFewNames(t *testing.T) {
	var names []string
	eachDeclaration(t, func(d ast.Decl) { names = append(names, exportedNames(d)...) })
	assert.Greater(t, len(names), maxAPINames/2, "this counts nothing")
	assert.LessOrEqual(t, len(names), maxAPINames, "take names out before you add some: %v", names)
}

// exportedNames returns the exported names that a declaration adds to its package.
func exportedNames(d ast.Decl) (names []string) {
	var all []*ast.Ident
	switch d := d.(type) {
	case *ast.FuncDecl:
		if d.Recv == nil {
			all = append(all, d.Name)
		}
	case *ast.GenDecl:
		for _, spec := range d.Specs {
			switch spec := spec.(type) {
			case *ast.TypeSpec:
				all = append(all, spec.Name)
			case *ast.ValueSpec:
				all = append(all, spec.Names...)
			}
		}
	}
	for _, name := range all {
		if name.IsExported() {
			names = append(names, name.Name)
		}
	}
	return names
}

// maxDocWords is how many words go doc -all prints of the package, declarations included. What argues or
// explains more stands in the pages of docs/.
const maxDocWords = 6410

func TestDocCommentsAreShort(t *testing.T) {
	command := exec.CommandContext(t.Context(), "go", "doc", "-all", ".")
	command.Dir = ".."
	text, err := command.Output()
	require.NoError(t, err)
	words := len(strings.Fields(string(text)))
	assert.Greater(t, words, maxDocWords/2, "this counts nothing")
	assert.LessOrEqual(t, words, maxDocWords, "shorten comments of exported names, or move text to docs/")
}
