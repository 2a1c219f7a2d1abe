package node

import (
	"sync/atomic"

	"github.com/redlock-go/redlock/internal/pipe"
	"github.com/redlock-go/redlock/internal/protocol"
	"github.com/redlock-go/redlock/internal/system"
)

// scriptLoader knows which scripts the server must have. Each handshake loads them. It loads them again when
// the server has forgotten them.
type scriptLoader struct {
	needed  atomic.Uint32 // protocol.Families that the client's locks need, beside ForMutexes; written under link.mu
	loading atomic.Bool   // they are being loaded again, on the present connection
}

func (s *scriptLoader) families() protocol.Families {
	return protocol.Families(s.needed.Load()) | protocol.ForMutexes
}

// NeedScripts has the server load the scripts of more families, ahead of the commands that the caller queues next.
// A connection that is made later, or just now, loads them as well.
func (n *Node) NeedScripts(f protocol.Families) {
	n.link.mu.Lock()
	missing := f &^ protocol.Families(n.scripts.needed.Or(uint32(f)))
	p, flush := n.link.pipe.Load(), false
	if p != nil {
		flush, _ = n.scripts.queue(p, n.cfg.Clock, missing, false) // it fails where the connection is broken
	}
	n.link.mu.Unlock()
	if flush {
		p.Flush()
	}
}

// queue queues the scripts of families for loading. If flush is true, the caller must flush the pipe, even after an
// error.
func (s *scriptLoader) queue(p *pipe.Pipe, clock system.Clock, f protocol.Families,
	again bool) (flush bool, err error) {
	scripts := f.Scripts()
	for i, script := range scripts {
		to := &loaded{loader: s, last: again && i == len(scripts)-1}
		writer, _, err := p.Queue(&pipe.Call{Command: "SCRIPT", Args: []any{"LOAD", script.Text()}, To: to}, clock(),
			nil)
		flush = flush || writer
		if err != nil {
			return flush, err
		}
	}
	return flush, nil
}

// reload queues all scripts for loading, once for all callers that found them missing.
// Attempts that come later are behind it on the same connection.
func (s *scriptLoader) reload(p *pipe.Pipe, clock system.Clock) {
	if !s.loading.CompareAndSwap(false, true) {
		return
	}
	flush, err := s.queue(p, clock, s.families(), true)
	if err != nil {
		s.loading.Store(false)
	}
	if flush {
		go p.Flush() // the caller is the reader of this connection
	}
}

// loaded receives the answer to SCRIPT LOAD. An error shows in the votes that follow.
type loaded struct {
	loader *scriptLoader
	last   bool // of those that are loaded again
}

// Receive implements pipe.Receiver.
func (l *loaded) Receive(any, error) {
	if l.last {
		l.loader.loading.Store(false)
	}
}
