package lease

// Done returns a channel that is closed when the handle or the lease ends.
func (h *Handle) Done() <-chan struct{} {
	l, p := h.lease, h.part()
	l.mu.Lock()
	defer l.mu.Unlock()
	if p.done == nil {
		p.done = make(chan struct{})
		if p.released || l.ending.end != nil {
			close(p.done)
		}
	}
	return p.done
}

// AtEnd has f called when the handle or the lease ends, or now if it has. forget takes that back.
func (h *Handle) AtEnd(f func(*End)) (forget func()) {
	l, p := h.lease, h.part()
	l.mu.Lock()
	if end := h.ended(); end != nil {
		l.mu.Unlock()
		f(end) // may call the user's code
		return func() {}
	}
	defer l.mu.Unlock()
	if p.atEnd == nil {
		p.atEnd = make(map[*func(*End)]struct{})
	}
	p.atEnd[&f] = struct{}{}
	return func() {
		l.mu.Lock()
		defer l.mu.Unlock()
		delete(p.atEnd, &f)
	}
}

// runAtEnd calls the functions that AtEnd registered.
func runAtEnd(atEnd map[*func(*End)]struct{}, end *End) {
	for f := range atEnd {
		(*f)(end)
	}
}
