package top

import (
	"slices"
	"time"

	"github.com/redlock-go/redlock/internal/overview"
)

// mode is what the keys do.
type mode int

const (
	listing mode = iota
	filtering
	detailing
	helping
	unlocking
)

// face is what the screen shows, and what the keys have chosen.
type face struct {
	snapshot *overview.Snapshot // nil: none has come yet
	view     overview.View      // what the watcher is asked for
	mode     mode
	input    []rune // while filtering or unlocking
	before   string // the filter, if filtering is given up

	chosen string // the ID of the row; "": the first one
	at     int    // its place, if that row is gone
	first  int    // line of the table, or of details, that is the uppermost one
	rows   int    // lines that there was room for

	breaking target // while unlocking
	back     mode   // from which unlocking was begun
	message  span   // above the keys, until the next key
}

// take takes a snapshot. One of another view is out of date.
func (f *face) take(s *overview.Snapshot) {
	if s.View.Filter != f.view.Filter || s.View.Order != f.view.Order {
		return
	}
	f.snapshot = s
	if f.chosen == "" {
		return
	}
	if i := f.index(); i >= 0 {
		f.at = i
	} else if f.mode == listing || f.mode == filtering {
		f.choose(f.at)
	}
}

// index returns the place of the chosen row; -1 if it is not there.
func (f *face) index() int {
	if f.snapshot == nil {
		return -1
	}
	if f.chosen == "" {
		return min(0, len(f.snapshot.Rows)-1)
	}
	return slices.IndexFunc(f.snapshot.Rows, func(r *overview.Row) bool { return r.ID == f.chosen })
}

// row returns the chosen row; nil if it is not there.
func (f *face) row() *overview.Row {
	if i := f.index(); i >= 0 {
		return f.snapshot.Rows[i]
	}
	return nil
}

// choose chooses the i-th row, or the nearest one.
func (f *face) choose(i int) {
	if f.snapshot == nil || len(f.snapshot.Rows) == 0 {
		f.chosen, f.at = "", 0
		return
	}
	f.at = min(max(i, 0), len(f.snapshot.Rows)-1)
	f.chosen = f.snapshot.Rows[f.at].ID
	if f.at == 0 {
		f.chosen = "" // whatever comes first stays chosen
	}
}

// page returns the lines of the screen, of exactly some rows.
func (f *face) page(now time.Time, columns, rows int) (all []line) {
	foot := f.footer(columns)
	room := max(rows-len(foot), 0)
	switch {
	case f.mode == helping:
		all = f.scroll(helpLines(columns), room)
	case f.snapshot == nil:
		all = []line{{{"Looking for locks …", dim}}}
	case f.mode == detailing || f.mode == unlocking && f.back == detailing:
		all = f.detailPage(now, columns, room)
	default:
		all = f.listPage(now, columns, room)
	}
	all = slices.Clone(all[:min(len(all), room)])
	for len(all) < room {
		all = append(all, nil)
	}
	all = append(all, foot...)
	return all[len(all)-min(len(all), rows):]
}

// leastRows are kept for the table, however much stands above it.
const leastRows = 4

// listPage returns the page with the table.
func (f *face) listPage(now time.Time, columns, room int) []line {
	all := header(f.snapshot, now, columns)
	all = all[:min(len(all), max(room-leastRows, 1))]
	w := widths(columns, len(f.snapshot.Masters))
	all = append(all, nil, heading(w))
	if len(f.snapshot.Rows) == 0 {
		return append(all, line{{nothing(f.snapshot), dim}})
	}
	table := items(f.snapshot, now, w)
	chosen := f.row()
	f.rows = max(room-len(all), 1)
	f.follow(table, chosen)
	for i := f.first; i < min(len(table), f.first+f.rows); i++ {
		l := table[i].line(w)
		if table[i].row != nil && table[i].row == chosen && (i == 0 || table[i-1].row != chosen) {
			l = reversed(l, columns)
		}
		all = append(all, l.cut(columns))
	}
	return all
}

// follow moves the first line so that the chosen row shows.
func (f *face) follow(table []item, chosen *overview.Row) {
	at := slices.IndexFunc(table, func(i item) bool { return i.row == chosen })
	end := at
	for end < len(table) && table[end].row == chosen {
		end++
	}
	if at > 0 && table[at-1].row == nil {
		at-- // with its heading
	}
	f.first = min(max(f.first, end-f.rows), at, max(len(table)-f.rows, 0))
	f.first = max(f.first, 0)
}

// reversed marks a whole line as chosen.
func reversed(l line, columns int) line {
	return line{{pad(l.String(), columns, false), selected}}
}

// scroll returns so many lines as there is room for, from the first one on.
func (f *face) scroll(all []line, room int) []line {
	f.rows = max(room, 1)
	f.first = max(min(f.first, len(all)-f.rows), 0)
	return all[f.first:min(len(all), f.first+f.rows)]
}

// keysHelp are the keys of a mode, in short.
var keysHelp = map[mode]string{
	listing:   "/ filter  s sort  ⏎ details  u force-unlock  ? help  q quit",
	detailing: "↑↓ scroll  u force-unlock  Esc back  q quit",
	helping:   "↑↓ scroll  Esc back  q quit",
	filtering: "⏎ keep  Esc give up",
	unlocking: "⏎ take it away  Esc give up",
}

// keysWords are the words whose signs stand beside the keys: help has all.
var keysWords = []overview.Word{overview.SaysHolder, overview.SaysFree, overview.SaysOther, overview.SaysResting,
	overview.SaysNothing}

// footer returns the message or the prompt, and the keys.
func (f *face) footer(columns int) (all []line) {
	switch {
	case f.mode == filtering:
		all = append(all, line{{"filter: ", bold}, {string(f.input) + "▏", plain}})
	case f.mode == unlocking:
		all = f.breaking.prompt(string(f.input), columns)
	case f.message.text != "":
		for _, part := range wrap(f.message.text, columns) {
			all = append(all, line{{part, f.message.tone}})
		}
	}
	help := keysHelp[f.mode]
	if f.mode == listing && f.view.Order != "" && f.view.Order != overview.ByNeed {
		help = "by " + string(f.view.Order) + "  " + help
	}
	keys := line{{help, dim}}
	if f.mode == listing {
		signs := line{}
		for _, w := range keysWords {
			signs = append(signs, span{"  ", plain}, signOf(w.Sign()), span{" " + string(w), dim})
		}
		if room := columns - keys.width() - signs.width(); room >= 2 {
			keys = append(append(keys, span{pad("", room, false), plain}), signs...)
		}
	}
	return append(all, keys.cut(columns))
}
