package docs_test

import (
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

var verb = regexp.MustCompile(`%\w`)

// loggers are the functions whose arguments' literals are logged. returners are those whose
// own literals are: shareable returns why a node is unfit, and the node logs its hazards.
var (
	loggers   = map[string]bool{"Log": true, "write": true, "logProblems": true, "Unfit": true}
	returners = map[string]bool{"shareable": true, "hazards": true}
)

// logMessages returns the literals that the library logs.
func logMessages(t *testing.T) (messages []string) {
	for _, file := range files(t) {
		if dir, _, _ := strings.Cut(path.Dir(file), "/"); dir != "." && dir != "internal" || !strings.HasSuffix(file, ".go") || strings.HasSuffix(file, "_test.go") {
			continue
		}
		tree, err := parser.ParseFile(token.NewFileSet(), file, read(t, file), 0)
		require.NoError(t, err)
		ast.Inspect(tree, func(n ast.Node) bool {
			switch n := n.(type) {
			case *ast.FuncDecl:
				if returners[n.Name.Name] {
					messages = append(messages, literals(n)...)
				}
			case *ast.CallExpr:
				if selector, ok := n.Fun.(*ast.SelectorExpr); ok && loggers[selector.Sel.Name] {
					for _, argument := range n.Args {
						messages = append(messages, literals(argument)...)
					}
				}
			}
			return true
		})
	}
	return messages
}

// literals returns the sentences in an expression. Names of attributes are no sentences.
func literals(n ast.Node) (all []string) {
	ast.Inspect(n, func(n ast.Node) bool {
		switch n := n.(type) {
		case *ast.BinaryExpr:
			if text := joined(n); text != "" {
				all = append(all, text)
				return false
			}
		case *ast.BasicLit:
			if text := joined(n); strings.Contains(text, " ") {
				all = append(all, text)
			}
		}
		return true
	})
	return all
}

// joined returns the text of a literal, or of several with + between them.
func joined(e ast.Expr) string {
	switch e := e.(type) {
	case *ast.BasicLit:
		if e.Kind == token.STRING {
			text, _ := strconv.Unquote(e.Value)
			return text
		}
	case *ast.BinaryExpr:
		return joined(e.X) + joined(e.Y)
	}
	return ""
}

func TestTheDocsExplainEveryLineOfTheLog(t *testing.T) {
	_, section, _ := strings.Cut(read(t, "docs/operations.md"), "### What the log says")
	section, _, _ = strings.Cut(section, "\n## ")
	messages := logMessages(t)
	require.Greater(t, len(messages), 12)
	for _, message := range messages {
		for _, part := range verb.Split(message, -1) {
			part = strings.Trim(part, " ();:,")
			assert.True(t, strings.Contains(section, part), "the table in operations.md lacks %q", part)
		}
	}
	logged := strings.Join(messages, "\n")
	rows := regexp.MustCompile(`(?m)^\| (?:INFO|WARN|ERROR) \| (.*?) \|`).FindAllStringSubmatch(section, -1)
	require.NotEmpty(t, rows)
	for _, row := range rows {
		for part := range strings.SplitSeq(strings.TrimPrefix(row[1], "the node does not vote: "), "…") {
			part = strings.Trim(part, " ();:,")
			assert.True(t, strings.Contains(logged, part), "operations.md has %q, which is never logged", part)
		}
	}
}
