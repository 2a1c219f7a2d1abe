package redlockweb

import (
	"bytes"
	"context"
	"encoding/json"
	"net/http"
	"slices"
	"time"

	"github.com/redlock-go/redlock/internal/overview"
)

const (
	// maxStreams bounds how many browsers are served at a time.
	maxStreams = 100

	// minPause is the shortest time between two events of a stream.
	minPause = 250 * time.Millisecond

	// maxSilence is the longest time without a sign of life: it finds out which browsers are gone.
	maxSilence = 15 * time.Second

	// maxWrite is how long a browser may take to read an event.
	maxWrite = 10 * time.Second
)

// commonParts are the parts of the page, but for rows, that events bring anew and that are the same in all views: of
// templates and elements.
var commonParts = []string{"sentence", "masters", "stale", "waiting-head", "odd-head", "all-head"}

// event is what has changed on a page.
type event struct {
	Now   int64             `json:"now"` // in milliseconds
	Parts map[string]string `json:"parts"`
	Lists map[string]*list  `json:"lists"`
}

// list is a table's rows: the keys of all, unless they are as before, and the rows that have changed.
type list struct {
	Order []string          `json:"order"` // nil: as before
	Rows  map[string]string `json:"rows"`
}

// stream is what one browser has been sent.
type stream struct {
	h     *Handler
	parts map[string]string
	rows  map[string][]*overview.Row // by list
}

// serveEvents sends what has changed, as server-sent events, until the browser leaves or the Handler is closed.
func (h *Handler) serveEvents(w http.ResponseWriter, r *http.Request) {
	defer h.streams.Add(-1)
	if h.streams.Add(1) > maxStreams {
		http.Error(w, "too many browsers watch", http.StatusServiceUnavailable)
		return
	}
	w.Header().Set("Content-Type", "text/event-stream")
	w.Header().Set("X-Accel-Buffering", "no")
	if r.Method == http.MethodHead {
		return
	}
	to := http.NewResponseController(w)
	write := func(text []byte) bool {
		_ = to.SetWriteDeadline(time.Now().Add(maxWrite)) // not every server can
		_, err := w.Write(text)
		return err == nil && to.Flush() == nil
	}
	eyes, s := h.open(viewOf(r)), stream{h: h, parts: make(map[string]string), rows: make(map[string][]*overview.Row)}
	defer eyes.close()
	for alive := write([]byte("retry: 2000\n\n")); alive; {
		ctx, cancel := context.WithTimeout(r.Context(), maxSilence)
		isNew := eyes.next(ctx)
		cancel()
		switch {
		case r.Context().Err() != nil:
			return
		case !isNew:
			alive = write([]byte(": nothing new\n\n"))
		default:
			alive = write(s.event(eyes.need, eyes.table)) && pause(r.Context(), minPause)
		}
	}
}

// pause waits, and reports whether ctx goes on.
func pause(ctx context.Context, d time.Duration) bool {
	select {
	case <-time.After(d):
		return true
	case <-ctx.Done():
		return false
	}
}

// event returns what brings the page up to date.
func (s *stream) event(need, table *overview.Snapshot) []byte {
	page := s.h.newPage(need, table)
	e := event{Now: time.Now().UnixMilli(), Parts: make(map[string]string), Lists: make(map[string]*list)}
	bring := func(name, html string) {
		if sent, known := s.parts[name]; !known || html != sent {
			s.parts[name], e.Parts[name] = html, html
		}
	}
	for name, html := range s.h.common.of(page, need) {
		bring(name, html)
	}
	bring("shown", render("shown", page))
	for name, rows := range map[string][]*overview.Row{"waiting": page.Waiting, "odd": page.Odd, "rows": page.Rows} {
		if l := s.list(name, rows, page.Now); l != nil {
			e.Lists[name] = l
		}
	}
	var b bytes.Buffer
	b.WriteString("data: ")
	to := json.NewEncoder(&b)
	to.SetEscapeHTML(false) // it is no part of a page, and would be twice as long
	_ = to.Encode(&e)       // it cannot fail, and ends the line
	b.WriteByte('\n')
	return b.Bytes()
}

// rowTemplates are the templates of rows, by list.
var rowTemplates = map[string]string{"waiting": "waiting-row", "odd": "odd-row", "rows": "all-row"}

// list returns what brings a table up to date; nil if it is.
func (s *stream) list(name string, rows []*overview.Row, now time.Time) *list {
	before, known := s.rows[name]
	if known && slices.Equal(before, rows) {
		return nil
	}
	s.rows[name] = rows
	has := make(map[*overview.Row]bool, len(before))
	for _, r := range before {
		has[r] = true
	}
	l := &list{Rows: make(map[string]string)}
	for _, r := range rows {
		if !has[r] {
			l.Rows[keyOf(r)] = s.h.rows.html(rowTemplates[name], r, now)
		}
	}
	sameRow := func(a, b *overview.Row) bool { return a.ID == b.ID }
	if !known || !slices.EqualFunc(before, rows, sameRow) {
		l.Order = make([]string, len(rows))
		for i, r := range rows {
			l.Order[i] = keyOf(r)
		}
	}
	return l
}
