package docs_test

import (
	"go/ast"
	"testing"

	"github.com/stretchr/testify/assert"
)

// maxAPINames is how many names the package may export: types, functions, constants and variables, without
// methods and fields. A reader of its documentation must find the few that everybody needs.
const maxAPINames = 66

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
