package lease

import "context"

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

// endCall is a function that is called when a handle or its lease ends.
type endCall struct {
	f   func(*End)
	ctx context.Context // the call is of no use once it has ended
}

// AtEnd has f called when the handle or the lease ends, or now if it has. forget takes that back, and so
// does the end of ctx, at the latest as further functions are registered.
func (h *Handle) AtEnd(ctx context.Context, f func(*End)) (forget func()) {
	l, p := h.lease, h.part()
	l.mu.Lock()
	if end := h.ended(); end != nil {
		l.mu.Unlock()
		f(end) // may call the user's code
		return func() {}
	}
	defer l.mu.Unlock()
	if ctx.Err() != nil {
		return func() {}
	}
	if p.atEnd == nil {
		p.atEnd = make(map[*endCall]struct{})
	}
	p.dropUseless()
	call := &endCall{f, ctx}
	p.atEnd[call] = struct{}{}
	return func() {
		l.mu.Lock()
		defer l.mu.Unlock()
		delete(p.atEnd, call)
	}
}

// dropUseless looks at a few registered functions, and drops those whose context has ended: more
// than are registered meanwhile, if at least half of all are of no use. A context whose parent ends
// informs nobody, unless its caller cancels it. Called under the lease's lock.
func (p *part) dropUseless() {
	const looks = 4
	seen := 0
	for call := range p.atEnd { // begins anywhere
		if call.ctx.Err() != nil {
			delete(p.atEnd, call)
		}
		if seen++; seen == looks {
			return
		}
	}
}

// runAtEnd calls the functions that AtEnd registered.
func runAtEnd(atEnd map[*endCall]struct{}, end *End) {
	for call := range atEnd {
		call.f(end)
	}
}
