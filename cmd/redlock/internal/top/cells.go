package top

import (
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/redlock-go/redlock/internal/overview"
	"github.com/redlock-go/redlock/internal/printable"
)

// tones are those of signs.
var tones = map[overview.Tone]tone{overview.Good: good, overview.Quiet: dim, overview.Warns: warn, overview.Alarms: bad}

// signOf returns a sign in its colour.
func signOf(s overview.Sign) span { return span{s.Glyph, tones[s.Tone]} }

// fallbacks returns what terminals show that do not have a character.
func fallbacks() map[string]string {
	all := map[string]string{"…": "~", "⏎": "Enter"}
	for _, w := range overview.Words() {
		all[w.Sign().Glyph] = w.Sign().ASCII
	}
	for _, d := range []overview.Direction{overview.Renews, overview.RunsDown} {
		all[d.Sign().Glyph] = d.Sign().ASCII
	}
	return all
}

// cells are what a row shows in each column.
type cells [columnCount]line

// rowCells returns the cells of a row at an instant.
func rowCells(r *overview.Row, now time.Time) (c cells) {
	name := bold
	if r.Stale {
		name = dim
	}
	c[colMark] = rowMark(r)
	c[colName] = line{{r.Title, name}}
	c[colHolder] = heldBy(r)
	c[colSince] = line{{since(r.Since, now), plain}}
	c[colVotes] = votes(r.Words)
	if r.Kind != overview.Permits && len(r.Holders) > 0 {
		c[colLeft] = left(r.LeftAt(r.Left, now), r.Direction)
	}
	if n := len(r.Waiters); n > 0 {
		c[colWait] = line{{strconv.Itoa(n), bold}}
		c[colOldest] = line{{since(r.Oldest(), now), plain}}
	}
	c[colNote] = note(r)
	if r.Token > 0 && r.Kind != overview.Permits {
		c[colToken] = line{{token(r.Token), dim}}
	}
	if r.Stale {
		for _, column := range []int{colHolder, colSince, colLeft} {
			for i := range c[column] {
				c[column][i].tone = dim
			}
		}
	}
	return c
}

// rowMark returns the sign in front of a row that a person should look at.
func rowMark(r *overview.Row) line {
	switch {
	case r.Level == overview.Error:
		return line{{"!", bad}}
	case r.Level == overview.Warning:
		return line{{"!", warn}}
	}
	return nil
}

// heldBy returns who holds a row, behind its state unless that is held.
func heldBy(r *overview.Row) line {
	switch state := r.Unheld(); {
	case state == "":
		return line{{r.HeldBy, plain}}
	case r.HeldBy == "":
		return line{{"(" + state + ")", dim}}
	default:
		return line{{state + " ", dim}, {r.HeldBy, plain}}
	}
}

// note returns who is next, and what is odd.
func note(r *overview.Row) (l line) {
	if r.Stale {
		return line{{r.Says, dim}}
	}
	if len(r.Waiters) > 0 {
		next := r.Waiters[0]
		l = line{{next.Text(), plain}}
		if next.Wants != overview.WantsLock {
			l = append(l, span{" wants " + next.Wants, plain})
		}
	}
	switch {
	case r.Odd != "":
		if len(l) > 0 {
			l = append(l, span{"; ", plain})
		}
		l = append(l, span{r.Odd, levelTone(r.Level, dim)})
	case len(l) > 0:
	case r.Asks:
		l = line{{"lets go if asked", dim}}
	case len(r.Names) > 1:
		l = line{{"with " + names(r.Names[1:]), dim}}
	case r.Kind == overview.Shared && len(r.Holders) > 0:
		l = line{{labels(r.Holders), dim}}
	}
	return l
}

// names returns names in one text.
func names(all []overview.Name) string {
	texts := make([]string, len(all))
	for i := range all {
		texts[i] = all[i].Text
	}
	return strings.Join(texts, ", ")
}

// labels returns the labels of holders in one text.
func labels(all []overview.Holder) string {
	texts := make([]string, len(all))
	for i := range all {
		texts[i] = all[i].Label
	}
	return strings.Join(texts, ", ")
}

// permitCells returns the cells of one holder of permits.
func permitCells(h *overview.Holder, r *overview.Row, now time.Time) (c cells) {
	slots := ""
	for _, k := range h.Slots {
		slots += fmt.Sprintf(" #%d", k)
	}
	c[colName] = line{{" " + slots, dim}}
	c[colHolder] = line{{h.Label, plain}}
	c[colSince] = line{{since(h.Since, now), plain}}
	c[colLeft] = left(r.LeftAt(h.Left, now), h.Direction)
	c[colVotes] = votes(h.Words)
	if !h.Holds {
		c[colNote] = line{{"not at a majority of the masters", warn}}
	}
	if h.Token > 0 {
		c[colToken] = line{{token(h.Token), dim}}
	}
	return c
}

// votes returns the signs of what the masters say.
func votes(words []overview.Word) line {
	l := make(line, len(words))
	for i, w := range words {
		l[i] = signOf(w.Sign())
	}
	return l
}

// since returns how long something has lasted; "?" if its beginning is not known.
func since(begun, now time.Time) string {
	if begun.IsZero() {
		return "?"
	}
	return printable.Age(max(now.Sub(begun), 0))
}

// left returns the time left, and where it goes.
func left(d time.Duration, to overview.Direction) line {
	t := plain
	if to == overview.RunsDown {
		t = warn
	}
	if d < 0 {
		return line{{overview.NoEnd, warn}}
	}
	sign := signOf(to.Sign())
	if sign.text == "" {
		sign.text = " "
	}
	return line{{printable.Age(d) + " ", t}, sign}
}

// token returns a fencing token: all of it if it is short, and else its end.
func token(n int64) string {
	text := strconv.FormatInt(n, 10)
	if len(text) > columns[colToken].columns {
		return "…" + text[len(text)-columns[colToken].columns+1:]
	}
	return text
}

// levelTone returns the tone of a level; ok is that of OK.
func levelTone(l overview.Level, ok tone) tone {
	switch l {
	case overview.Error:
		return bad
	case overview.Warning:
		return warn
	}
	return ok
}
