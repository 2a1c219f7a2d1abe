package docs_test

import (
	"encoding/json"
	"fmt"
	"go/format"
	"go/parser"
	"go/token"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

var (
	// snippet is a block of Go, after a comment that declares the variables it uses:
	//
	//	<!-- with: ctx context.Context, client *redlock.Client -->
	snippet = regexp.MustCompile("(?s)(?:<!-- with: ([^\n]*) -->\n)?```go\n(.*?)```")

	// others matches code that uses libraries which this module does not have: only its
	// syntax is checked.
	others = regexp.MustCompile(`\b(redsync|redislock|rueidislock|rs)\.`)

	qualifier = regexp.MustCompile(`\b([a-z]\w*)\.[A-Z]`)
)

// imports are the packages that the docs' Go may use.
var imports = map[string]string{
	"context": "context", "errors": "errors", "fmt": "fmt", "http": "net/http", "slog": "log/slog", "sql": "database/sql",
	"rand": "math/rand/v2", "testing": "testing", "time": "time",
	"redlock": "github.com/redlock-go/redlock", "fence": "github.com/redlock-go/redlock/fence",
	"redlocktest": "github.com/redlock-go/redlock/redlocktest", "redis": "github.com/gomodule/redigo/redis",
	"require": "github.com/stretchr/testify/require",
}

func TestTheGoInTheDocsCompiles(t *testing.T) {
	_, guides := pages(t)
	dir := t.TempDir()
	here, err := filepath.Abs("snippets") // the overlay's files seem to be there
	require.NoError(t, err)
	overlay := map[string]string{}
	for _, p := range guides {
		for i, m := range snippet.FindAllStringSubmatch(p.text, -1) {
			name := fmt.Sprintf("%s_%d.go", regexp.MustCompile(`\W`).ReplaceAllString(p.path, "_"), i+1)
			source := wrap(fmt.Sprintf("%s_%d", regexp.MustCompile(`\W`).ReplaceAllString(p.path, "_"), i+1), m[1], m[2])
			_, err := parser.ParseFile(token.NewFileSet(), name, source, 0)
			assert.NoError(t, err, source)
			if others.MatchString(m[2]) || isTestFile(m[2]) {
				continue
			}
			file := filepath.Join(dir, name)
			require.NoError(t, os.WriteFile(file, []byte(source), 0o600))
			if isProgram(m[2]) {
				name = filepath.Join(strings.TrimSuffix(name, ".go"), "main.go") // a package of its own
			}
			overlay[filepath.Join(here, name)] = file
		}
	}
	require.NotEmpty(t, overlay)
	text, err := json.Marshal(map[string]any{"Replace": overlay})
	require.NoError(t, err)
	list := filepath.Join(dir, "overlay.json")
	require.NoError(t, os.WriteFile(list, text, 0o600))
	out, err := exec.CommandContext(t.Context(), "go", "build", "-overlay", list, "./snippets/...").CombinedOutput()
	assert.NoError(t, err, "%s", out)
}

// maxProgramLines is how many lines the README's first program has, without empty ones: the README compares them.
const maxProgramLines = 20

func TestTheReadmesProgramIsShort(t *testing.T) {
	m := snippet.FindStringSubmatch(read(t, "README.md"))
	require.NotNil(t, m)
	program := m[2]
	require.True(t, isProgram(program), "the first Go in the README is a whole program")
	formatted, err := format.Source([]byte(program))
	require.NoError(t, err)
	assert.Equal(t, string(formatted), program, "as gofmt has it")
	lines := linesOfCode(program)
	assert.LessOrEqual(t, lines, maxProgramLines)
	assert.Contains(t, read(t, "README.md"), fmt.Sprintf("**%d lines** here", lines), "the comparison has this number")
}

// The README compares that program with those of other libraries. Their module's own tests compile them.
func TestTheReadmeCountsTheLinesOfOtherLibrariesPrograms(t *testing.T) {
	readme := read(t, "README.md")
	for _, library := range []string{"rueidislock", "redsync", "redislock"} {
		lines := linesOfCode(read(t, "benchmarks/shortest/"+library+"/main.go"))
		assert.Contains(t, readme, fmt.Sprintf(" %d with %s", lines, library))
	}
}

// linesOfCode counts the lines of a program that are neither empty nor a comment.
func linesOfCode(program string) (lines int) {
	for line := range strings.Lines(program) {
		if line = strings.TrimSpace(line); line != "" && !strings.HasPrefix(line, "//") {
			lines++
		}
	}
	return lines
}

// isProgram reports whether Go in a page is a whole file.
func isProgram(code string) bool { return strings.HasPrefix(code, "package main\n") }

// isTestFile reports whether Go in a page is the test of a program on that page. TestTheTutorialDoesWhatItSays runs it.
func isTestFile(code string) bool { return isProgram(code) && !strings.Contains(code, "func main() {") }

// wrap returns a Go file with a function that contains a fragment. A program is a file already.
func wrap(name, with, code string) string {
	if isProgram(code) {
		return code
	}
	var source strings.Builder
	source.WriteString("package snippets\n")
	used := map[string]bool{}
	for _, m := range qualifier.FindAllStringSubmatch(with+"\n"+code, -1) {
		if path := imports[m[1]]; path != "" && !used[path] {
			used[path] = true
			fmt.Fprintf(&source, "import %q\n", path)
		}
	}
	fmt.Fprintf(&source, "func _%s(%s) error {\n%s\nreturn nil\n}\n", name, with, code)
	return source.String()
}
