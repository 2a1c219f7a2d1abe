package redlockweb

import (
	"context"
	"crypto/rand"
	"embed"
	"net/http"
	"sync/atomic"
	"time"

	"github.com/redlock-go/redlock"
	"github.com/redlock-go/redlock/internal/overview"
)

//go:embed style.css script.js
var files embed.FS

//go:embed page.html lock.html
var pages embed.FS

// Handler serves the page. It is safe for concurrent use. Close it when the server has ended, or before
// http.Server.Shutdown, which waits for streams of events.
type Handler struct {
	client  *redlock.Client
	opts    options
	model   *overview.Model
	mux     *http.ServeMux
	origins *http.CrossOriginProtection
	token   string // in the page's forms
	common  commonCache
	rows    rowCache
	streams atomic.Int64
	linger  linger

	life context.Context // until Close
	end  context.CancelFunc
	stop func() // ends the model
}

// options are what Options set.
type options struct {
	title  string
	hosts  []string
	unlock bool
	trips  *RoundTrips
	model  overview.Options
}

// Option is an option of New.
type Option func(*options)

// WithTitle sets the cluster's name in the page's head, such as "prod-eu".
func WithTitle(title string) Option { return func(o *options) { o.title = title } }

// WithHosts allows more values of the Host header than loopback names and the address at which a request
// arrives: the names by which browsers reach the page, such as "locks.example.com", with a port only if
// no other one is allowed. Behind a proxy, it is the Host that the proxy passes on.
func WithHosts(hosts ...string) Option {
	return func(o *options) { o.hosts = append(o.hosts, hosts...) }
}

// WithUnlock lets the page take a lock away from its holder, as Client.ForceUnlock does. A person must
// type the lock's name. Requests of other sites are refused, but the page asks for no password.
func WithUnlock() Option { return func(o *options) { o.unlock = true } }

// WithRoundTrips shows how long each master took to answer.
func WithRoundTrips(trips *RoundTrips) Option { return func(o *options) { o.trips = trips } }

// RoundTrips remembers how long each master took to answer the last Ping. Its method BallotVote is the client's
// Trace.BallotVote. The zero RoundTrips is ready to use, and safe for concurrent use.
type RoundTrips struct{ trips overview.Trips }

// BallotVote records a vote.
func (t *RoundTrips) BallotVote(v redlock.BallotVote) { t.trips.Vote(v) }

// New returns a Handler that shows the locks of the client's nodes with the client's prefix. The caller must
// Close it, and the client after it.
func New(client *redlock.Client, opts ...Option) *Handler {
	h := &Handler{client: client, token: rand.Text(), origins: http.NewCrossOriginProtection()}
	for _, set := range opts {
		set(&h.opts)
	}
	if h.opts.trips != nil {
		h.opts.model.Trips = &h.opts.trips.trips
	}
	h.model, h.stop = overview.Start(client, h.opts.model)
	h.mux = http.NewServeMux()
	h.mux.HandleFunc("/{$}", h.servePage)
	h.mux.HandleFunc("/lock", h.serveLock)
	h.mux.HandleFunc("/unlock", h.serveUnlock)
	h.mux.HandleFunc("/events", h.serveEvents)
	h.mux.HandleFunc("/api/locks", h.serveLocks)
	h.mux.HandleFunc("/api/nodes", h.serveNodes)
	h.mux.HandleFunc("/healthz", h.serveHealth)
	h.mux.HandleFunc("/metrics", h.serveMetrics)
	for _, file := range []string{"/style.css", "/script.js"} {
		h.mux.HandleFunc(file, serveFile)
	}
	h.life, h.end = context.WithCancel(context.Background())
	return h
}

// Close ends the streams of events and what looks at the locks. Requests that come later are answered with 503. It
// returns nil, and may be called again.
func (h *Handler) Close() error {
	h.linger.close()
	h.end()
	h.stop()
	return nil
}

// ServeHTTP answers a request.
func (h *Handler) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	setHeaders(w.Header())
	if why := h.refuses(r); why != "" {
		http.Error(w, why, http.StatusForbidden)
		return
	}
	ctx, cancel := context.WithCancel(r.Context())
	defer cancel()
	defer context.AfterFunc(h.life, cancel)()
	if h.life.Err() != nil {
		http.Error(w, "the page is closed", http.StatusServiceUnavailable)
		return
	}
	h.mux.ServeHTTP(w, r.WithContext(ctx))
}

// serveFile serves the style and the script.
func serveFile(w http.ResponseWriter, r *http.Request) {
	w.Header().Set("Cache-Control", "no-cache")
	http.ServeFileFS(w, r, files, r.URL.Path)
}

// maxLook bounds how long an answer waits for the first listing of the locks.
const maxLook = 30 * time.Second

// snapshot returns a current snapshot of a view. If there is none in time it answers with 503, and returns nil.
func (h *Handler) snapshot(w http.ResponseWriter, r *http.Request, v overview.View) *overview.Snapshot {
	h.linger.on(h.model)
	ctx, cancel := context.WithTimeout(r.Context(), maxLook)
	defer cancel()
	s, err := h.model.Snapshot(ctx, v)
	if err != nil {
		http.Error(w, "the locks are not listed yet: try again", http.StatusServiceUnavailable)
		return nil
	}
	return s
}

// viewOf returns the view that a request's query asks for.
func viewOf(r *http.Request) overview.View {
	v := overview.View{Filter: r.FormValue("filter")}
	for _, order := range overview.Orders()[1:] {
		if r.FormValue("sort") == string(order) {
			v.Order = order
		}
	}
	return v
}

// serveHealth answers whether a quorum votes.
func (h *Handler) serveHealth(w http.ResponseWriter, r *http.Request) {
	if err := h.client.Ping(r.Context()); err != nil {
		http.Error(w, line(err), http.StatusServiceUnavailable)
		return
	}
	w.Header().Set("Content-Type", "text/plain; charset=utf-8")
	_, _ = w.Write([]byte("ok\n"))
}
