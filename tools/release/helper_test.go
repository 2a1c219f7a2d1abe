package main

import (
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// Neither this machine's settings of git nor its module proxy are part of a test.
func TestMain(m *testing.M) {
	for name, value := range map[string]string{
		"GIT_CONFIG_GLOBAL": os.DevNull, "GIT_CONFIG_NOSYSTEM": "1", "GIT_CONFIG_COUNT": "0",
		"GIT_AUTHOR_NAME": "author", "GIT_AUTHOR_EMAIL": "author@localhost",
		"GIT_COMMITTER_NAME": "committer", "GIT_COMMITTER_EMAIL": "committer@localhost",
		"GOPROXY": "off", "GOFLAGS": "", "GOWORK": "off", "GOPRIVATE": "example.com/secret",
	} {
		os.Setenv(name, value)
	}
	os.Exit(m.Run())
}

var host = []target{{runtime.GOOS, runtime.GOARCH}}

// small is a project with the layout of this one: a library, the tool, an adapter, telemetry, and
// a module that is not published.
var small = map[string]string{
	".gitignore":     "/dist/\n",
	"LICENSE":        "Do as you like.\n",
	"Makefile":       "demo:\n\t@echo demo\n",
	"docs/redlock.1": ".TH REDLOCK 1\n",
	"CHANGELOG.md": "# Changelog\n\n## [Unreleased]\n\n## [0.1.0] - 2026-12-01\n\n### Added\n\n- Locks.\n\n" +
		"## [0.0.1] - 2026-11-01\n\n- Nothing.\n",
	"go.mod":           "module example.com/lock\n\ngo 1.25.0\n",
	"lock.go":          "package lock\n\nfunc Lock(name string) {}\n\nfunc Old(name string) {}\n",
	"fence/fence.go":   "package fence\n\nfunc Check() {}\n",
	"internal/x/x.go":  "package x\n\nfunc Inner() {}\n",
	"docs/doc_test.go": "package docs_test\n",
	"cmd/redlock/go.mod": "module example.com/lock/cmd/redlock\n\ngo 1.25.0\n\nreplace example.com/lock => ../..\n\n" +
		"require example.com/lock v0.0.0\n",
	"cmd/redlock/go.sum": "",
	"cmd/redlock/main.go": `package main

import (
	"os"
	"runtime/debug"

	"example.com/lock"
	"example.com/lock/internal/x"
)

func main() {
	lock.Lock("a")
	x.Inner()
	if os.Args[1] == "completion" {
		os.Stdout.WriteString("complete " + os.Args[2] + "\n")
		return
	}
	info, _ := debug.ReadBuildInfo()
	os.Stdout.WriteString("redlock " + info.Main.Version + " " + info.GoVersion + "\n")
}
`,
	"adapters/redlockone/go.mod": "module example.com/lock/adapters/redlockone\n\ngo 1.25.0\n\n" +
		"require example.com/lock v0.0.0\n\nreplace example.com/lock => ../..\n",
	"adapters/redlockone/one.go": "package redlockone\n\nimport \"example.com/lock\"\n\nfunc One() { lock.Lock(\"one\") }\n",
	"redlockotel/go.mod":         "module example.com/lock/redlockotel\n\ngo 1.25.0\n",
	"redlockotel/otel.go":        "package redlockotel\n\nfunc Trace() {}\n",
	"integration/go.mod": "module example.com/lock/integration\n\ngo 1.25.0\n\n" +
		"require (\n\texample.com/lock v0.0.0\n\texample.com/lock/adapters/redlockone v0.0.0-00010101000000-000000000000\n)\n\n" +
		"replace (\n\texample.com/lock => ../\n\texample.com/lock/adapters/redlockone => ../adapters/redlockone\n)\n",
	"integration/i.go": "package integration\n\nimport _ \"example.com/lock/adapters/redlockone\"\n",
}

// smallTags are the tags of a version of small.
func smallTags(version string) []string {
	return []string{version, "adapters/redlockone/" + version, "cmd/redlock/" + version, "redlockotel/" + version}
}

// newSmall makes a repository of small, with changed files; an empty text removes a file.
func newSmall(t *testing.T, changes ...string) repository {
	t.Helper()
	repo := repository{t.TempDir()}
	repo.must(t, "init", "--quiet", "--initial-branch", "main")
	for file, text := range small {
		repo.put(t, file, text)
	}
	repo.change(t, changes...)
	return repo
}

// change writes files, given as a name and a text each, and commits everything.
func (r repository) change(t *testing.T, changes ...string) {
	t.Helper()
	for i := 0; i < len(changes); i += 2 {
		if changes[i+1] == "" {
			require.NoError(t, os.Remove(r.path(changes[i])))
			continue
		}
		r.put(t, changes[i], changes[i+1])
	}
	r.must(t, "add", "--all")
	r.must(t, "commit", "--quiet", "--message", "change")
}

func (r repository) put(t *testing.T, file, text string) {
	t.Helper()
	require.NoError(t, os.MkdirAll(filepath.Dir(r.path(file)), 0o755))
	require.NoError(t, r.write(file, text))
}

// must runs a command of git that must not fail.
func (r repository) must(t *testing.T, args ...string) string {
	t.Helper()
	text, err := r.git(t.Context(), args...)
	require.NoError(t, err)
	return text
}

// at returns the text of a file at a commit.
func (r repository) at(t *testing.T, commit, file string) string {
	t.Helper()
	return r.must(t, "show", commit+":"+file) + "\n"
}

// state is everything that a refused release must leave as it was.
func (r repository) state(t *testing.T) string {
	t.Helper()
	_, err := os.Stat(r.path("dist"))
	require.True(t, os.IsNotExist(err), "there are no files")
	return strings.Join([]string{r.must(t, "for-each-ref"), r.must(t, "status", "--porcelain"), r.must(t, "rev-parse", "HEAD")}, "\n")
}
