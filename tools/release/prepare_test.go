package main

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

func TestPrepareMakesCommitsTagsAndFiles(t *testing.T) {
	repo := newSmall(t)
	remote := repository{t.TempDir()}
	remote.must(t, "init", "--quiet", "--bare")
	repo.must(t, "remote", "add", "origin", remote.dir)
	before := repo.must(t, "rev-parse", "HEAD")
	var out strings.Builder
	require.NoError(t, prepare(t.Context(), repo, "v0.1.0", host, &out))

	assert.Empty(t, remote.must(t, "for-each-ref"), "it pushes nothing")
	assert.Empty(t, repo.must(t, "status", "--porcelain"))
	assert.ElementsMatch(t, smallTags("v0.1.0"), strings.Split(repo.must(t, "tag"), "\n"))
	release := repo.must(t, "rev-parse", "HEAD~1")
	assert.Equal(t, before, repo.must(t, "rev-parse", "HEAD~2"), "two commits on the branch")
	assert.Equal(t, "main", repo.must(t, "branch", "--show-current"))
	for _, tag := range smallTags("v0.1.0") {
		assert.Equal(t, release, repo.must(t, "rev-parse", tag+"^{commit}"), tag)
	}
	for _, said := range []string{
		"git push --atomic origin main adapters/redlockone/v0.1.0 cmd/redlock/v0.1.0 redlockotel/v0.1.0\n  git push origin v0.1.0\n",
		"git tag -d v0.1.0 adapters/redlockone/v0.1.0 cmd/redlock/v0.1.0 redlockotel/v0.1.0\n  git reset --hard " + before[:12],
	} {
		assert.Contains(t, out.String(), said)
	}
	checkSmallCommits(t, repo)
	checkSmallFiles(t, repo)

	// From the tags alone, the same files.
	sums, err := repo.read("dist/v0.1.0/" + sumsFile)
	require.NoError(t, err)
	repo.must(t, "checkout", "--quiet", "v0.1.0")
	require.NoError(t, files(t.Context(), repo, "v0.1.0", host, &out))
	again, err := repo.read("dist/v0.1.0/" + sumsFile)
	require.NoError(t, err)
	assert.Equal(t, sums, again)

	// The next version goes on from there.
	repo.must(t, "checkout", "--quiet", "main")
	repo.change(t, changelogFile, "## [0.2.0] - 2026-12-02\n\n- More.\n")
	require.NoError(t, prepare(t.Context(), repo, "v0.2.0", nil, &out))
	assert.Contains(t, repo.at(t, "v0.2.0", "adapters/redlockone/go.mod"), "require example.com/lock v0.2.0\n")
	assert.NotContains(t, repo.at(t, "v0.2.0", "cmd/redlock/go.mod"), "replace")
}

func checkSmallCommits(t *testing.T, repo repository) {
	t.Helper()
	tool := "cmd/redlock/go.mod"
	assert.Equal(t, "module example.com/lock/cmd/redlock\n\ngo 1.25.0\n\nrequire example.com/lock v0.1.0\n", repo.at(t, "v0.1.0", tool))
	assert.Equal(t, strings.Replace(small[tool], "v0.0.0", "v0.1.0", 1), repo.at(t, "main", tool), "the replace is back")
	assert.Regexp(t, `^example.com/lock v0.1.0 h1:\S+=\nexample.com/lock v0.1.0/go.mod h1:\S+=\n$`, repo.at(t, "v0.1.0", "cmd/redlock/go.sum"))
	assert.Equal(t, "\n", repo.at(t, "main", "cmd/redlock/go.sum"), "an empty file, and the end of a line")
	adapter := strings.Replace(small["adapters/redlockone/go.mod"], "v0.0.0", "v0.1.0", 1)
	assert.Equal(t, adapter, repo.at(t, "v0.1.0", "adapters/redlockone/go.mod"), "consumers ignore its replace")
	private := repo.at(t, "v0.1.0", "integration/go.mod")
	assert.Contains(t, private, "example.com/lock v0.1.0\n")
	assert.Contains(t, private, "example.com/lock/adapters/redlockone v0.1.0\n")
	// After the release, every module builds with the tree beside it, and go.mod is as go wants it.
	for _, dir := range []string{toolDir, "adapters/redlockone", "integration"} {
		build := exec.CommandContext(t.Context(), "go", "build", "-mod=readonly", "-o", os.DevNull, ".")
		build.Dir = repo.path(dir)
		text, err := build.CombinedOutput()
		assert.NoError(t, err, "%s: %s", dir, text)
	}
}

func checkSmallFiles(t *testing.T, repo repository) {
	t.Helper()
	notes, err := repo.read("dist/v0.1.0.md")
	require.NoError(t, err)
	assert.Equal(t, "### Added\n\n- Locks.\n", notes)

	binary := host[0].binary("v0.1.0")
	texts := map[string]string{
		"redlock.1": ".TH REDLOCK 1\n", "redlock.bash": "complete bash\n", "redlock.zsh": "complete zsh\n",
		"redlock.fish": "complete fish\n", "redlock.ps1": "complete powershell\n",
	}
	sums, err := repo.read("dist/v0.1.0/" + sumsFile)
	require.NoError(t, err)
	summed := make(map[string]string)
	for line := range strings.Lines(sums) {
		sum, name, _ := strings.Cut(strings.TrimSpace(line), "  ")
		summed[name] = sum
	}
	entries, err := os.ReadDir(repo.path("dist/v0.1.0"))
	require.NoError(t, err)
	require.Len(t, entries, len(summed)+1, "each file but the sums themselves has a sum")
	require.Len(t, summed, len(texts)+2)
	for name, sum := range summed {
		text, err := repo.read("dist/v0.1.0/" + name)
		require.NoError(t, err)
		content := sha256.Sum256([]byte(text))
		assert.Equal(t, hex.EncodeToString(content[:]), sum, name)
		if want, fixed := texts[name]; fixed {
			assert.Equal(t, want, text, name)
		}
	}
	said, err := exec.CommandContext(t.Context(), filepath.Join(repo.dir, "dist/v0.1.0", binary)).CombinedOutput()
	assert.Error(t, err, "it wants an argument: %s", said)

	text, err := repo.read("dist/v0.1.0/redlock_v0.1.0.cdx.json")
	require.NoError(t, err)
	var document bill
	decoder := json.NewDecoder(strings.NewReader(text))
	require.NoError(t, decoder.Decode(&document))
	assert.Equal(t, []string{"CycloneDX", "1.5"}, []string{document.Format, document.SpecVersion})
	assert.Equal(t, "pkg:golang/example.com/lock/cmd/redlock@v0.1.0", document.Metadata.Component.PURL)
	require.Len(t, document.Components, 2)
	assert.Equal(t, "pkg:golang/example.com/lock@v0.1.0", document.Components[0].PURL)
	assert.Contains(t, repo.at(t, "v0.1.0", "cmd/redlock/go.sum"), " "+document.Components[0].Properties[0].Value+"\n")
	assert.Regexp(t, `^pkg:golang/std@\d`, document.Components[1].PURL)
}

func TestPrepareRefuses(t *testing.T) {
	tool, adapter := small["cmd/redlock/go.mod"], small["adapters/redlockone/go.mod"]
	for name, c := range map[string]struct {
		version string
		spoil   func(t *testing.T, repo repository)
		says    string
	}{
		"a changed file": {
			says: "the work tree has changes: commit, stash or remove them\n M lock.go",
			spoil: func(t *testing.T, repo repository) {
				repo.put(t, "lock.go", "package lock\n")
			}},
		"a new file": {
			says: "the work tree has changes: commit, stash or remove them\n?? new.go",
			spoil: func(t *testing.T, repo repository) {
				repo.put(t, "new.go", "package lock\n")
			}},
		"no branch": {
			says: "no branch is checked out: check out the one to release",
			spoil: func(t *testing.T, repo repository) {
				repo.must(t, "checkout", "--quiet", "--detach")
			}},
		"the root's tag": {
			says: "the tag v0.1.0 exists: choose a higher version",
			spoil: func(t *testing.T, repo repository) {
				repo.must(t, "tag", "v0.1.0")
			}},
		"an adapter's tag": {says: "the tag adapters/redlockone/v0.1.0 exists", spoil: func(t *testing.T, repo repository) {
			repo.must(t, "tag", "adapters/redlockone/v0.1.0")
		}},
		"a lower version": {says: "v0.1.0 is lower than v0.2.0", spoil: func(t *testing.T, repo repository) {
			repo.must(t, "tag", "v0.2.0")
		}},
		"no section": {version: "v0.3.0", says: `CHANGELOG.md has no section of v0.3.0: put the heading "## [0.3.0] - 2006-01-02"`},
		"an empty section": {
			says: "the section of v0.1.0 is empty: say what is new",
			spoil: func(t *testing.T, repo repository) {
				repo.change(t, changelogFile, "## [0.1.0] - 2026-12-01\n\n## [0.0.1] - 2026-11-01\n\n- Nothing.\n")
			}},
		"a section without a day": {
			says: `the heading "## [0.1.0]" has no day`,
			spoil: func(t *testing.T, repo repository) {
				repo.change(t, changelogFile, "## [0.1.0]\n\n- New.\n")
			}},
		"a section with a bad day": {says: `"2026-13-01" is no day`, spoil: func(t *testing.T, repo repository) {
			repo.change(t, changelogFile, "## [0.1.0] - 2026-13-01\n\n- New.\n")
		}},
		"a module that is not published": {says: "adapters/redlockone/go.mod requires example.com/lock/integration, which is not published",
			spoil: func(t *testing.T, repo repository) {
				repo.change(t, "adapters/redlockone/go.mod", adapter+"\nrequire example.com/lock/integration v0.0.0\n")
			}},
		"a replace of another module": {
			says: "cmd/redlock/go.mod has a replace of example.com/other",
			spoil: func(t *testing.T, repo repository) {
				repo.change(t, "cmd/redlock/go.mod", tool+"\nreplace example.com/other => example.com/fork v1.0.0\n")
			}},
		"an exclude": {says: "cmd/redlock/go.mod has an exclude", spoil: func(t *testing.T, repo repository) {
			repo.change(t, "cmd/redlock/go.mod", tool+"\nexclude example.com/other v1.0.0\n")
		}},
		"a path to which no tag leads": {
			says: "make it example.com/lock/redlockotel, or no tag leads to it",
			spoil: func(t *testing.T, repo repository) {
				repo.change(t, "redlockotel/go.mod", "module example.com/otel\n\ngo 1.25.0\n")
			}},
		"a tool that does not build": {says: "build", spoil: func(t *testing.T, repo repository) {
			repo.change(t, "cmd/redlock/main.go", "package main\n")
		}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			repo := newSmall(t)
			if c.spoil != nil {
				c.spoil(t, repo)
			}
			if c.version == "" {
				c.version = "v0.1.0"
			}
			before := repo.state(t)
			var out strings.Builder
			err := prepare(t.Context(), repo, c.version, host, &out)
			require.ErrorContains(t, err, c.says)
			assert.Empty(t, out.String())
			assert.Equal(t, before, repo.state(t), "the repository is as it was")
		})
	}
}

func TestBadVersionsAreRefused(t *testing.T) {
	repo := newSmall(t)
	before := repo.state(t)
	for _, version := range []string{"", "0.1.0", "v0.1", "v00.1.0", "v0.01.0", "v2.0.0", "v0.1.0-rc.1", "v0.1.0+x", "v0.1.0 ", "main"} {
		var out strings.Builder
		for _, command := range []string{"prepare", "files"} {
			assert.ErrorContains(t, run(t.Context(), repo.dir, []string{command, version}, &out), "v0.1.0", "%s %q", command, version)
		}
		assert.Empty(t, out.String())
	}
	for _, args := range [][]string{nil, {"publish", "v0.1.0"}, {"prepare", "v0.1.0", "v0.2.0"}} {
		assert.ErrorContains(t, run(t.Context(), repo.dir, args, nil), "usage: ", "%q", args)
	}
	assert.ErrorContains(t, run(t.Context(), repo.dir, []string{"rehearse", "v1"}, nil), "is no version")
	assert.Equal(t, before, repo.state(t))
}

// Tags that were made by hand, not by prepare.
func TestFilesRefusesWhatCannotBeHadByVersion(t *testing.T) {
	released := []string{"cmd/redlock/go.mod", strings.Replace(strings.Replace(small["cmd/redlock/go.mod"],
		"replace example.com/lock => ../..\n\n", "", 1), "v0.0.0", "v0.1.0", 1)}
	for name, c := range map[string]struct {
		changes []string
		tags    []string
		says    string
	}{
		"no tag":            {says: "the tag v0.1.0 is not at the commit"},
		"one tag too few":   {tags: smallTags("v0.1.0")[:3], says: "the tag redlockotel/v0.1.0 is not at the commit"},
		"a replace":         {tags: smallTags("v0.1.0"), says: "cmd/redlock/go.mod has a replace of example.com/lock"},
		"a require":         {tags: smallTags("v0.1.0"), changes: released, says: "adapters/redlockone/go.mod requires example.com/lock v0.0.0, not v0.1.0"},
		"the tool's":        {tags: smallTags("v0.1.0"), says: "cmd/redlock/go.mod requires example.com/lock v0.0.0, not v0.1.0"},
		"no section of it":  {tags: smallTags("v0.1.0"), changes: []string{changelogFile, "# Changelog\n"}, says: "CHANGELOG.md has no section of v0.1.0"},
		"another's section": {tags: smallTags("v0.1.0"), changes: []string{changelogFile, "## [0.1.01] - 2026-12-01\n\n- New.\n"}, says: "no section of v0.1.0"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			repo := newSmall(t, c.changes...)
			for _, tag := range c.tags {
				repo.must(t, "tag", tag)
			}
			before := repo.state(t)
			require.ErrorContains(t, files(t.Context(), repo, "v0.1.0", host, nil), c.says)
			assert.Equal(t, before, repo.state(t))
		})
	}
}

func TestFilesRefusesTagsOfSeveralCommits(t *testing.T) {
	repo := newSmall(t)
	repo.must(t, "tag", "cmd/redlock/v0.1.0")
	repo.change(t, "lock.go", small["lock.go"]+"\nfunc New() {}\n")
	for _, tag := range smallTags("v0.1.0") {
		if tag != "cmd/redlock/v0.1.0" {
			repo.must(t, "tag", tag)
		}
	}
	require.ErrorContains(t, files(t.Context(), repo, "v0.1.0", host, nil), "the tag cmd/redlock/v0.1.0 is not at the commit")
}
