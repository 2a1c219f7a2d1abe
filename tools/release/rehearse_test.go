package main

import (
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// rehearsal is all of a rehearsal but the build without caches, which compiles Go's own library.
func rehearsal(t *testing.T, repo repository) (said string, err error) {
	t.Helper()
	s, err := newStage(t.Context(), repo, "HEAD", "", io.Discard)
	require.NoError(t, err)
	t.Cleanup(s.discard)
	require.NoError(t, s.setUp(t.Context()))
	var out strings.Builder
	if err := runSteps(t.Context(), &out, []step{{"check", s.check}, {"make", s.make}, {"serve", s.serve}}); err != nil {
		return out.String(), err
	}
	uses := s.uses(host)
	err = runSteps(t.Context(), &out, uses[:len(uses)-1])
	return out.String(), err
}

func TestARehearsalUsesEachModuleByItsVersion(t *testing.T) {
	repo := newSmall(t, changelogFile, "# Changelog\n\n## [Unreleased]\n\n- News.\n")
	before := repo.state(t)
	said, err := rehearsal(t, repo)
	require.NoError(t, err, said)
	for _, step := range []string{
		"go get example.com/lock@v0.1.0\n", "go get example.com/lock/adapters/redlockone@v0.1.0\n",
		"go get example.com/lock/redlockotel@v0.1.0\n", "go install example.com/lock/cmd/redlock@latest\n", "make demo\n",
	} {
		assert.Contains(t, said, step)
	}
	assert.Equal(t, before, repo.state(t), "the repository is as it was")
}

func TestARehearsalFindsWhatUsersWouldMeet(t *testing.T) {
	for name, c := range map[string]struct {
		changes []string
		says    string
	}{
		"a package of a module that is not published": {[]string{"adapters/redlockone/more.go", "package redlockone\n\nimport _ \"example.com/lock/integration\"\n"},
			"go get example.com/lock/adapters/redlockone@v0.1.0: "},
		"a tool that hides its version": {[]string{"cmd/redlock/main.go", "package main\n\nimport _ \"example.com/lock\"\n\nfunc main() { println() }\n"},
			`redlock --version says "": it should begin with redlock v0.1.0`},
		"a demo that fails": {[]string{"Makefile", "demo:\n\t@false\n"}, "make demo: "},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			_, err := rehearsal(t, newSmall(t, c.changes...))
			assert.ErrorContains(t, err, c.says)
		})
	}
}

func TestDifferentBuildsAreFound(t *testing.T) {
	a, b := filepath.Join(t.TempDir(), "tool"), filepath.Join(t.TempDir(), "tool")
	require.NoError(t, os.WriteFile(a, []byte("one"), 0o600))
	require.NoError(t, os.WriteFile(b, []byte("one"), 0o600))
	require.NoError(t, sameBytes(a, b))
	require.NoError(t, os.WriteFile(b, []byte("two"), 0o600))
	require.ErrorContains(t, sameBytes(a, b), "two builds of tool differ")
	require.Error(t, sameBytes(a, b+"none"))
}

func TestTheNextVersion(t *testing.T) {
	const first = "## [Unreleased]\n\n## [0.2.0] - 2026-12-01\n\n## [0.1.0] - 2026-11-01\n"
	for _, c := range []struct{ changelog, previous, next string }{
		{"", "", "v0.1.0"},
		{"## [Unreleased]\n", "v0.1.3", "v0.2.0"},
		{first, "v0.1.0", "v0.2.0"},
		{first, "v0.2.0", "v0.3.0"},
		{first, "v0.10.0", "v0.11.0"},
		{first, "v1.9.9", "v1.10.0"},
	} {
		assert.Equal(t, c.next, nextVersion(c.changelog, c.previous), "%q after %s", c.changelog, c.previous)
	}
}

func TestSumsStandInOrder(t *testing.T) {
	const before = "example.com/a v1.0.0 h1:a=\nexample.com/lock v0.1.0 h1:old=\nexample.com/lock/x v1.0.0 h1:x=\nexample.com/z v1.0.0 h1:z=\n"
	after := withSums(before, "example.com/lock", []string{"example.com/lock v0.2.0 h1:new=", "example.com/lock v0.2.0/go.mod h1:mod="})
	assert.Equal(t, "example.com/a v1.0.0 h1:a=\nexample.com/lock v0.2.0 h1:new=\nexample.com/lock v0.2.0/go.mod h1:mod=\n"+
		"example.com/lock/x v1.0.0 h1:x=\nexample.com/z v1.0.0 h1:z=\n", after)
}
