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

// The limits of a file, a function and a type. A larger one has several ideas, and should be
// split by them.
const (
	maxFileLines     = 350
	maxFunctionLines = 60
	maxFields        = 15
	maxMethods       = 20
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

// declaredType is a type of a package: its comment, and its numbers of fields and methods.
type declaredType struct {
	doc     string
	fields  int
	methods int
}

// typesBelow returns the types of the packages below a directory, by directory, package
// and name.
func typesBelow(t *testing.T, dir string) map[string]*declaredType {
	all := make(map[string]*declaredType)
	at := func(f goFile, name string) *declaredType {
		key := path.Dir(f.path) + " " + f.tree.Name.Name + "." + name
		if all[key] == nil {
			all[key] = &declaredType{}
		}
		return all[key]
	}
	for _, f := range goFiles(t) {
		if !strings.HasPrefix(f.path, dir) {
			continue
		}
		for _, d := range f.tree.Decls {
			switch d := d.(type) {
			case *ast.FuncDecl:
				if d.Recv != nil {
					at(f, receiver(d)).methods++
				}
			case *ast.GenDecl:
				for _, spec := range d.Specs {
					if s, ok := spec.(*ast.TypeSpec); ok {
						a := at(f, s.Name.Name)
						a.doc, a.fields = s.Doc.Text()+d.Doc.Text(), countFields(s)
					}
				}
			}
		}
	}
	return all
}

// receiver returns the name of the type that a method is declared on.
func receiver(method *ast.FuncDecl) string {
	e := method.Recv.List[0].Type
	for {
		switch x := e.(type) {
		case *ast.StarExpr:
			e = x.X
		case *ast.IndexExpr:
			e = x.X
		case *ast.IndexListExpr:
			e = x.X
		case *ast.Ident:
			return x.Name
		default:
			panic("unknown receiver")
		}
	}
}

// countFields returns how many fields a struct has; an embedded one counts as one.
func countFields(s *ast.TypeSpec) (n int) {
	structure, ok := s.Type.(*ast.StructType)
	if !ok {
		return 0
	}
	for _, field := range structure.Fields.List {
		n += max(1, len(field.Names))
	}
	return n
}

// A type may be larger if its comment says why it must be.
func TestTypesOfInternalPackagesAreSmall(t *testing.T) {
	all := typesBelow(t, "internal/")
	require.Greater(t, len(all), 50)
	for name, a := range all {
		if a.fields > maxFields {
			assert.Regexp(t, `\bIt\s+has\s+more\s+than\s+15\s+fields`, a.doc, "%s has %d fields", name, a.fields)
		}
		if a.methods > maxMethods {
			assert.Regexp(t, `\bIt\s+has\s+more\s+than\s+20\s+methods`, a.doc, "%s has %d methods", name, a.methods)
		}
	}
}
