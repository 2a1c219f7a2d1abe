// Package docs_test checks the documentation: its commands run, its code compiles, its links
// lead somewhere, the names in it exist, and its words are those of the field.
package docs_test

import (
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// root is the repository, seen from here.
const root = ".."

// page is one Markdown file.
type page struct {
	path string // from the root, with slashes
	text string
}

var (
	fence  = regexp.MustCompile("(?ms)^ *```(\\w*)\n(.*?)^ *```$")
	inline = regexp.MustCompile("`([^`]+)`")
)

// files returns the repository's files, from the root, with slashes.
func files(t *testing.T) []string {
	t.Helper()
	var all []string
	require.NoError(t, filepath.WalkDir(root, func(path string, entry fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case entry.IsDir() && slices.Contains([]string{".git", "out", "dist"}, entry.Name()): // what builds write meanwhile
			return filepath.SkipDir
		case !entry.IsDir():
			relative, err := filepath.Rel(root, path)
			all = append(all, filepath.ToSlash(relative))
			return err
		}
		return nil
	}))
	return all
}

// pages returns all Markdown files; guides are the README and those in docs.
func pages(t *testing.T) (all, guides []page) {
	t.Helper()
	for _, path := range files(t) {
		if !strings.HasSuffix(path, ".md") {
			continue
		}
		p := page{path, read(t, path)}
		all = append(all, p)
		if path == "README.md" || strings.HasPrefix(path, "docs/") {
			guides = append(guides, p)
		}
	}
	require.Greater(t, len(guides), 6)
	return all, guides
}

func read(t *testing.T, path string) string {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(root, filepath.FromSlash(path)))
	require.NoError(t, err)
	return string(text)
}

// prose returns the page without its blocks of code.
func (p page) prose() string { return fence.ReplaceAllString(p.text, "") }

// spans returns the pieces of code within the prose.
func (p page) spans() (all []string) {
	for _, m := range inline.FindAllStringSubmatch(p.prose(), -1) {
		all = append(all, m[1])
	}
	return all
}

// commands returns the lines of the shell blocks, and the calls of make in the prose.
func (p page) commands() (all []string) {
	for _, block := range fence.FindAllStringSubmatch(p.text, -1) {
		if block[1] != "sh" {
			continue
		}
		for line := range strings.Lines(strings.ReplaceAll(block[2], "\\\n", " ")) {
			line, _, _ = strings.Cut(line, "  #")
			if line = strings.TrimSpace(line); line != "" && !strings.HasPrefix(line, "# ") {
				all = append(all, line)
			}
		}
	}
	for _, span := range p.spans() {
		if strings.HasPrefix(span, "make ") {
			all = append(all, span)
		}
	}
	return all
}
