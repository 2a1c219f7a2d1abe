package node

import (
	"sync/atomic"

	"github.com/redlock-go/redlock/internal/pipe"
	"github.com/redlock-go/redlock/internal/protocol"
	"github.com/redlock-go/redlock/internal/system"
)

// scriptLoader loads the scripts again when the server has forgotten them.
type scriptLoader struct {
	loading atomic.Bool // they are being loaded again, on the present connection
}

// reload queues the scripts for loading, once for all callers that found them missing.
// Attempts that come later are behind it on the same connection.
func (s *scriptLoader) reload(p *pipe.Pipe, clock system.Clock) {
	if !s.loading.CompareAndSwap(false, true) {
		return
	}
	for i, script := range protocol.Loaded {
		to := &loaded{loader: s, last: i == len(protocol.Loaded)-1}
		flush, _, err := p.Queue(&pipe.Call{Command: "SCRIPT", Args: []any{"LOAD", script.Text}, To: to}, clock(), nil)
		if err != nil {
			s.loading.Store(false)
			return
		}
		if flush {
			go p.Flush() // the caller is the reader of this connection
		}
	}
}

// loaded receives the answer to SCRIPT LOAD. An error shows in the votes that follow.
type loaded struct {
	loader *scriptLoader
	last   bool
}

// Receive implements pipe.Receiver.
func (l *loaded) Receive(any, error) {
	if l.last {
		l.loader.loading.Store(false)
	}
}
