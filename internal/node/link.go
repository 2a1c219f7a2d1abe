package node

import (
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"github.com/redlock-go/redlock/internal/pipe"
)

// link is a node's connection, if it has one. Its lock also protects what a new connection
// must take over before callers use it: the undos and the old connections.
type link struct {
	pipe atomic.Pointer[pipe.Pipe] // nil while there is no connection; stored under mu

	mu   sync.Mutex // protects what follows; pipes' locks may be taken under it
	down error      // why pipe is nil
}

// why returns why there is no connection to vote on. It is never nil: a connection that is
// made just now comes too late for the caller.
func (l *link) why() error {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.down == nil {
		return errConnecting
	}
	return l.down
}

// noteSilence records that the first attempt to connect, which goes on, has had no answer within d.
func (l *link) noteSilence(d time.Duration) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.down == errConnecting {
		l.down = fmt.Errorf("it does not answer within %v", d)
	}
}

// setDown records that there is no connection, and why.
func (l *link) setDown(err error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.pipe.Store(nil)
	l.down = Advise(err)
}
