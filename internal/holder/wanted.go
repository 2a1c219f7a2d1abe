package holder

import (
	"sync"

	"github.com/redlock-go/redlock/internal/protocol"
)

// Wanted are the client's owners that are to be told that others want their locks. The nodes send that over the
// channel of wake-ups, and name an owner by its id.
type Wanted struct {
	mu   sync.Mutex // protects told; innermost
	told map[string]func()
}

// Expect has f called at each message for the owner, until Forget. f is called in the goroutine of a
// subscription, and must not block.
func (w *Wanted) Expect(owner string, f func()) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.told == nil {
		w.told = make(map[string]func())
	}
	w.told[protocol.IDOf(owner)] = f
}

// Forget takes Expect back.
func (w *Wanted) Forget(owner string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	delete(w.told, protocol.IDOf(owner))
}

// tell takes a message for the owner with this id.
func (w *Wanted) tell(id string) {
	w.mu.Lock()
	f := w.told[id]
	w.mu.Unlock()
	if f != nil {
		f()
	}
}
