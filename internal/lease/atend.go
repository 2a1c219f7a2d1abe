package lease

// Done returns a channel that is closed when the lease ends.
func (l *Lease) Done() <-chan struct{} {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.ending.done == nil {
		l.ending.done = make(chan struct{})
		if l.ending.end != nil {
			close(l.ending.done)
		}
	}
	return l.ending.done
}

// AtEnd has f called when the lease ends, or now if it has. forget takes that back.
func (l *Lease) AtEnd(f func(*End)) (forget func()) {
	l.mu.Lock()
	if end := l.ended(); end != nil {
		l.mu.Unlock()
		f(end) // may call the user's code
		return func() {}
	}
	defer l.mu.Unlock()
	if l.ending.atEnd == nil {
		l.ending.atEnd = make(map[*func(*End)]struct{})
	}
	l.ending.atEnd[&f] = struct{}{}
	return func() {
		l.mu.Lock()
		defer l.mu.Unlock()
		delete(l.ending.atEnd, &f)
	}
}

// runAtEnd calls the functions that AtEnd registered.
func runAtEnd(atEnd map[*func(*End)]struct{}, end *End) {
	for f := range atEnd {
		(*f)(end)
	}
}
