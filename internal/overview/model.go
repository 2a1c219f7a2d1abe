package overview

import (
	"context"
	"iter"
	"sync"
	"time"

	"github.com/redlock-go/redlock"
	"github.com/redlock-go/redlock/internal/system"
)

// Source is what a Model asks. *redlock.Client is one; each method is as it has it.
type Source interface {
	Locks(ctx context.Context, pattern string) iter.Seq2[redlock.Status, error]
	Inspect(ctx context.Context, name string) (redlock.Status, error)
	Ping(ctx context.Context) error
	Stats() redlock.Stats
}

// Options are a Model's. The zero Options are a program's.
type Options struct {
	Pattern string // of the names that are listed, as Client.Locks has it; "": all
	Trips   *Trips // has the round trips; nil: they are not known

	// OnPanic is called ahead of a panic of the Model's goroutine, which ends the process: a terminal must be restored
	// first, so that its text can be read. nil: nothing is called.
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

// New returns a Model that does not run: Start returns one that does. Nothing is asked before somebody watches.
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

// Start returns a Model that runs, and the function that ends it: stop returns when all that the Model has started has
// ended, and may be called again. Each face begins so.
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
	last    *Snapshot // that was delivered; the Model's goroutine has it
}

// deliver puts a snapshot in the place of one that was not received. The Model's goroutine alone calls it.
func (w *Watcher) deliver(s *Snapshot) {
	select {
	case <-w.updates:
	default:
	}
	w.updates <- s
}

// Updates returns the channel of the snapshots: it has the latest one that was not received yet. The first comes at
// once if the model has a current picture, else when the next pass has ended or failed. It is never closed.
func (w *Watcher) Updates() <-chan *Snapshot { return w.updates }

// Show changes the view. A snapshot of it comes soon; one of the view before may come ahead of it: see
// Snapshot.View.
func (w *Watcher) Show(v View) { w.model.set(w, v) }

// Close ends the watching. It may be called again.
func (w *Watcher) Close() {
	w.model.mu.Lock()
	defer w.model.mu.Unlock()
	delete(w.model.watchers, w)
	w.model.notify()
}
