package main

import (
	"regexp"
	"strings"
	"unicode"
	"unicode/utf8"
)

// glyph is a character as a reader sees it.
type glyph struct {
	r    rune
	line int  // of the page
	code bool // within a piece of code, where no character ends a word or a sentence
}

func (g glyph) isSpace() bool        { return !g.code && unicode.IsSpace(g.r) }
func (g glyph) in(chars string) bool { return !g.code && strings.ContainsRune(chars, g.r) }

// plain returns the text of glyphs on one line.
func plain(glyphs []glyph) string {
	var b strings.Builder
	for _, g := range glyphs {
		b.WriteRune(g.r)
	}
	return strings.Join(strings.Fields(b.String()), " ")
}

// Marks of Markdown and HTML that a reader does not see.
var (
	image   = regexp.MustCompile(`^!\[[^\]]*\]\([^)]*\)`)
	address = regexp.MustCompile(`^<((?:https?|mailto):[^>\s]*)>`)
	tag     = regexp.MustCompile(`^</?[a-zA-Z][^>]*>`)
)

// render returns what a reader sees of a block's Markdown that begins in a line of the page.
// It leaves out emphasis, HTML, images and the targets of links.
func render(text string, line int) (shown []glyph) {
	show := func(s string, code bool) {
		for _, r := range s {
			shown = append(shown, glyph{r, line, code})
			if r == '\n' {
				line++
			}
		}
	}
	for text != "" {
		skip := 1
		switch code, length := codeSpan(text); {
		case length > 0:
			show(code, true)
			skip = length
		case text[0] == '\\' && len(text) > 1 && strings.ContainsRune("\\`*_[]()<>|#!.-+", rune(text[1])):
			show(text[1:2], false)
			skip = 2
		case image.MatchString(text):
			skip = len(image.FindString(text))
		case address.MatchString(text):
			m := address.FindStringSubmatch(text)
			show(m[1], false)
			skip = len(m[0])
		case tag.MatchString(text):
			skip = len(tag.FindString(text))
		case text[0] == '[' && linkEnd(text) > 0:
			label, target := linkParts(text)
			linked := render(label, line)
			shown = append(shown, linked...)
			line += strings.Count(label+target, "\n")
			skip = linkEnd(text)
		case text[0] == '*':
		default:
			_, skip = utf8.DecodeRuneInString(text)
			show(text[:skip], false)
		}
		text = text[skip:]
	}
	return shown
}

// codeSpan returns the piece of code that text begins with, and its length with its marks. As many
// backticks end it as begin it. The length is 0 if text begins with no code.
func codeSpan(text string) (code string, length int) {
	after := strings.TrimLeft(text, "`")
	marks := text[:len(text)-len(after)]
	for start := 0; marks != ""; {
		end := strings.Index(after[start:], marks)
		if end < 0 {
			break
		}
		end += start
		run := len(after[end:]) - len(strings.TrimLeft(after[end:], "`"))
		if run == len(marks) {
			return after[:end], end + 2*len(marks)
		}
		start = end + run
	}
	return "", 0
}

// linkEnd returns the length of the link that text begins with, 0 if it begins with none.
func linkEnd(text string) int {
	label := closing(text, '[', ']')
	if label < 0 || label+1 >= len(text) || text[label+1] != '(' {
		return 0
	}
	target := closing(text[label+1:], '(', ')')
	if target < 0 {
		return 0
	}
	return label + 1 + target + 1
}

// linkParts returns the text and the target of the link that text begins with.
func linkParts(text string) (label, target string) {
	end := closing(text, '[', ']')
	return text[1:end], text[end+2 : linkEnd(text)-1]
}

// closing returns the place of the bracket that closes the one that text begins with, -1 if none
// does.
func closing(text string, opens, closes byte) int {
	depth := 0
	for i := 0; i < len(text); i++ {
		switch text[i] {
		case '\\':
			i++
		case opens:
			depth++
		case closes:
			if depth--; depth == 0 {
				return i
			}
		}
	}
	return -1
}
