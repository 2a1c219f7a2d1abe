// Package docs_test checks the documentation: its commands run, its code compiles, its links
// lead somewhere, the names in it exist, and its words are those of the field.
package docs_test

import (
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"net/url"
	"os"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
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

var (
	link    = regexp.MustCompile(`\[[^\]]*\]\(([^)\s]+)\)`)
	heading = regexp.MustCompile(`(?m)^#{1,6} +(.+?)\s*$`)
	dropped = regexp.MustCompile(`[^\p{L}\p{N} _-]`)
)

func TestEveryLinkLeadsSomewhere(t *testing.T) {
	all, _ := pages(t)
	anchors := map[string]map[string]bool{}
	for _, p := range all {
		anchors[p.path] = p.anchors()
	}
	links := 0
	for _, p := range all {
		for _, m := range link.FindAllStringSubmatch(inline.ReplaceAllString(p.prose(), "code"), -1) {
			links++
			assert.NoError(t, follow(p, m[1], anchors), "%s: %s", p.path, m[1])
		}
	}
	assert.Greater(t, links, 50)
}

// follow returns an error if a link leads nowhere. Of a link to the web it checks the form
// only.
func follow(p page, target string, anchors map[string]map[string]bool) error {
	u, err := url.Parse(target)
	switch {
	case err != nil:
		return err
	case u.IsAbs():
		if u.Scheme != "https" && u.Scheme != "http" || !strings.Contains(u.Host, ".") {
			return fmt.Errorf("not an address on the web")
		}
		return nil
	}
	file := p.path
	if u.Path != "" {
		file = path.Join(path.Dir(p.path), u.Path)
	}
	if _, err := os.Stat(filepath.Join(root, filepath.FromSlash(file))); err != nil {
		return err
	}
	if u.Fragment != "" && !anchors[file][u.Fragment] {
		return fmt.Errorf("%s has no heading %q", file, u.Fragment)
	}
	return nil
}

// anchors returns the names that GitHub gives to the page's headings.
func (p page) anchors() map[string]bool {
	all := map[string]bool{}
	for _, m := range heading.FindAllStringSubmatch(p.prose(), -1) {
		text := link.ReplaceAllStringFunc(m[1], func(l string) string { return strings.Trim(l[:strings.Index(l, "]")], "[") })
		name := strings.ReplaceAll(dropped.ReplaceAllString(strings.ToLower(text), ""), " ", "-")
		for i, unique := 1, name; ; i++ {
			if !all[unique] {
				all[unique] = true
				break
			}
			unique = fmt.Sprint(name, "-", i)
		}
	}
	return all
}

// A reader finds every page of docs/ from its index.
func TestTheIndexHasEveryPage(t *testing.T) {
	const index = "docs/README.md"
	linked := map[string]bool{}
	for _, m := range link.FindAllStringSubmatch(read(t, index), -1) {
		file, _, _ := strings.Cut(m[1], "#")
		linked[path.Join(path.Dir(index), file)] = true
	}
	all, _ := pages(t)
	for _, p := range all {
		if strings.HasPrefix(p.path, "docs/") && p.path != index {
			assert.True(t, linked[p.path], p.path)
		}
	}
}

// The checklist is short, and each box leads to its reason.
func TestTheChecklistHasFifteenBoxesWithALinkEach(t *testing.T) {
	const boxes = 15
	count := 0
	for line := range strings.Lines(read(t, "docs/checklist.md")) {
		if strings.HasPrefix(line, "- [ ] ") {
			count++
			assert.Regexp(t, link, line[len("- [ ] "):])
			assert.NotContains(t, line, ". ", "one line, one sentence")
		}
	}
	assert.Equal(t, boxes, count)
}

const (
	whyPage = "docs/why.md"
	wishes  = 30
)

var (
	wishRow  = regexp.MustCompile(`(?m)^\| (\d+) \| \[[^\]]+\]\(#([^)]+)\) \| \**(met|in part|not met)\** \|$`)
	wishMark = regexp.MustCompile(`\n\*\*(Met|In part|Not met)\.\*\* `)
	testOf   = regexp.MustCompile("`(Test\\w+)` \\(\\[([^\\]]+)\\]\\(([^)]+)\\)\\)")
	thread   = regexp.MustCompile(`\(https://github\.com/[\w.-]+/[\w.-]+/issues/\d+\)`)
)

// wish is a section of the page: its heading, its answer, and the lines that begin with "Shown by" and "Asked in".
type wish struct{ heading, answer, shown, asked string }

func readWishes(t *testing.T) (all []wish) {
	t.Helper()
	_, text, found := strings.Cut(read(t, whyPage), "\n## The answers\n")
	require.True(t, found)
	text, _, _ = strings.Cut(text, "\n## ")
	for _, section := range strings.Split(text, "\n### ")[1:] {
		parts := strings.Split(strings.TrimSpace(section), "\n\n")
		require.Len(t, parts, 4, "heading, answer, shown by, asked in: %s", parts[0])
		require.True(t, strings.HasPrefix(parts[2], "Shown by "), parts[0])
		require.True(t, strings.HasPrefix(parts[3], "Asked in "), parts[0])
		all = append(all, wish{parts[0], "\n" + parts[1], parts[2], parts[3]})
	}
	require.Len(t, all, wishes)
	return all
}

func TestEachWishHasAnAnswerAsItsRowSays(t *testing.T) {
	text, counts := read(t, whyPage), map[string]int{}
	rows := wishRow.FindAllStringSubmatch(text, -1)
	require.Len(t, rows, wishes)
	for i, w := range readWishes(t) {
		number, anchor, mark := rows[i][1], rows[i][2], rows[i][3]
		assert.Equal(t, fmt.Sprint(i+1), number, "the rows are in order")
		assert.True(t, strings.HasPrefix(w.heading, number+". "), "the sections are in order: %s", w.heading)
		assert.True(t, page{whyPage, "# " + w.heading}.anchors()[anchor], "row %s leads to another section", number)
		m := wishMark.FindStringSubmatch(w.answer)
		if assert.NotNil(t, m, "%s has no mark", w.heading) {
			assert.Equal(t, mark, strings.ToLower(m[1]), w.heading)
		}
		counts[mark]++
	}
	sentence := fmt.Sprintf("**%d are met, %d is met in part, and %d are not met.**", counts["met"], counts["in part"], counts["not met"])
	assert.True(t, strings.Contains(text, sentence), "the page should say: %s", sentence)
}

// Each test that the page names is in the file that it names, and each page that shows something exists.
func TestWhatShowsAWishExists(t *testing.T) {
	c, anchors := readCode(t), map[string]map[string]bool{}
	all, _ := pages(t)
	for _, p := range all {
		anchors[p.path] = p.anchors()
	}
	here, evidence := page{path: whyPage}, 0
	for _, w := range readWishes(t) {
		tests := testOf.FindAllStringSubmatch(w.shown, -1)
		for _, m := range tests {
			file := path.Join("docs", m[3])
			assert.Equal(t, path.Base(file), m[2], "%s: %s has the name of another file", w.heading, m[1])
			assert.True(t, c.declared[file+": "+m[1]], "%s: there is no %s in %s", w.heading, m[1], file)
		}
		assert.Equal(t, strings.Count(w.shown, "`Test"), len(tests), "%s: name the file of each test", w.heading)
		links := link.FindAllStringSubmatch(w.answer+w.shown, -1)
		for _, m := range links {
			assert.NoError(t, follow(here, m[1], anchors), "%s: %s", w.heading, m[1])
		}
		assert.NotEmpty(t, link.FindString(w.shown), "%s: nothing shows it", w.heading)
		assert.Regexp(t, thread, w.asked, "%s: nobody asked for it", w.heading)
		assert.Equal(t, strings.Count(w.asked, "]("), len(thread.FindAllString(w.asked, -1)), "%s: link threads as issues", w.heading)
		evidence += len(tests)
	}
	assert.Greater(t, evidence, wishes)
}

// programs are the how-to pages with a whole program, each with the test file that has the same declarations and runs
// them.
var programs = map[string]string{
	"docs/http-handler.md": "docs/httphandler_test.go",
	"docs/shutdown.md":     "docs/shutdown_test.go",
	"docs/choosing-ttl.md": "docs/choosingttl_test.go",
}

func TestTheProgramsOfThePagesAreThoseThatAreTested(t *testing.T) {
	for path, file := range programs {
		tested, compared := declarationsOf(t, file, read(t, file)), 0
		for _, m := range snippet.FindAllStringSubmatch(read(t, path), -1) {
			if !isProgram(m[2]) {
				continue
			}
			for name, text := range declarationsOf(t, path, m[2]) {
				compared++
				assert.Equal(t, tested[name], text, "%s of %s and of %s", name, file, path)
			}
		}
		assert.Positive(t, compared, "%s has no program", path)
	}
}

// declarationsOf returns the text of each declaration of a Go file, with its comment, but imports and main.
func declarationsOf(t *testing.T, file, source string) map[string]string {
	t.Helper()
	places, all := token.NewFileSet(), map[string]string{}
	tree, err := parser.ParseFile(places, file, source, parser.ParseComments|parser.SkipObjectResolution)
	require.NoError(t, err)
	for _, d := range tree.Decls {
		name, comment := "", (*ast.CommentGroup)(nil)
		switch d := d.(type) {
		case *ast.FuncDecl:
			name, comment = d.Name.Name, d.Doc
		case *ast.GenDecl:
			comment = d.Doc
			if d.Tok != token.IMPORT {
				name = firstName(d)
			}
		}
		if name == "" || name == "main" {
			continue
		}
		begin := d.Pos()
		if comment != nil {
			begin = comment.Pos()
		}
		all[name] = source[places.Position(begin).Offset:places.Position(d.End()).Offset]
	}
	return all
}

// firstName returns the name of a type, or the first one of constants or variables.
func firstName(d *ast.GenDecl) string {
	switch s := d.Specs[0].(type) {
	case *ast.TypeSpec:
		return s.Name.Name
	case *ast.ValueSpec:
		return s.Names[0].Name
	}
	return ""
}
