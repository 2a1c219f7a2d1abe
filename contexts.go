package redlock

import "context"

// contextSet are the contexts that end with a lease.
type contextSet map[*context.CancelCauseFunc]struct{}

// mark notes that the lease has ended, and returns the contexts to cancel.
// Called under h.mu.
func (h *holding) mark(why error) contextSet {
	h.err = why
	h.handle = nil
	if h.done != nil {
		close(h.done)
	}
	contexts := h.contexts
	h.contexts = nil
	return contexts
}

func (h *holding) cancel(contexts contextSet, why error) {
	for cancel := range contexts {
		(*cancel)(h.refuse("hold", why))
	}
}

// atEnd has cancel called when the lease ends, or now if it has. forget takes
// that back.
func (h *holding) atEnd(cancel context.CancelCauseFunc) (forget func()) {
	h.mu.Lock()
	if why := h.ended(); why != nil {
		h.mu.Unlock()
		cancel(h.refuse("hold", why)) // may call the user's code
		return func() {}
	}
	defer h.mu.Unlock()
	if h.contexts == nil {
		h.contexts = make(contextSet)
	}
	h.contexts[&cancel] = struct{}{}
	return func() {
		h.mu.Lock()
		defer h.mu.Unlock()
		delete(h.contexts, &cancel)
	}
}
