package docs_test

import (
	"go/ast"
	"go/parser"
	"go/token"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// programs are the how-to pages with a whole program, each with the test file that has the same declarations and runs
// them.
var programs = map[string]string{
	"docs/http-handler.md": "docs/httphandler_test.go",
	"docs/shutdown.md":     "docs/shutdown_test.go",
	"docs/choosing-ttl.md": "docs/choosingttl_test.go",
}

func TestTheProgramsOfThePagesAreThoseThatAreTested(t *testing.T) {
	for path, file := range programs {
		tested, compared := declarationsOf(t, file, read(t, file)), 0
		for _, m := range snippet.FindAllStringSubmatch(read(t, path), -1) {
			if !isProgram(m[2]) {
				continue
			}
			for name, text := range declarationsOf(t, path, m[2]) {
				compared++
				assert.Equal(t, tested[name], text, "%s of %s and of %s", name, file, path)
			}
		}
		assert.Positive(t, compared, "%s has no program", path)
	}
}

// declarationsOf returns the text of each declaration of a Go file, with its comment, but imports and main.
func declarationsOf(t *testing.T, file, source string) map[string]string {
	t.Helper()
	places, all := token.NewFileSet(), map[string]string{}
	tree, err := parser.ParseFile(places, file, source, parser.ParseComments|parser.SkipObjectResolution)
	require.NoError(t, err)
	for _, d := range tree.Decls {
		name, comment := "", (*ast.CommentGroup)(nil)
		switch d := d.(type) {
		case *ast.FuncDecl:
			name, comment = d.Name.Name, d.Doc
		case *ast.GenDecl:
			comment = d.Doc
			if d.Tok != token.IMPORT {
				name = firstName(d)
			}
		}
		if name == "" || name == "main" {
			continue
		}
		begin := d.Pos()
		if comment != nil {
			begin = comment.Pos()
		}
		all[name] = source[places.Position(begin).Offset:places.Position(d.End()).Offset]
	}
	return all
}

// firstName returns the name of a type, or the first one of constants or variables.
func firstName(d *ast.GenDecl) string {
	switch s := d.Specs[0].(type) {
	case *ast.TypeSpec:
		return s.Name.Name
	case *ast.ValueSpec:
		return s.Names[0].Name
	}
	return ""
}
