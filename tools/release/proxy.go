package main

import (
	"encoding/json"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"

	gomodule "golang.org/x/mod/module"
	"golang.org/x/mod/sumdb/dirhash"
	"golang.org/x/mod/zip"
)

// moduleProxy is a folder that go takes for a module proxy. It has the modules of a commit as a
// public proxy makes them of their tags.
type moduleProxy struct{ dir string }

func (p moduleProxy) file(path, name string) string {
	return filepath.Join(p.dir, filepath.FromSlash(path), "@v", name)
}

// add adds a module of a commit that the repository has checked out.
func (p moduleProxy) add(repo repository, m module, version, commit string) error {
	text, err := repo.read(m.goMod())
	if err != nil {
		return err
	}
	info, err := json.Marshal(map[string]string{"Version": version})
	if err != nil {
		return err
	}
	if err := os.MkdirAll(filepath.Dir(p.file(m.path(), "list")), 0o755); err != nil {
		return err
	}
	for name, content := range map[string]string{
		"list": version + "\n", version + ".info": string(info), version + ".mod": text,
	} {
		if err := os.WriteFile(p.file(m.path(), name), []byte(content), 0o644); err != nil {
			return err
		}
	}
	file, err := os.Create(p.file(m.path(), version+".zip"))
	if err != nil {
		return err
	}
	root, err := filepath.Abs(repo.dir)
	if err == nil {
		subdir := strings.TrimPrefix(m.dir, ".")
		err = zip.CreateFromVCS(file, gomodule.Version{Path: m.path(), Version: version}, root, commit, subdir)
	}
	if closing := file.Close(); err == nil {
		err = closing
	}
	return err
}

// sums returns the lines of a go.sum for a module that was added.
func (p moduleProxy) sums(path, version string) ([]string, error) {
	content, err := dirhash.HashZip(p.file(path, version+".zip"), dirhash.Hash1)
	if err != nil {
		return nil, err
	}
	goMod, err := dirhash.Hash1([]string{"go.mod"}, func(string) (io.ReadCloser, error) {
		return os.Open(p.file(path, version+".mod"))
	})
	return []string{
		fmt.Sprintf("%s %s %s", path, version, content),
		fmt.Sprintf("%s %s/go.mod %s", path, version, goMod),
	}, err
}

// withSums adds lines to the text of a go.sum, in place of those of other versions of a module.
func withSums(goSum, path string, sums []string) string {
	lines := strings.FieldsFunc(goSum, func(r rune) bool { return r == '\n' })
	lines = slices.DeleteFunc(lines, func(l string) bool { return strings.HasPrefix(l, path+" ") })
	place, _ := slices.BinarySearchFunc(lines, path+" ", strings.Compare)
	return strings.Join(slices.Insert(lines, place, sums...), "\n") + "\n"
}
