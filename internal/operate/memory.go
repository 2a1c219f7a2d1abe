package operate

import (
	"crypto/sha256"
	"encoding/binary"
)

// MaxMemory is how many names a listing remembers. The memory takes ten megabytes at most.
const MaxMemory = 1 << 18

// subject is what a name stands for: a lock and a semaphore of one name are two of them.
type subject struct {
	name      string
	semaphore bool
}

// memory has the names that were shown, up to a limit: eight bytes of a hash of each. The hash is
// one for which nobody can find a name that hides another.
type memory struct {
	limit int
	names map[uint64]struct{}
}

// newMemory makes a memory for so many names; 0: MaxMemory.
func newMemory(limit int) *memory {
	if limit == 0 {
		limit = MaxMemory
	}
	return &memory{limit: limit, names: make(map[uint64]struct{})}
}

// add remembers a name, unless the memory is full.
func (m *memory) add(s subject) {
	if !m.isFull() {
		m.names[fingerprint(s)] = struct{}{}
	}
}

// has reports whether the memory has the name.
func (m *memory) has(s subject) bool {
	_, is := m.names[fingerprint(s)]
	return is
}

// isFull reports whether the memory takes no more names.
func (m *memory) isFull() bool { return len(m.names) >= m.limit }

func fingerprint(s subject) uint64 {
	text := "lock " + s.name
	if s.semaphore {
		text = "semaphore " + s.name
	}
	sum := sha256.Sum256([]byte(text))
	return binary.BigEndian.Uint64(sum[:])
}
