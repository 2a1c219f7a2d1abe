package docs_test

import (
	"go/ast"
	"go/parser"
	"go/token"
	"path"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

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
