package redlockweb

import (
	"sync"
	"time"

	"github.com/redlock-go/redlock/internal/overview"
)

// lingerFor is how long the model goes on after an answer: longer than it takes until a page without script loads itself
// again. So its listings come to an end, and the next page has the newest one at once.
const lingerFor = 12 * time.Second

// linger watches the locks by need for some time after the last request.
type linger struct {
	mu      sync.Mutex        // protects what follows
	watcher *overview.Watcher // nil: it does not watch
	end     *time.Timer
	closed  bool
}

// on watches from now on, or goes on.
func (l *linger) on(m *overview.Model) {
	l.mu.Lock()
	defer l.mu.Unlock()
	switch {
	case l.closed:
	case l.watcher == nil:
		l.watcher = m.Watch(overview.View{})
		l.end = time.AfterFunc(lingerFor, l.off)
	default:
		l.end.Reset(lingerFor)
	}
}

// off ends the watching.
func (l *linger) off() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.stop()
}

// close ends it for good.
func (l *linger) close() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.closed = true
	l.stop()
}

// stop ends the watching. The caller must hold mu.
func (l *linger) stop() {
	if l.watcher != nil {
		l.end.Stop()
		l.watcher.Close()
		l.watcher = nil
	}
}
