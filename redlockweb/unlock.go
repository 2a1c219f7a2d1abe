package redlockweb

import (
	"cmp"
	"html/template"
	"maps"
	"net/http"
	"slices"
	"strconv"
	"time"

	"github.com/redlock-go/redlock/internal/overview"
	"github.com/redlock-go/redlock/internal/printable"
)

// maxForm bounds the size of a form.
const maxForm = 64 << 10

// lockView is the page of one lock.
type lockView struct {
	Name      string // of the cluster
	Unlock    bool
	Now       time.Time
	Text      string // the lock's name
	Link      string
	Row       *rowView // nil: nothing stands for it
	Holders   []holderView
	Waiters   []person
	Masters   []saying
	Breakable []breakable
	Token     string // of the form
}

// holderView is what the page shows of a holder.
type holderView struct {
	Label, Owner string
	Names        []string
	Since        *moment
	timeLeft
	Votes template.HTML
	Token string
}

// saying is what a master says of the lock.
type saying struct {
	Node string
	vote
}

// breakable is a lock that can be taken away from those that the page shows as its owners.
type breakable struct {
	Text, Action string
	Owners       []string
}

// serveLock serves the page of one lock.
func (h *Handler) serveLock(w http.ResponseWriter, r *http.Request) {
	name := r.FormValue("name")
	if name == "" {
		http.Error(w, "the lock's name is missing", http.StatusBadRequest)
		return
	}
	s := h.snapshot(w, r, overview.View{Filter: name, All: true})
	if s == nil {
		return
	}
	v := &lockView{Name: h.opts.title, Unlock: h.opts.unlock, Now: s.Taken, Text: confirmation(name), Link: linkTo(name), Token: h.token}
	if row := find(s, name); row != nil {
		v.add(row, s)
	}
	respond(w, "lock", v)
}

// find returns the row of a lock, or of a slot of a semaphore; nil if there is none.
func find(s *overview.Snapshot, name string) *overview.Row {
	is := func(n overview.Name) bool { return n.Raw == name }
	for _, r := range s.Rows {
		if slices.ContainsFunc(r.Names, is) || slices.ContainsFunc(r.Holders, func(h overview.Holder) bool { return slices.ContainsFunc(h.Names, is) }) {
			return r
		}
	}
	return nil
}

// add adds what stands for the lock.
func (v *lockView) add(r *overview.Row, s *overview.Snapshot) {
	v.Row = newRowView(r, s.Taken)
	v.Row.State = string(r.State)
	owners := make(map[string][]string) // by name
	for i := range r.Holders {
		held := &r.Holders[i]
		about := holderView{Label: held.Label, Owner: held.Owner, Since: ago(held.Since, s.Taken),
			timeLeft: leftOf(held.Left, held.Direction, r.Looked, s.Taken), Votes: drawVotes(held.Words)}
		if held.Token > 0 {
			about.Token = strconv.FormatInt(held.Token, 10)
		}
		for _, n := range held.Names {
			about.Names = append(about.Names, n.Text)
			owners[n.Raw] = append(owners[n.Raw], held.Owner)
		}
		v.Holders = append(v.Holders, about)
	}
	for _, name := range slices.Sorted(maps.Keys(owners)) {
		v.Breakable = append(v.Breakable, breakable{confirmation(name), "un" + linkTo(name), owners[name]})
	}
	for i := range r.Waiters {
		w := &r.Waiters[i]
		v.Waiters = append(v.Waiters, person{w.Text(), wants(w.Wants), ago(w.Since, s.Taken)})
	}
	for i, word := range votesOf(r.Words) {
		if i < len(s.Masters) {
			v.Masters = append(v.Masters, saying{s.Masters[i].Node, word})
		}
	}
}

// confirmation is what a person must type to take a lock away: its name, as far as it can be typed.
func confirmation(name string) string { return printable.Quote(name) }

// brokenView says what an unlock has done.
type brokenView struct {
	Name    string // of the cluster
	Text    string // the lock's name
	Link    string
	Was     string // the holder; "": nobody held it
	Token   int64
	Failure string
}

// serveUnlock takes a lock away from its holder. Its Host and its origin were checked.
func (h *Handler) serveUnlock(w http.ResponseWriter, r *http.Request) {
	if r.Method != http.MethodPost {
		http.Error(w, "unlock by the form on the lock's page", http.StatusMethodNotAllowed)
		return
	}
	r.Body = http.MaxBytesReader(w, r.Body, maxForm)
	name := r.URL.Query().Get("name")
	switch {
	case !h.hasToken(r):
		http.Error(w, "the form is not of this page, or the page was started anew: look at the lock again", http.StatusForbidden)
		return
	case name == "" || r.PostFormValue("typed") != confirmation(name):
		http.Error(w, "the name that was typed is not the lock's: nothing was changed", http.StatusForbidden)
		return
	}
	was, err := h.client.Inspect(r.Context(), name)
	switch has := overview.HasOwner(was, r.PostForm["owner"]); {
	case has: // ForceUnlock finds out what can be done without a quorum
		was, err = h.client.ForceUnlock(r.Context(), name)
	case err == nil:
		http.Error(w, overview.HolderNow(was)+": nothing was changed; look at the lock again", http.StatusConflict)
		return
	}
	v := brokenView{Name: h.opts.title, Text: confirmation(name), Link: linkTo(name), Was: overview.HeldBy(was, overview.StateOf(was)), Token: was.Token}
	if err != nil {
		v.Failure = cmp.Or(line(err), "?")
	}
	respond(w, "broken", v)
}
