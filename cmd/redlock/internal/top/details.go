package top

import (
	"fmt"
	"time"

	"github.com/redlock-go/redlock/internal/overview"
	"github.com/redlock-go/redlock/internal/printable"
)

// detailPage returns the page about the chosen row.
func (f *face) detailPage(now time.Time, columns, room int) []line {
	all := sentence(f.snapshot, now, columns)
	r := f.row()
	if r == nil {
		return append(all, nil, line{{"This lock is not in the list any more.", dim}})
	}
	all = append(all, nil)
	return append(all, f.scroll(detailLines(f.snapshot, r, now, columns), room-len(all))...)
}

// detailLines returns all that is known of a row.
func detailLines(s *overview.Snapshot, r *overview.Row, now time.Time, columns int) (all []line) {
	add := func(l line) { all = append(all, l.cut(columns)) }
	add(line{{r.Title, bold}, {"  " + string(r.State), levelTone(r.Level, good)}, {kindText(r), dim}})
	if r.Odd != "" {
		for _, part := range wrap(r.Odd, columns-2) {
			add(line{{"! " + part, levelTone(r.Level, warn)}})
		}
	}
	if r.Stale {
		add(line{{"Too few masters answer; " + r.Says, warn}})
	}
	for i := range r.Names {
		if len(r.Names) > 1 {
			add(line{{"  name      ", dim}, {r.Names[i].Text, plain}})
		}
	}
	if r.Asks {
		add(line{{"  The holder lets go if it is asked: redlock ask.", dim}})
	}
	for i := range r.Holders {
		all = append(all, holderLines(&r.Holders[i], r, now, columns)...)
	}
	all = append(all, nil)
	add(line{{"MASTERS", dim}})
	for i := range s.Masters {
		add(masterLine(&s.Masters[i], r, i))
	}
	if len(r.Waiters) > 0 {
		all = append(all, nil)
		add(line{{fmt.Sprintf("QUEUE: %s", overview.Counted(len(r.Waiters), "caller")), dim}})
	}
	for i := range r.Waiters {
		w := &r.Waiters[i]
		text := fmt.Sprintf("  waits for %s, wants %s, at %s", since(w.Since, now), w.Wants,
			overview.Counted(w.Nodes, "master"))
		add(line{{fmt.Sprintf("%4d. ", i+1), dim}, {w.Text(), plain}, {text, plain}})
	}
	return all
}

// kindText returns what a row is, if it is not a lock that one owner has.
func kindText(r *overview.Row) string {
	switch {
	case r.Kind == overview.Permits && r.Limit > 0:
		return fmt.Sprintf("  semaphore of %s", overview.Counted(r.Limit, "permit"))
	case r.Kind == overview.Permits:
		return "  semaphore"
	case r.Kind == overview.Shared:
		return "  by readers"
	case r.Kind == overview.Set:
		return "  several locks of one owner"
	}
	return ""
}

// holderLines returns what is known of a holder.
func holderLines(h *overview.Holder, r *overview.Row, now time.Time, columns int) (all []line) {
	slots := ""
	for _, k := range h.Slots {
		slots += fmt.Sprintf(" #%d", k)
	}
	text := "  held by   "
	if !h.Holds {
		text = "  has keys  "
	}
	all = append(all, line{{text, dim}, {h.Label, bold}, {slots, dim}})
	time := line{{"            for ", dim}, {since(h.Since, now), plain}, {", ", dim}}
	if h.Left < 0 {
		time = append(time, span{overview.NoEnd, warn})
	} else {
		time = append(time, span{"ends in ", dim}, span{printable.Age(r.LeftAt(h.Left, now)), plain},
			span{turn(h.Direction), dim})
	}
	all = append(all, append(time, span{", at " + overview.Counted(h.Masters, "master"), dim}))
	if h.Token > 0 {
		all = append(all, line{{"            token ", dim}, {fmt.Sprint(h.Token), plain}})
	}
	all = append(all, line{{"            owner ", dim}, {h.Owner, dim}})
	for i := range all {
		all[i] = all[i].cut(columns)
	}
	return all
}

// turn returns a direction in words.
func turn(d overview.Direction) string {
	switch d {
	case overview.Renews:
		return " unless renewed, as it is"
	case overview.RunsDown:
		return ", and " + d.Sign().Text
	}
	return " unless renewed"
}

// masterLine returns what a master says of a row.
func masterLine(m *overview.Master, r *overview.Row, i int) line {
	l := line{{fmt.Sprintf("%4d  ", m.Index), dim}, {address(m), plain}, {"  ", plain}}
	if i >= len(r.Words) {
		return append(l, span{"?", dim})
	}
	sign := r.Words[i].Sign()
	return append(l, signOf(sign), span{" " + sign.Text, plain})
}
