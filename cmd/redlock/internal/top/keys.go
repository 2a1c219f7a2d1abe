package top

import (
	"slices"

	"github.com/gdamore/tcell/v2"

	"github.com/redlock-go/redlock/internal/overview"
)

// action is what Run must do after a key.
type action int

const (
	none action = iota
	quit
	suspend
	show    // ask the watcher for the view
	breakIt // face.breaking
)

// maxInput bounds what can be typed.
const maxInput = 4096

// key does what a key asks for.
func (f *face) key(k *tcell.EventKey) action {
	switch k.Key() {
	case tcell.KeyCtrlC:
		return quit
	case tcell.KeyCtrlZ:
		return suspend
	}
	f.message = span{}
	switch f.mode {
	case filtering:
		return f.filterKey(k)
	case unlocking:
		return f.unlockKey(k)
	case listing:
		return f.listKey(k)
	}
	return f.scrollKey(k)
}

// listKey is key for the table.
func (f *face) listKey(k *tcell.EventKey) action {
	at := max(f.index(), 0)
	switch k.Key() {
	case tcell.KeyUp:
		f.choose(at - 1)
	case tcell.KeyDown:
		f.choose(at + 1)
	case tcell.KeyPgUp:
		f.choose(at - f.rows)
	case tcell.KeyPgDn:
		f.choose(at + f.rows)
	case tcell.KeyHome:
		f.choose(0)
	case tcell.KeyEnd:
		f.choose(1 << 30)
	case tcell.KeyEnter:
		if r := f.row(); r != nil {
			f.mode, f.chosen, f.first = detailing, r.ID, 0
		}
	case tcell.KeyEsc:
		if f.view.Filter != "" {
			f.view.Filter = ""
			return show
		}
	case tcell.KeyRune:
		return f.listRune(k.Rune())
	}
	return none
}

// listRune is listKey for a character.
func (f *face) listRune(r rune) action {
	at := max(f.index(), 0)
	switch r {
	case 'q':
		return quit
	case 'k':
		f.choose(at - 1)
	case 'j':
		f.choose(at + 1)
	case '?':
		f.mode, f.first = helping, 0
	case '/':
		f.mode, f.input, f.before = filtering, []rune(f.view.Filter), f.view.Filter
	case 's':
		orders := overview.Orders()
		f.view.Order = orders[(max(slices.Index(orders, f.view.Order), 0)+1)%len(orders)]
		f.chosen, f.first = "", 0
		return show
	case 'u':
		f.beginUnlock()
	}
	return none
}

// scrollKey is key for details and help.
func (f *face) scrollKey(k *tcell.EventKey) action {
	switch k.Key() {
	case tcell.KeyUp:
		f.first--
	case tcell.KeyDown:
		f.first++
	case tcell.KeyPgUp:
		f.first -= f.rows
	case tcell.KeyPgDn:
		f.first += f.rows
	case tcell.KeyHome:
		f.first = 0
	case tcell.KeyEnd:
		f.first = 1 << 30
	case tcell.KeyEsc, tcell.KeyEnter, tcell.KeyLeft, tcell.KeyBackspace, tcell.KeyBackspace2:
		f.leave()
	case tcell.KeyRune:
		switch r := k.Rune(); {
		case r == 'q':
			return quit
		case r == 'k':
			f.first--
		case r == 'j', r == ' ':
			f.first++
		case r == '?' && f.mode == detailing:
			f.mode, f.first = helping, 0
		case r == 'u' && f.mode == detailing:
			f.beginUnlock()
		}
	}
	f.first = max(f.first, 0)
	return none
}

// leave goes back to the table.
func (f *face) leave() {
	f.mode, f.first = listing, 0
	if i := f.index(); i >= 0 {
		f.choose(i)
	} else {
		f.choose(f.at)
	}
}

// filterKey is key while a filter is typed: the view follows each character.
func (f *face) filterKey(k *tcell.EventKey) action {
	switch k.Key() {
	case tcell.KeyEnter:
		f.mode = listing
		return none
	case tcell.KeyEsc:
		f.mode, f.input = listing, []rune(f.before)
	default:
		f.edit(k)
	}
	if f.view.Filter == string(f.input) {
		return none
	}
	f.view.Filter, f.chosen, f.first = string(f.input), "", 0
	return show
}

// edit changes the input by a key.
func (f *face) edit(k *tcell.EventKey) {
	switch k.Key() {
	case tcell.KeyBackspace, tcell.KeyBackspace2:
		f.input = f.input[:max(len(f.input)-1, 0)]
	case tcell.KeyCtrlU:
		f.input = nil
	case tcell.KeyRune:
		if len(f.input) < maxInput {
			f.input = append(f.input, k.Rune())
		}
	}
}
