package main

import (
	"io"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

func TestABrokenAPINeedsAMinorVersionThatSaysSo(t *testing.T) {
	const broken, said = "example.com/lock\n- Old: removed\n", "### Breaking\n\n- Old is gone: take New.\n"
	for name, c := range map[string]struct{ previous, version, notes, says string }{
		"a patch version":  {"v0.1.0", "v0.1.1", said, "which a patch version must not:\n" + broken + "put back what is gone, or make it v0.2.0"},
		"in silence":       {"v0.1.0", "v0.2.0", "### Removed\n\n- Old.\n", "the notes do not say so:\n" + broken + "put back what is gone, or say under"},
		"an empty section": {"v0.1.0", "v0.2.0", "### Breaking\n\n### Added\n\n- New.\n", "the notes do not say so"},
		"after v1":         {"v1.0.0", "v1.1.0", said, "which only a v2 could:\n" + broken},
		"a minor version":  {"v0.1.0", "v0.2.0", said, ""},
		"the way to v1":    {"v0.9.3", "v1.0.0", "### Added\n\n- New.\n\n" + said, ""},
	} {
		err := refuseBroken(c.previous, c.version, c.notes, broken)
		if c.says == "" {
			assert.NoError(t, err, name)
			continue
		}
		assert.ErrorContains(t, err, c.version+" breaks the API of "+c.previous, name)
		assert.ErrorContains(t, err, c.says, name)
	}
}

func TestTheAPIOfEachPublishedModuleIsCompared(t *testing.T) {
	const section = "## [0.1.1] - 2026-12-01\n\n- Fixed.\n"
	for name, c := range map[string]struct {
		changes []string
		says    []string // none if nothing is broken
	}{
		"broken in every way": {[]string{
			"lock.go", "package lock\n\nfunc Lock(name string) {}\n\nfunc Old(name []byte) {}\n", "fence/fence.go", "",
			"adapters/redlockone/one.go", "package redlockone\n", "redlockotel/go.mod", "", "redlockotel/otel.go", "",
		}, []string{
			"v0.1.1 breaks the API of v0.1.0", "example.com/lock\n- Old: changed from func(string) to func([]byte)\n",
			"- package example.com/lock/fence: removed\n", "example.com/lock/adapters/redlockone\n- One: removed\n",
			"example.com/lock/redlockotel\n- package example.com/lock/redlockotel: removed\n",
		}},
		"more, and an internal package without what it had": {[]string{
			"more.go", "package lock\n\nfunc More() {}\n", "new/new.go", "package new\n", "internal/x/x.go", "package x\n",
		}, nil},
		"code that does not compile": {[]string{"more.go", "package lock\n\nfunc Lock() {}\n"}, []string{"Lock redeclared"}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			repo := newSmall(t)
			repo.must(t, "tag", "v0.1.0")
			repo.change(t, append(c.changes, changelogFile, section)...)
			s, err := newStage(t.Context(), repo, "HEAD", "v0.1.1", io.Discard)
			require.NoError(t, err)
			t.Cleanup(s.discard)
			err = s.check(t.Context())
			if c.says == nil {
				require.NoError(t, err)
				return
			}
			for _, said := range c.says {
				assert.ErrorContains(t, err, said)
			}
		})
	}
}
