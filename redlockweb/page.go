package redlockweb

import (
	"bytes"
	"context"
	"net/http"
	"strings"
	"sync"
	"time"

	"github.com/redlock-go/redlock/internal/overview"
)

// firstLook is how long the page waits for the first listing of the locks; events bring it later.
const firstLook = 3 * time.Second

// servePage serves the page with all that is known.
func (h *Handler) servePage(w http.ResponseWriter, r *http.Request) {
	ctx, cancel := context.WithTimeout(r.Context(), firstLook)
	defer cancel()
	eyes := h.open(viewOf(r))
	defer eyes.close()
	for eyes.next(ctx) && !eyes.need.IsWhole() {
	}
	if eyes.need == nil || eyes.table == nil {
		empty := &overview.Snapshot{Taken: time.Now(), View: viewOf(r), Headline: overview.Headline{Text: "Looking at the masters…", Level: overview.Warning}}
		eyes.need, eyes.table = empty, empty
	}
	respond(w, "page", h.newPage(eyes.need, eyes.table))
}

// respond answers with a page.
func respond(w http.ResponseWriter, name string, data any) {
	var page bytes.Buffer
	if err := templates.ExecuteTemplate(&page, name, data); err != nil {
		http.Error(w, line(err), http.StatusInternalServerError)
		return
	}
	w.Header().Set("Content-Type", "text/html; charset=utf-8")
	_, _ = w.Write(page.Bytes())
}

// eyes watch the locks by need, for the page's first lists, and in the view of its table.
type eyes struct {
	byNeed, inView *overview.Watcher // inView is nil if both views are one
	need, table    *overview.Snapshot
}

func (h *Handler) open(v overview.View) *eyes {
	h.linger.on(h.model)
	e := &eyes{byNeed: h.model.Watch(overview.View{})}
	if v != (overview.View{}) {
		e.inView = h.model.Watch(v)
	}
	return e
}

func (e *eyes) close() {
	e.byNeed.Close()
	if e.inView != nil {
		e.inView.Close()
	}
}

// next waits for something new, and until both snapshots are there and of one instant: the model makes those of all views
// at once. It returns false if ctx ends before.
func (e *eyes) next(ctx context.Context) bool {
	var second <-chan *overview.Snapshot
	if e.inView != nil {
		second = e.inView.Updates()
	}
	for {
		select {
		case e.need = <-e.byNeed.Updates():
			if e.inView == nil {
				e.table = e.need
			}
		case e.table = <-second:
		case <-ctx.Done():
			return false
		}
		if e.need != nil && e.table != nil && e.need.Taken.Equal(e.table.Taken) {
			return true
		}
	}
}

// commonCache keeps what the common parts look like, so that each is made once for all browsers.
type commonCache struct {
	mu   sync.Mutex // protects what follows
	need *overview.Snapshot
	html map[string]string // nobody changes it
}

// of returns the common parts of a page, which was made of a snapshot by need.
func (c *commonCache) of(page *pageView, need *overview.Snapshot) map[string]string {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.need != need {
		c.need, c.html = need, make(map[string]string, len(commonParts))
		for _, name := range commonParts {
			c.html[name] = render(name, page)
		}
	}
	return c.html
}

// rowCache keeps what rows look like, so that each is made once for all browsers. Rows of the newest thousands stay.
type rowCache struct {
	mu       sync.Mutex // protects what follows
	now, old map[drawn]string
}

// drawn is a row in one of the lists.
type drawn struct {
	list string
	row  *overview.Row
}

// maxCached is how many rows are kept, in two generations.
const maxCached = 2000

// html returns what a row looks like. Its texts of times are old; the script counts on from their instants.
func (c *rowCache) html(list string, r *overview.Row, now time.Time) string {
	c.mu.Lock()
	defer c.mu.Unlock()
	key := drawn{list, r}
	text, known := c.now[key]
	if known {
		return text
	}
	if text, known = c.old[key]; !known {
		text = render(list, newRowView(r, now))
	}
	if c.now == nil || len(c.now) >= maxCached {
		c.now, c.old = make(map[drawn]string), c.now
	}
	c.now[key] = text
	return text
}

// render returns a part of the page.
func render(name string, data any) string {
	var b strings.Builder
	if err := templates.ExecuteTemplate(&b, name, data); err != nil {
		return "" // the templates are the package's own, and a test renders each
	}
	return b.String()
}
