package docs_test

import (
	"fmt"
	"path"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

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
