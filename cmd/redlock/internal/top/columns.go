package top

import "strings"

// The columns of the table, from the left.
const (
	colMark = iota
	colName
	colHolder
	colSince
	colLeft
	colVotes
	colWait
	colOldest
	colNote
	colToken
	columnCount
)

// columns are how the columns look. Names, holders and the note share the room that the others leave.
var columns = [columnCount]struct {
	title   string
	columns int // at least
	right   bool
	from    int // the width of a screen from which it shows
}{
	colMark:   {"", 1, false, 0},
	colName:   {"NAME", 14, false, 0},
	colHolder: {"HELD BY", 14, false, 0},
	colSince:  {"SINCE", 6, true, 72},
	colLeft:   {"LEFT", 8, true, 0},
	colVotes:  {"VOTES", 5, false, 0},
	colWait:   {"WAIT", 4, true, 0},
	colOldest: {"OLDEST", 6, true, 0},
	colNote:   {"NEXT, OR WHY", 14, false, 84},
	colToken:  {"TOKEN", 6, true, 110},
}

// mostNote is how wide the note becomes. With the room of the columns about waiters, all that can be odd
// fits.
const mostNote = 60

// widths returns the columns' widths on a screen of so many columns, with votes of so many masters. A column of
// width 0 does not show.
func widths(screen, masters int) (w [columnCount]int) {
	room := screen + 1
	for i, c := range columns {
		if screen < c.from {
			continue
		}
		w[i] = c.columns
		if i == colVotes {
			w[i] = max(w[i], masters)
		}
		room -= w[i] + 1
	}
	if w[colNote] > 0 {
		more := min(max(room*3/4, 0), mostNote-w[colNote])
		w[colNote], room = w[colNote]+more, room-more
	}
	w[colName] = max(w[colName]+room-room/2, 4)
	w[colHolder] = max(w[colHolder]+room/2, 4)
	return w
}

// natural returns the widths at which no cell is cut.
func natural(rows []cells) (w [columnCount]int) {
	for i, c := range columns {
		w[i] = max(width(c.title), 1)
		for k := range rows {
			w[i] = max(w[i], rows[k][i].width())
		}
	}
	return w
}

// heading returns the titles of the columns.
func heading(w [columnCount]int) line {
	var c cells
	for i := range columns {
		c[i] = line{{columns[i].title, dim}}
	}
	return c.line(w)
}

// line aligns the cells of a row.
func (c *cells) line(w [columnCount]int) (l line) {
	room := 0 // of columns that the note takes with it
	for i, column := range columns {
		if w[i] == 0 {
			continue
		}
		if c.leavesRoom(i) && w[colNote] > 0 {
			room += w[i] + 1
			continue
		}
		if len(l) > 0 {
			l = append(l, span{" ", plain})
		}
		columns := w[i]
		if i == colNote {
			columns += room
		}
		l = append(l, fit(c[i], columns, column.right)...)
	}
	return l
}

// leavesRoom reports whether a column is one of those about waiters, and the row has none: what is odd about it takes
// their room.
func (c *cells) leavesRoom(column int) bool {
	return (column == colWait || column == colOldest) && len(c[colWait]) == 0 && len(c[colNote]) > 0
}

// fit cuts or fills a cell to its column.
func fit(cell line, columns int, right bool) (l line) {
	fill := span{strings.Repeat(" ", max(columns-cell.width(), 0)), plain}
	switch {
	case right:
		l = append(line{fill}, cell...)
	default:
		l = append(cell[:len(cell):len(cell)], fill)
	}
	if cell.width() > columns {
		return l.cut(columns)
	}
	return l
}
