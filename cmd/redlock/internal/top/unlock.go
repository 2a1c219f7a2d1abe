package top

import (
	"slices"
	"strings"

	"github.com/gdamore/tcell/v2"

	"github.com/redlock-go/redlock/internal/overview"
)

// target is what a forced unlock may be about: the names of a row that a holder has, and by whom they were
// held when the key was pressed.
type target struct {
	names  []overview.Name
	owners [][]string // of each name
	by     string
	chosen int // among names, once one of them is typed
}

// beginUnlock asks for the name of the chosen row.
func (f *face) beginUnlock() {
	r := f.row()
	if r == nil {
		return
	}
	t := target{by: r.HeldBy}
	for i := range r.Holders {
		for _, name := range r.Holders[i].Names {
			k := slices.Index(t.names, name)
			if k < 0 {
				k = len(t.names)
				t.names, t.owners = append(t.names, name), append(t.owners, nil)
			}
			t.owners[k] = append(t.owners[k], r.Holders[i].Owner)
		}
	}
	if len(t.names) == 0 {
		f.message = span{"Nobody holds " + r.Title + ": there is nothing to take away.", warn}
		return
	}
	f.breaking, f.back, f.input, f.mode = t, f.mode, nil, unlocking
}

// prompt returns the question for the name.
func (t *target) prompt(input string, columns int) (all []line) {
	texts := names(t.names[:min(len(t.names), 8)])
	text := "Take " + texts + " away from " + t.by + "? The holder is not asked, and may be at work. " +
		"It must be dead or stuck: look at the details first."
	if len(t.names) > 1 {
		text = "Take one of these locks away from its holder: " + texts +
			". The holder is not asked, may be at work, and loses all that it has taken together."
	}
	for _, part := range wrap(text, columns) {
		all = append(all, line{{part, bad}})
	}
	return append(all, line{{"type the name: ", bold}, {input + "▏", plain}})
}

// find returns which name a text is in full, as it is or as it shows; -1 if it is none.
func (t *target) find(text string) int {
	return slices.IndexFunc(t.names, func(n overview.Name) bool { return text == n.Raw || text == n.Text })
}

// unlockKey is key while a name is typed. Only the exact name takes a lock away.
func (f *face) unlockKey(k *tcell.EventKey) action {
	switch k.Key() {
	case tcell.KeyEsc:
		f.mode, f.message = f.back, span{"Nothing was changed.", plain}
	case tcell.KeyEnter:
		f.mode = f.back
		if f.breaking.chosen = f.breaking.find(string(f.input)); f.breaking.chosen >= 0 {
			f.message = span{"Taking it away …", dim}
			return breakIt
		}
		f.message = span{"That is not its name, " + orIs(f.breaking.names) + ": nothing was changed.", warn}
	default:
		f.edit(k)
	}
	return none
}

// orIs lists names in a sentence.
func orIs(all []overview.Name) string {
	texts := make([]string, len(all))
	for i := range all {
		texts[i] = all[i].Text
	}
	return strings.Join(texts, " or ")
}
