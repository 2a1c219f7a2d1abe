package waitqueue

import (
	"sync"

	"github.com/redlock-go/redlock/internal/protocol"
)

// Holders are the client's owners that are to be told that others want their locks. The nodes send that over the
// channel of wake-ups, and name an owner by its id.
type Holders struct {
	mu   sync.Mutex // protects told; innermost
	told map[string]func()
}

// Expect has f called at each message for the owner, until Forget. f is called in the goroutine of a
// subscription, and must not block.
func (h *Holders) Expect(owner string, f func()) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.told == nil {
		h.told = make(map[string]func())
	}
	h.told[protocol.IDOf(owner)] = f
}

// Forget takes Expect back.
func (h *Holders) Forget(owner string) {
	h.mu.Lock()
	defer h.mu.Unlock()
	delete(h.told, protocol.IDOf(owner))
}

// tell takes a message for the owner with this id.
func (h *Holders) tell(id string) {
	h.mu.Lock()
	f := h.told[id]
	h.mu.Unlock()
	if f != nil {
		f()
	}
}
