package overview

import (
	"context"
	"iter"
	"sync"
	"time"

	"github.com/redlock-go/redlock"
	"github.com/redlock-go/redlock/internal/system"
)

// Source is a Model's source of answers. *redlock.Client is one, and documents the methods.
type Source interface {
	Locks(ctx context.Context, pattern string) iter.Seq2[redlock.Status, error]
	Inspect(ctx context.Context, name string) (redlock.Status, error)
	Ping(ctx context.Context) error
	Stats() redlock.Stats
}

// Options are a Model's. A program uses the zero Options.
type Options struct {
	Pattern string // of the listed names, as for Client.Locks; "": all
	Trips   *Trips // has the round trips; nil: they are not known

	// OnPanic, unless it is nil, is called when the Model's goroutine panics, before the process
	// ends: a terminal must be restored first, so that the panic can be read.
	OnPanic func()

	Clock system.Clock // nil: system.Now
	Wall  system.Wall  // nil: time.Now
}

// Model looks at the locks of a cluster for its watchers. It is safe for concurrent use.
type Model struct {
	source Source
	opts   Options

	mu       sync.Mutex // protects what follows
	watchers map[*Watcher]View
	changed  chan struct{} // has a value when watchers has changed
}

// New returns a Model that does not run. It asks nothing before it has a watcher.
func New(source Source, opts Options) *Model {
	if opts.Pattern == "" {
		opts.Pattern = "*"
	}
	if opts.Clock == nil {
		opts.Clock = system.Now
	}
	if opts.Wall == nil {
		opts.Wall = time.Now
	}
	return &Model{source: source, opts: opts, watchers: make(map[*Watcher]View), changed: make(chan struct{}, 1)}
}

// Start returns a running Model, and the function that ends it: stop returns when all goroutines of
// the Model have ended, and may be called again.
func Start(source Source, opts Options) (m *Model, stop func()) {
	m = New(source, opts)
	ctx, cancel := context.WithCancel(context.Background())
	over := make(chan struct{})
	go func() {
		defer close(over)
		defer func() {
			if p := recover(); p != nil {
				if opts.OnPanic != nil {
					opts.OnPanic()
				}
				panic(p)
			}
		}()
		m.run(ctx)
	}()
	return m, func() {
		cancel()
		<-over
	}
}

// Watch begins to watch. The caller must Close the Watcher.
func (m *Model) Watch(v View) *Watcher {
	w := &Watcher{model: m, updates: make(chan *Snapshot, 1)}
	m.set(w, v)
	return w
}

// Snapshot returns a current snapshot for a view: it watches until the first one of a whole pass
// comes. If none has come when ctx ends, it returns ctx's cause.
func (m *Model) Snapshot(ctx context.Context, v View) (*Snapshot, error) {
	w := m.Watch(v)
	defer w.Close()
	for {
		select {
		case s := <-w.Updates():
			if s.IsWhole() {
				return s, nil
			}
		case <-ctx.Done():
			return nil, context.Cause(ctx)
		}
	}
}

func (m *Model) set(w *Watcher, v View) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.watchers[w] = v
	m.notify()
}

// notify wakes run. The caller must hold mu.
func (m *Model) notify() {
	select {
	case m.changed <- struct{}{}:
	default:
	}
}

// Watcher receives the snapshots of one view.
type Watcher struct {
	model   *Model
	updates chan *Snapshot
	last    *Snapshot // that was delivered; the Model's goroutine owns it
}

// deliver replaces a snapshot that was not received. Only the Model's goroutine calls it.
func (w *Watcher) deliver(s *Snapshot) {
	select {
	case <-w.updates:
	default:
	}
	w.updates <- s
}

// Updates returns the channel of the latest snapshot that was not received yet. The first comes at
// once if the model has a current picture, else after the next pass. It is never closed.
func (w *Watcher) Updates() <-chan *Snapshot { return w.updates }

// Show changes the view. A snapshot of the view before may still come first: see Snapshot.View.
func (w *Watcher) Show(v View) { w.model.set(w, v) }

// Close ends the watching. It may be called again.
func (w *Watcher) Close() {
	w.model.mu.Lock()
	defer w.model.mu.Unlock()
	delete(w.model.watchers, w)
	w.model.notify()
}
