package testnet

import (
	"crypto/fips140"
	"crypto/rand"
	"io"
	mathrand "math/rand/v2"
	"sync"
)

// In FIPS mode crypto/rand measures time for its entropy, which does not pass in a bubble: a read there ends the
// process.
func init() {
	if fips140.Enabled() {
		var seed [32]byte
		_, _ = rand.Read(seed[:]) // it never fails
		rand.Reader = &bubbleReader{from: mathrand.NewChaCha8(seed)}
	}
}

// bubbleReader is randomness for tests, from no entropy.
type bubbleReader struct {
	mu   sync.Mutex
	from io.Reader
}

func (r *bubbleReader) Read(p []byte) (int, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.from.Read(p)
}
