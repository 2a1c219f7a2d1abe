package main

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

func TestASentenceEndsAtItsMark(t *testing.T) {
	for text, want := range map[string][]string{
		"It waits. Then it goes on.":                     {"It waits.", "Then it goes on."},
		"Why? Because! And so":                           {"Why?", "Because!", "And so"},
		"It waits, e.g. for a node. It goes on.":         {"It waits, e.g. for a node.", "It goes on."},
		"Two (i.e. Both) of them, z.B. Diese.":           {"Two (i.e. Both) of them, z.B. Diese."},
		"Names, keys, etc. are free. Keys etc. The end.": {"Names, keys, etc. are free.", "Keys etc.", "The end."},
		"Since v1.2 of 127.0.0.1 in a.go it is 0.5 s.":   {"Since v1.2 of 127.0.0.1 in a.go it is 0.5 s."},
		"It says … and then... stops. Then…":             {"It says … and then... stops.", "Then…"},
		"Two parts: one; two; three. d counts.":          {"Two parts: one; two; three.", "d counts."},
		"It asks \"who?\" and waits. (It waits.) Then.":  {"It asks \"who?\" and waits.", "(It waits.)", "Then."},
		"Call `a. B? c` first. `Do` waits.":              {"Call a. B? c first.", "Do waits."},
		"Call `a``b` first.":                             {"Call a``b first."},
		"**It waits.** See [the page. It](x.md#a. B).":   {"It waits.", "See the page.", "It."},
		"It waits\nfor a node.\nIt goes on.":             {"It waits for a node.", "It goes on."},
		"":                                               nil,
	} {
		var got []string
		for _, sentence := range sentences(render(text, 1)) {
			got = append(got, plain(sentence))
		}
		assert.Equal(t, want, got, text)
	}
}

func TestASentenceBeginsInALineOfThePage(t *testing.T) {
	found := sentences(render("See [the\npage](a.md),\nand `a\nb`. It waits.\nIt\ngoes on.", 7))
	require.Len(t, found, 3)
	for i, want := range []int{7, 10, 11} {
		assert.Equal(t, want, found[i][0].line)
	}
}

func TestAWordHasALetterOrADigit(t *testing.T) {
	for text, want := range map[string]int{
		"It waits for 3 nodes.":                                      5,
		"a - b + c & d":                                              4,
		"a/b is one, and so is don't, and \"x\"":                     9,
		"Call `client.Mutex(a, b).Do(ctx, fn)` first":                3,
		"`a``b c` is code":                                           3,
		"``a ` b`` and `+` are words":                                5,
		"See [the first page](docs/the%20page.md) and [it](x.md).":   6,
		"![a picture](x.png) **bold** <b>and</b> <https://a.test/b>": 3,
		"An *x* and a \\* and 2 * 3":                                 7,
		"— …":                                                        0,
	} {
		assert.Equal(t, want, words(render(text, 1)), text)
	}
}

// thirty is a sentence with as many words as it may have.
const thirty = "One two three four five six seven eight nine ten, one two three four five six seven eight nine ten, " +
	"one two three four five six seven eight nine ten"

func TestAPageIsCounted(t *testing.T) {
	page := countPage("a.md", "# "+thirty+" more\n\n"+
		thirty+".\n"+
		"It is short. And "+thirty+".\n\n"+
		"| "+thirty+" too | short and not counted |\n|---|---|\n| one two three | one two three four |\n\n"+
		"```\n"+thirty+" more\n```\n")
	assert.Equal(t, 6, page.sentences)
	assert.Equal(t, 31, page.longest)
	require.Len(t, page.long, 2)
	assert.Equal(t, 4, page.long[0].line)
	assert.Equal(t, 6, page.long[1].line)
	assert.Empty(t, page.paragraphs)
	assert.Contains(t, page.details(), "a.md:4: 31 words: And One two")
	assert.InDelta(t, 33.3, page.share(), 0.1)
}

func TestAParagraphIsMeasuredAsItIsShown(t *testing.T) {
	full := strings.Repeat("ten chars ", maxParagraph/10-1)
	shown := full + "[ten](" + strings.Repeat("long", 50) + ") **c**haré"
	assert.Empty(t, countPage("a.md", shown+"\n").paragraphs)
	long := countPage("a.md", "First.\n\n- "+full+"\n  [eleven](x) char\n").paragraphs
	require.Len(t, long, 1)
	assert.Equal(t, 3, long[0].line)
	assert.Equal(t, maxParagraph+2, long[0].length)
}
