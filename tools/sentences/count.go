package main

import (
	"fmt"
	"strings"
	"unicode"
)

// minCell is how many words make the text of a table's cell a sentence. A shorter one is a label
// or a figure; a page with many of them would have a small share of long sentences for that alone.
const minCell = 4

// passage is a sentence or a paragraph that is too long.
type passage struct {
	line   int // where it begins
	length int // in words, or in characters
	text   string
}

// count is what a page has, or all pages together.
type count struct {
	path       string
	sentences  int
	longest    int // in words
	long       []passage
	paragraphs []passage // the long ones
}

// countPage counts a page of Markdown.
func countPage(path, text string) count {
	page := count{path: path}
	for _, b := range blocks(text) {
		glyphs := render(b.text, b.line)
		if n := len(glyphs); n > maxParagraph {
			page.paragraphs = append(page.paragraphs, passage{b.line, n, plain(glyphs)})
		}
		for _, sentence := range sentences(glyphs) {
			n := words(sentence)
			if n == 0 || b.cell && n < minCell {
				continue
			}
			page.sentences++
			page.longest = max(page.longest, n)
			if n > maxWords {
				page.long = append(page.long, passage{sentence[0].line, n, plain(sentence)})
			}
		}
	}
	return page
}

func (c *count) add(page count) {
	c.sentences += page.sentences
	c.longest = max(c.longest, page.longest)
	c.long = append(c.long, page.long...)
	c.paragraphs = append(c.paragraphs, page.paragraphs...)
}

// share returns how many percent of the sentences are too long.
func (c *count) share() float64 {
	return 100 * float64(len(c.long)) / float64(max(c.sentences, 1))
}

func (c *count) row() string {
	return fmt.Sprintf("%9d %9d %6.1f%% %7d %10d  %s", c.sentences, len(c.long), c.share(), c.longest, len(c.paragraphs), c.path)
}

func (c *count) details() string {
	var b strings.Builder
	for _, p := range c.long {
		fmt.Fprintf(&b, "%s:%d: %d words: %s\n", c.path, p.line, p.length, p.text)
	}
	for _, p := range c.paragraphs {
		fmt.Fprintf(&b, "%s:%d: a paragraph of %d characters: %s\n", c.path, p.line, p.length, p.text)
	}
	return b.String()
}

// exceeded returns which limits the pages exceed together.
func (c *count) exceeded() (all []string) {
	if c.share() > maxLongShare {
		all = append(all, fmt.Sprintf("%.2f%% of all sentences have more than %d words, the limit is %.0f%%", c.share(), maxWords, maxLongShare))
	}
	if n := len(c.paragraphs); n > 0 {
		all = append(all, fmt.Sprintf("paragraphs of more than %d characters: %d", maxParagraph, n))
	}
	return all
}

// abbreviations end with a period that does not end the sentence.
var abbreviations = map[string]bool{
	"e.g.": true, "i.e.": true, "etc.": true, "vs.": true, "cf.": true, "approx.": true, "resp.": true,
	"z.b.": true, "d.h.": true, "bzw.": true, "ca.": true, "nr.": true,
}

// sentences splits a block after each period, question mark and exclamation mark that ends a
// sentence. A colon and a semicolon end none, unless a list or a table follows, which is a block
// of its own.
func sentences(block []glyph) (all [][]glyph) {
	for len(block) > 0 {
		end := 0
		for i := 0; end == 0 && i < len(block); i++ {
			end = sentenceEnd(block, i)
		}
		if end == 0 {
			end = len(block)
		}
		sentence := block[:end]
		for len(sentence) > 0 && sentence[0].isSpace() {
			sentence = sentence[1:]
		}
		all, block = append(all, sentence), block[end:]
	}
	return all
}

// sentenceEnd returns the number of glyphs of the sentence that the i-th one ends, closing
// quotation marks and brackets included. It returns 0 if that glyph does not end a sentence.
func sentenceEnd(text []glyph, i int) int {
	if !text[i].in(".?!") {
		return 0
	}
	end := i + 1
	for end < len(text) && text[end].in(`.?!)]"'”’*_`) {
		end++
	}
	if end == len(text) {
		return end
	}
	if !text[end].isSpace() {
		return 0
	}
	next := end
	for next < len(text) && text[next].isSpace() {
		next++
	}
	lower := next < len(text) && unicode.IsLower(text[next].r) && !text[next].code
	switch word := lastWord(text[:end]); {
	case lower && (text[i].r != '.' || strings.Contains(word, "..")): // a question or a pause within a sentence
		return 0
	case abbreviations[word] && (lower || word != "etc."): // this one can end a sentence, too
		return 0
	}
	return end
}

// lastWord returns the last word of text in lower case, without brackets ahead of it.
func lastWord(text []glyph) string {
	start := len(text)
	for start > 0 && !text[start-1].isSpace() {
		start--
	}
	return strings.ToLower(strings.TrimLeft(plain(text[start:]), `("'“`))
}

// words counts the words of a sentence: what stands between spaces and has a letter or a digit.
// A piece of code is one word, whatever it has within.
func words(sentence []glyph) (n int) {
	counted := false
	for _, g := range sentence {
		switch {
		case g.isSpace():
			counted = false
		case !counted && (g.code || unicode.IsLetter(g.r) || unicode.IsDigit(g.r)):
			counted = true
			n++
		}
	}
	return n
}
