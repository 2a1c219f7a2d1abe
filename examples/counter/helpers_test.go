package main

import (
	"bytes"
	"io"
	"sync"
	"testing"
	"time"
)

// waitFor reports whether the file's number gets to at least n.
func waitFor(file string, n int) bool {
	for deadline := time.Now().Add(20 * time.Second); time.Now().Before(deadline); {
		// While a worker writes, the file may be empty; then look again.
		if number, err := readNumber(file); err == nil && number >= n {
			return true
		}
		time.Sleep(time.Millisecond)
	}
	return false
}

// endless is a lifeline that lasts as long as the test.
type endless struct{ t *testing.T }

func (e endless) Read([]byte) (int, error) {
	<-e.t.Context().Done()
	return 0, io.EOF
}

// syncBuffer is a buffer to which several processes may write.
type syncBuffer struct {
	mu     sync.Mutex
	buffer bytes.Buffer
}

func (b *syncBuffer) Write(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.buffer.Write(p)
}

func (b *syncBuffer) String() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.buffer.String()
}
