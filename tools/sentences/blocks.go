package main

import (
	"regexp"
	"strings"
)

// block is a paragraph, a list item or a cell of a table: Markdown without the marks ahead of it.
type block struct {
	line int // where it begins
	text string
	cell bool
}

var (
	fence     = regexp.MustCompile("^\\s*(```+|~~~+)")
	heading   = regexp.MustCompile(`^\s{0,3}#{1,6}(\s|$)`)
	item      = regexp.MustCompile(`^\s*(?:[-*+]|\d+[.)])\s+(.*)$`)
	rule      = regexp.MustCompile(`^\s{0,3}(?:-\s*){3,}$|^\s{0,3}(?:\*\s*){3,}$`)
	delimiter = regexp.MustCompile(`^\s*\|?(?:\s*:?-+:?\s*\|)+(?:\s*:?-+:?\s*)?$`)
	reference = regexp.MustCompile(`^\s{0,3}\[[^\]]+\]:\s`)
	quote     = regexp.MustCompile(`^\s*>\s?`)
	indented  = regexp.MustCompile(`^(?: {4}|\t)`)
)

// reader collects the blocks of a page, line by line.
type reader struct {
	all     []block
	open    bool   // the last block goes on in the next line
	list    bool   // an indented line belongs to a list
	fence   string // what ends the block of code, empty outside of one
	comment bool   // within an HTML comment
}

// blocks returns the blocks of a page. Headings, code, pictures and comments are none.
func blocks(page string) []block {
	var r reader
	number := 0
	for line := range strings.Lines(page) {
		number++
		r.read(number, strings.TrimRight(line, "\r\n"))
	}
	return r.all
}

func (r *reader) read(number int, line string) {
	if r.fence != "" {
		if strings.HasPrefix(strings.TrimSpace(line), r.fence) {
			r.fence = ""
		}
		return
	}
	line = r.withoutComments(line)
	line = quote.ReplaceAllString(line, "")
	switch m := item.FindStringSubmatch(line); {
	case strings.TrimSpace(line) == "", rule.MatchString(line), heading.MatchString(line), reference.MatchString(line):
		r.open = false
		r.list = r.list && strings.TrimSpace(line) == ""
	case fence.MatchString(line):
		r.fence, r.open = fence.FindStringSubmatch(line)[1], false
	case strings.HasPrefix(strings.TrimSpace(line), "|"):
		r.open = false
		r.row(number, line)
	case m != nil:
		r.begin(number, m[1])
		r.list = true
	case r.open:
		last := &r.all[len(r.all)-1]
		last.text += "\n" + strings.TrimSpace(line)
	case indented.MatchString(line) && !r.list: // code
	default:
		r.list = r.list && strings.HasPrefix(line, " ")
		r.begin(number, strings.TrimSpace(line))
	}
}

func (r *reader) begin(number int, text string) {
	r.all = append(r.all, block{line: number, text: text})
	r.open = true
}

// row adds the cells of a table's row.
func (r *reader) row(number int, line string) {
	if delimiter.MatchString(line) {
		return
	}
	for _, cell := range cells(line) {
		r.all = append(r.all, block{number, strings.TrimSpace(cell), true})
	}
}

// cells splits a row at its bars. A bar with a backslash ahead of it is text.
func cells(line string) []string {
	line = strings.TrimPrefix(strings.TrimSpace(line), "|")
	if strings.HasSuffix(line, "|") && !strings.HasSuffix(line, `\|`) {
		line = line[:len(line)-1]
	}
	var all []string
	start := 0
	for i := 0; i < len(line); i++ {
		switch line[i] {
		case '\\':
			i++
		case '|':
			all = append(all, line[start:i])
			start = i + 1
		}
	}
	return append(all, line[start:])
}

// withoutComments removes what is in HTML comments, which may go on over several lines.
func (r *reader) withoutComments(line string) string {
	for {
		if r.comment {
			_, after, found := strings.Cut(line, "-->")
			if !found {
				return ""
			}
			r.comment, line = false, after
		}
		before, after, found := strings.Cut(line, "<!--")
		if !found {
			return line
		}
		_, rest, closed := strings.Cut(after, "-->")
		if !closed {
			r.comment = true
			return before
		}
		line = before + rest
	}
}
