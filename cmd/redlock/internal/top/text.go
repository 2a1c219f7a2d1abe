package top

import (
	"strings"

	"github.com/rivo/uniseg"
)

// tone is what a text is for; a screen chooses its style.
type tone int

const (
	plain tone = iota
	dim
	bold
	good
	warn
	bad
	goodSentence // the first line, which is bold
	warnSentence
	selected // is reversed
)

// span is text of one tone.
type span struct {
	text string
	tone tone
}

// line is a row of the screen.
type line []span

// width returns how many columns of a terminal a text takes.
func width(text string) int { return uniseg.StringWidth(text) }

func (l line) width() (sum int) {
	for _, s := range l {
		sum += width(s.text)
	}
	return sum
}

// cut shortens a line to some columns.
func (l line) cut(columns int) (short line) {
	if l.width() <= columns {
		return l
	}
	room := columns - 1
	for _, s := range l {
		w := width(s.text)
		if w > room {
			return append(short, span{cut(s.text+" ", room+1), s.tone})
		}
		short, room = append(short, s), room-w
	}
	return short
}

// String returns the text without trailing space.
func (l line) String() string {
	var b strings.Builder
	for _, s := range l {
		b.WriteString(s.text)
	}
	return strings.TrimRight(b.String(), " ")
}

// cut shortens a text to some columns; what is cut shows as an ellipsis.
func cut(text string, columns int) string {
	if width(text) <= columns {
		return text
	}
	if columns <= 0 {
		return ""
	}
	var b strings.Builder
	room, state := columns-1, -1
	for text != "" {
		var cluster string
		var w int
		cluster, text, w, state = uniseg.FirstGraphemeClusterInString(text, state)
		if w > room {
			break
		}
		room -= w
		b.WriteString(cluster)
	}
	return b.String() + "…"
}

// pad cuts or fills a text to exactly some columns; with right set the text stands at the right.
func pad(text string, columns int, right bool) string {
	text = cut(text, columns)
	fill := strings.Repeat(" ", max(columns-width(text), 0))
	if right {
		return fill + text
	}
	return text + fill
}

// wrap breaks a text at spaces into lines of some columns.
func wrap(text string, columns int) (lines []string) {
	current := ""
	for _, word := range strings.Fields(text) {
		if current != "" && width(current)+1+width(word) > columns {
			lines = append(lines, current)
			current = ""
		}
		if current != "" {
			current += " "
		}
		current += word
		for width(current) > columns { // one word is longer than a line
			head := strings.TrimSuffix(cut(current, columns), "…")
			if head == "" {
				break
			}
			lines = append(lines, head)
			current = current[len(head):]
		}
	}
	return append(lines, current)
}
