package docs_test

import (
	"bytes"
	"cmp"
	"go/ast"
	"go/doc"
	"go/format"
	"go/parser"
	"go/token"
	"path"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// shownBy has the exported names without an example of their own, by package, and the example that shows each: an
// example of its own would repeat that one. Behind it stands the word in the example's code, if it is not the name:
// a program reads fields of many types, and never names those types.
var shownBy = map[string]map[string]string{
	".": {
		"BallotEvent":      "ExampleTrace",
		"BallotVote":       "ExampleTrace",
		"CallEvent":        "ExampleTrace",
		"LeaseEvent":       "ExampleTrace",
		"NodeEvent":        "ExampleTrace",
		"WaitEvent":        "ExampleTrace",
		"WithTrace":        "ExampleTrace",
		"LeaseEventKind":   "ExampleTrace Kind",
		"NodeEventKind":    "ExampleTrace Kind",
		"Client.Ping":      "ExampleClient",
		"Lease.Name":       "ExampleLease",
		"Lease.Owner":      "ExampleLease",
		"Lease.Remaining":  "ExampleLease",
		"Lease.Token":      "ExampleLease",
		"Lease.Until":      "ExampleLease",
		"Lease.Valid":      "ExampleLease",
		"Lease.Err":        "ExampleLease_Done",
		"LostReason":       "ExampleLostError Reason",
		"Mutex":            "ExampleClient_Mutex",
		"RWMutex":          "ExampleClient_RWMutex",
		"Semaphore":        "ExampleClient_Semaphore",
		"Outcome":          "ExampleQuorumError",
		"Vote":             "ExampleQuorumError Votes",
		"Pool":             "ExampleNew",
		"Stats":            "ExampleClient_Stats",
		"NodeStats":        "ExampleClient_Stats State",
		"NodeStatus":       "ExampleWaiterStatus Nodes",
		"WithDrift":        "ExampleWithTTL",
		"WithNodeTimeout":  "ExampleWithTTL",
		"WithRenewEvery":   "ExampleWithTTL",
		"WithOwnerLabel":   "ExampleOpen",
		"WithRestartGuard": "ExampleOpen",
	},
	"fence": {"Execer": "ExampleExec Exec"},
}

// notCalled matches the methods that package errors and fmt call, and no program.
var notCalled = regexp.MustCompile(`\.(Error|Is|Unwrap)$`)

func TestEveryExportedNameHasAnExampleThatRuns(t *testing.T) {
	for dir, exceptions := range shownBy {
		names, examples := examplesOf(t, dir)
		assert.Contains(t, examples, "Example", "%s: the package has no example", dir)
		for _, name := range names {
			own := "Example" + strings.ReplaceAll(name, ".", "_")
			other, excepted := exceptions[name]
			switch {
			case notCalled.MatchString(name):
			case !excepted:
				assert.Contains(t, examples, own, "%s: %s has no example", dir, name)
			default:
				assert.NotContains(t, examples, own, "%s: %s has an example: take it out of shownBy", dir, name)
				example, word, _ := strings.Cut(other, " ")
				word = cmp.Or(word, name[strings.Index(name, ".")+1:])
				assert.Regexp(t, `\b`+word+`\b`, examples[example], "%s: %s does not show %s", dir, example, name)
			}
		}
		for name := range exceptions {
			assert.Contains(t, names, name, "%s: shownBy has a name that is gone", dir)
		}
	}
}

// examplesOf returns the exported functions, methods and types of a package, and the code of its examples by
// name, without a suffix for a second example of one name. Each example must have an output: go test runs no other.
func examplesOf(t *testing.T, dir string) (names []string, examples map[string]string) {
	t.Helper()
	places := token.NewFileSet()
	var parsed []*ast.File
	for _, file := range files(t) {
		if path.Dir(file) != dir || !strings.HasSuffix(file, ".go") {
			continue
		}
		tree, err := parser.ParseFile(places, file, read(t, file), parser.ParseComments)
		require.NoError(t, err)
		parsed = append(parsed, tree)
	}
	examples = map[string]string{}
	for _, e := range doc.Examples(parsed...) {
		assert.True(t, e.Output != "" || e.EmptyOutput, "%s: Example%s does not run: it has no output", dir, e.Name)
		var code bytes.Buffer
		require.NoError(t, format.Node(&code, places, e.Code))
		examples["Example"+e.Name] = code.String()
	}
	p, err := doc.NewFromFiles(places, parsed, "github.com/redlock-go/redlock/"+dir)
	require.NoError(t, err)
	names = append(names, functionNames("", p.Funcs)...)
	for _, ty := range p.Types {
		names = append(names, ty.Name)
		names = append(names, functionNames("", ty.Funcs)...)
		names = append(names, functionNames(ty.Name+".", ty.Methods)...)
	}
	require.NotEmpty(t, names)
	return names, examples
}

func functionNames(prefix string, functions []*doc.Func) (names []string) {
	for _, f := range functions {
		names = append(names, prefix+f.Name)
	}
	return names
}
