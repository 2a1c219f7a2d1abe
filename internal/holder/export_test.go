package holder

// Len returns the number of owners that are to be told that others want their locks.
func (w *Wanted) Len() int {
	w.mu.Lock()
	defer w.mu.Unlock()
	return len(w.told)
}

// Len returns the number of locks that are observed, and of owners that were asked.
func (b *Board) Len() (observed, asked int) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return len(b.observed) + len(b.order), len(b.asked)
}
