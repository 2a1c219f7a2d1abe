package main

import (
	"bytes"
	"io"
	"sync"
	"time"
)

const (
	// maxMessages is how many messages wait to be written, at most. Further ones are lost.
	maxMessages = 256

	// writePatience is how long a message's author waits until it is written, so that messages and results
	// come in their order.
	writePatience = 20 * time.Millisecond

	// endPatience is how long redlock waits at its end for a slow reader of its messages.
	endPatience = time.Second
)

// messages is redlock's stderr. It takes messages also while nothing reads them: a full pipe must keep redlock
// neither from renewing its lock and stopping the command, nor from ending.
type messages struct {
	stderr io.Writer
	over   chan struct{} // closed when all have been written

	mu     sync.Mutex // protects what follows
	queue  chan line
	closed bool
}

// line is what one call of Write has written.
type line struct {
	text    []byte
	written chan struct{} // closed when it is
}

// newMessages starts the goroutine that writes the messages. It ends after end, or never if a write never returns.
func newMessages(stderr io.Writer) *messages {
	m := &messages{stderr: stderr, over: make(chan struct{}), queue: make(chan line, maxMessages)}
	go func() {
		for next := range m.queue {
			_, _ = m.stderr.Write(next.text) // there is nowhere to report it
			close(next.written)
		}
		close(m.over)
	}()
	return m
}

// Write implements io.Writer. It returns no error.
func (m *messages) Write(text []byte) (int, error) {
	next := line{bytes.Clone(text), make(chan struct{})}
	if m.add(next) {
		await(next.written, writePatience)
	}
	return len(text), nil
}

// add queues a message, and reports whether there was room.
func (m *messages) add(next line) bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.closed {
		return false
	}
	select {
	case m.queue <- next:
		return true
	default:
		return false
	}
}

// end waits a while until all messages are written. Later ones are lost.
func (m *messages) end() {
	m.mu.Lock()
	m.closed = true
	close(m.queue)
	m.mu.Unlock()
	await(m.over, endPatience)
}

// await waits until a channel is closed, for so long at most.
func await(done <-chan struct{}, patience time.Duration) {
	timer := time.NewTimer(patience)
	defer timer.Stop()
	select {
	case <-done:
	case <-timer.C:
	}
}
