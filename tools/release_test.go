// Package tools_test checks how users get the published modules. tools/release.sh makes their versions.
package tools_test

import (
	"fmt"
	"os"
	"os/exec"
	"path"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"golang.org/x/mod/modfile"
	"golang.org/x/mod/module"
)

const (
	root     = ".."
	rootPath = "github.com/redlock-go/redlock"
)

// isPublished reports whether users get versions of the module in a folder.
func isPublished(dir string) bool {
	return dir == "." || dir == "cmd/redlock" || dir == "redlockotel" || path.Dir(dir) == "adapters"
}

// git returns what git prints about the repository.
func git(args ...string) (string, error) {
	command := exec.Command("git", args...)
	command.Dir, command.Env = root, append(os.Environ(), "TZ=UTC") // pseudo-versions have the time in UTC
	out, err := command.Output()
	return strings.TrimSpace(string(out)), err
}

// needHistory skips a test where git does not have all commits.
func needHistory(t *testing.T) {
	t.Helper()
	if _, err := git("ls-files", "--error-unmatch", "go.mod"); err != nil {
		t.Skip("this is no clone of the repository: nothing says which commits it has")
	}
	if shallow, err := git("rev-parse", "--is-shallow-repository"); err != nil || shallow == "true" {
		t.Skip("this clone is shallow, and lacks commits that modules require: git fetch --unshallow")
	}
}

// checkVersion returns why users of a commit cannot get a version of the module in a folder, or nil.
func checkVersion(dir, version, commit string) error {
	name := "refs/tags/" + path.Join(dir, version)
	if module.IsPseudoVersion(version) {
		name, _ = module.PseudoVersionRev(version)
	}
	name += "^{commit}"
	pseudo, err := pseudoVersion(name)
	if err != nil {
		return fmt.Errorf("there is no %s", name)
	}
	// Of v0.1.1-0.20060102150405-abcdefabcdef and v0.0.0-20060102150405-abcdefabcdef, time and commit.
	stamp := pseudo[len("v0.0.0-"):]
	if module.IsPseudoVersion(version) && !strings.HasSuffix(strings.ReplaceAll(version, "-0.", "-"), "-"+stamp) {
		return fmt.Errorf("time and commit are %s", stamp)
	}
	if _, err := git("merge-base", "--is-ancestor", name, commit); err != nil {
		return fmt.Errorf("%s is not in the history of %s", name, commit)
	}
	return nil
}

// pseudoVersion returns the version of a commit that has no tag before it.
func pseudoVersion(commit string) (string, error) {
	const length = len("v0.0.0-20060102150405-abcdefabcdef")
	text, err := git("show", "-s", "--date=format-local:%Y%m%d%H%M%S", "--format=v0.0.0-%cd-%H", commit)
	return text[:min(length, len(text))], err
}

func TestPublishedModulesRequireVersionsThatUsersGet(t *testing.T) {
	needHistory(t)
	files, err := git("ls-files", "*go.mod")
	require.NoError(t, err)
	checked := 0
	for file := range strings.FieldsSeq(files) {
		if !isPublished(path.Dir(file)) {
			continue
		}
		text, err := os.ReadFile(filepath.Join(root, file))
		require.NoError(t, err)
		parsed, err := modfile.Parse(file, text, nil)
		require.NoError(t, err)
		for _, r := range parsed.Require {
			if dir, ours := strings.CutPrefix(r.Mod.Path+"/", rootPath+"/"); ours {
				checked++
				dir = path.Clean(dir)
				assert.True(t, isPublished(dir), "%s requires %s, which users do not get", file, r.Mod.Path)
				assert.NoError(t, checkVersion(dir, r.Mod.Version, "HEAD"), "%s requires %s: make requires", file, r.Mod)
			}
		}
	}
	assert.GreaterOrEqual(t, checked, 9, "each module but the root's requires that")
}

func TestVersionsThatUsersDoNotGet(t *testing.T) {
	needHistory(t)
	head, err := pseudoVersion("HEAD")
	require.NoError(t, err)
	require.NoError(t, checkVersion(".", head, "HEAD"))
	require.NoError(t, checkVersion(".", strings.Replace(head, "v0.0.0-", "v0.1.1-0.", 1), "HEAD"))
	at := len(head) - len("abcdefabcdef")
	for version, says := range map[string]string{
		"v0.0.0":                             "there is no refs/tags/v0.0.0",
		head[:at] + strings.Repeat("0", 12):  "there is no 000000000000",
		"v0.0.0-20060102150405-" + head[at:]: "time and commit are " + head[len("v0.0.0-"):],
		"v0.0.0-00010101000000-000000000000": "there is no 000000000000",
	} {
		assert.ErrorContains(t, checkVersion(".", version, "HEAD"), says, version)
	}
	assert.ErrorContains(t, checkVersion(".", head, "HEAD~1"), "is not in the history of HEAD~1")
}

// A user gets each module of main, and of a release that is made of it: make release-check.
func TestUsersGetMainAndARelease(t *testing.T) {
	if os.Getenv("REDLOCK_LONG") == "" {
		t.Skip("make release-check runs it: some minutes")
	}
	needHistory(t)
	command := exec.CommandContext(t.Context(), "./release.sh", "rehearse")
	out, err := command.CombinedOutput()
	require.NoError(t, err, "%s", out)
	t.Logf("%s", out)
}
