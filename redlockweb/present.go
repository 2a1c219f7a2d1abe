package redlockweb

import (
	"cmp"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"html/template"
	"net/url"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/redlock-go/redlock/internal/overview"
	"github.com/redlock-go/redlock/internal/printable"
)

const (
	// maxRows is how many rows the page draws: a browser takes a second for ten thousand.
	maxRows = overview.MaxVisible

	// maxListed is how many of them stand in each of the lists before the table of all.
	maxListed = 25

	// maxNamed is how many holders or waiters a row names.
	maxNamed = 3
)

// runbook is where the remedies stand.
const runbook = "https://github.com/redlock-go/redlock/blob/main/docs/operations.md#"

// moment is an instant whose distance from now is shown: the script counts on from Unix.
type moment struct {
	Unix int64  // in milliseconds
	Kind string // "ago", or "left"
	Text string
}

func ago(at, now time.Time) *moment {
	if at.IsZero() {
		return nil
	}
	return &moment{at.UnixMilli(), "ago", printable.Age(max(now.Sub(at), 0))}
}

// vote is what one master says of a row.
type vote struct {
	overview.Sign
	Word overview.Word
}

func votesOf(words []overview.Word) []vote {
	all := make([]vote, len(words))
	for i, w := range words {
		all[i] = vote{w.Sign(), w}
	}
	return all
}

// spoken returns words for a screen reader.
func spoken(words []overview.Word) string {
	texts := make([]string, len(words))
	for i, w := range words {
		texts[i] = string(w)
	}
	return strings.Join(texts, ", ")
}

// maxDrawn is how many combinations of words are kept drawn: most rows of a cluster have one of a few.
const maxDrawn = 1000

// drawnVotes keeps what the votes of rows look like: they are half the text of a row.
var drawnVotes struct {
	mu  sync.Mutex // protects all
	all map[string]template.HTML
}

// drawVotes returns what the words of masters look like.
func drawVotes(words []overview.Word) template.HTML {
	if len(words) == 0 {
		return ""
	}
	key := spoken(words)
	drawnVotes.mu.Lock()
	html, known := drawnVotes.all[key]
	drawnVotes.mu.Unlock()
	if known {
		return html
	}
	html = template.HTML(render("votes", struct {
		Spoken string
		Votes  []vote
	}{key, votesOf(words)}))
	drawnVotes.mu.Lock()
	defer drawnVotes.mu.Unlock()
	if drawnVotes.all == nil || len(drawnVotes.all) >= maxDrawn {
		drawnVotes.all = make(map[string]template.HTML)
	}
	drawnVotes.all[key] = html
	return html
}

// person is a holder or a waiter in a row.
type person struct {
	Label string
	Extra string // the slots, or what it wants
	Since *moment
}

// rowView is what the page shows of a row.
type rowView struct {
	Key     string // of its element, by which the script finds it
	Link    string
	Title   string
	Class   string
	State   string // "" where HeldBy says it
	HeldBy  string
	Holders []person // if there are several
	Since   *moment
	timeLeft
	Votes   template.HTML
	Waiters []person
	Waiting int
	More    int // waiters that are not named
	Token   string
	Asks    bool
	Odd     string
	Says    string
}

func newRowView(r *overview.Row, now time.Time) *rowView {
	v := &rowView{Key: keyOf(r), Link: linkTo(r.Names[0].Raw), Title: r.Title, Class: string(r.Level), HeldBy: r.HeldBy, Since: ago(r.Since, now),
		State: r.Unheld(), timeLeft: leftOf(r.Left, r.Direction, r.Looked, now), Votes: drawVotes(r.Words),
		Waiting: len(r.Waiters), Asks: r.Asks, Odd: r.Odd, Says: r.Says}
	if r.Stale {
		v.Class += " stale"
	}
	if r.Token > 0 {
		v.Token = strconv.FormatInt(r.Token, 10)
	}
	if r.Kind == overview.Permits || r.Kind == overview.Shared {
		v.Holders = holdersOf(r, now)
	}
	for i := range r.Waiters[:min(len(r.Waiters), maxNamed)] {
		w := &r.Waiters[i]
		v.Waiters = append(v.Waiters, person{w.Text(), wants(w.Wants), ago(w.Since, now)})
	}
	v.More = len(r.Waiters) - len(v.Waiters)
	return v
}

// timeLeft is how long a row or a holder lasts.
type timeLeft struct {
	Left    *moment // nil: no time is left, or it does not end
	Endless string  // in its place
	Turn    overview.Direction
}

func leftOf(left time.Duration, turn overview.Direction, looked, now time.Time) timeLeft {
	switch end := looked.Add(left); {
	case left < 0:
		return timeLeft{Endless: overview.NoEnd}
	case left > 0:
		return timeLeft{Left: &moment{end.UnixMilli(), "left", printable.Age(max(end.Sub(now), 0))}, Turn: turn}
	}
	return timeLeft{Turn: turn}
}

// holdersOf returns some of the holders.
func holdersOf(r *overview.Row, now time.Time) (all []person) {
	for i := range r.Holders[:min(len(r.Holders), maxNamed)] {
		h := &r.Holders[i]
		all = append(all, person{h.Label, slotsOf(h), ago(h.Since, now)})
	}
	if more := len(r.Holders) - len(all); more > 0 {
		all = append(all, person{Label: "and " + strconv.Itoa(more) + " more"})
	}
	return all
}

// slotsOf returns the slots of a holder of permits.
func slotsOf(h *overview.Holder) string {
	var b strings.Builder
	for i, slot := range h.Slots {
		if i == maxNamed {
			return b.String() + " …"
		}
		fmt.Fprintf(&b, " #%d", slot)
	}
	return strings.TrimPrefix(b.String(), " ")
}

// wants returns what a waiter wants, unless it is the whole lock.
func wants(what string) string {
	if what == overview.WantsLock {
		return ""
	}
	return what
}

// keyOf returns a text that stands for a row and has nothing of its name: names are others' text.
func keyOf(r *overview.Row) string {
	sum := sha256.Sum256([]byte(r.ID))
	return hex.EncodeToString(sum[:9])
}

// linkTo returns the address of a lock's page.
func linkTo(name string) string { return "lock?name=" + url.QueryEscape(name) }

// masterView is what the page shows of a master.
type masterView struct {
	Node      string
	State     string
	Level     string
	Since     *moment
	Cause     string
	Remedy    string
	Link      string
	RoundTrip string
	Slow      bool
}

// slow is a round trip that a person should know of: ten times that of a good network between datacenters would be
// more, so it counts only beside a master that is much faster.
const slow = 5 * time.Millisecond

func newMasters(s *overview.Snapshot) (all []masterView) {
	fastest := time.Duration(0)
	for i := range s.Masters {
		if t := s.Masters[i].RoundTrip; t > 0 && (fastest == 0 || t < fastest) {
			fastest = t
		}
	}
	for i := range s.Masters {
		m := &s.Masters[i]
		v := masterView{Node: m.Node, State: m.State, Level: string(m.Level), Since: ago(m.Since, s.Taken), Cause: m.Cause, Remedy: m.Remedy}
		if m.Anchor != "" {
			v.Link = runbook + m.Anchor
		}
		if m.RoundTrip > 0 && m.State == "up" {
			v.RoundTrip = printable.Duration(m.RoundTrip)
			v.Slow = m.RoundTrip > slow && m.RoundTrip > 10*fastest
		}
		all = append(all, v)
	}
	return all
}

// pageView is what the page shows.
type pageView struct {
	Name     string // of the cluster
	Unlock   bool
	Now      time.Time
	Headline overview.Headline
	Masters  []masterView
	Down     int // masters that do not vote
	Counts   overview.Counts
	Longest  string

	Waiting, Odd, Rows []*overview.Row
	Matching           int

	Filter string
	Sort   overview.Order
	Orders []orderView

	Age   string // of the list
	Stale bool
	Cause string
	Empty string // what the table says if it has no rows
}

// orderView is a choice of the order.
type orderView struct {
	Order  overview.Order
	Text   string
	Chosen bool
}

var orderTexts = map[overview.Order]string{overview.ByNeed: "by need", overview.ByName: "by name", overview.BySince: "held longest",
	overview.ByLeft: "ends first", overview.ByWaiters: "most waiters"}

// newPage makes the page of a snapshot by need, and of one with the view that was asked for.
func (h *Handler) newPage(need, table *overview.Snapshot) *pageView {
	p := &pageView{Name: h.opts.title, Unlock: h.opts.unlock, Now: need.Taken, Headline: need.Headline, Masters: newMasters(need), Counts: need.Counts,
		Longest: printable.Age(need.Counts.LongestWait), Matching: table.Matching, Filter: table.View.Filter,
		Sort: cmp.Or(table.View.Order, overview.ByNeed), Age: printable.Age(need.Age()),
		Stale: need.Stale, Cause: need.Cause}
	for _, o := range overview.Orders() {
		p.Orders = append(p.Orders, orderView{o, orderTexts[o], o == p.Sort})
	}
	p.Down = need.Headline.Masters - need.Headline.Voting
	for _, r := range need.Rows {
		if len(r.Waiters) > 0 && len(p.Waiting) < maxListed {
			p.Waiting = append(p.Waiting, r)
		}
		if r.Odd != "" && len(p.Odd) < maxListed {
			p.Odd = append(p.Odd, r)
		}
	}
	p.Rows = table.Rows[:min(len(table.Rows), maxRows-len(p.Waiting)-len(p.Odd))]
	switch {
	case !need.IsWhole():
		p.Empty = "Looking at the masters…"
	case p.Filter != "":
		p.Empty = "No lock matches."
	default:
		p.Empty = "Nothing is locked."
	}
	return p
}

// row returns what the page shows of a row; the templates call it.
func (p *pageView) Row(r *overview.Row) *rowView { return newRowView(r, p.Now) }

// templates are all pages and their parts.
var templates = template.Must(template.New("").Funcs(template.FuncMap{"counted": overview.Counted,
	"legend": func() []vote { return votesOf(overview.Words()) }}).ParseFS(pages, "page.html", "lock.html"))
