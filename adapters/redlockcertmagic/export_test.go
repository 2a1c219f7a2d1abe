package redlockcertmagic

// Slots returns how many names the storage knows.
func (s *Storage) Slots() int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.slots)
}
