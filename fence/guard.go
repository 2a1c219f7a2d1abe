package fence

import (
	"fmt"
	"strings"
	"sync"
)

// defaultLimit is the Limit of a Guard that has none.
const defaultLimit = 65536

// Guard fences resources that one process alone writes to: a structure in its
// memory, a device, a service for which it is the only gate. It keeps the
// greatest token of each resource. It is safe for concurrent use; the zero Guard
// is ready, and must not be copied once used.
//
// It keeps every resource that was ever written, since forgetting one would let
// a latecomer in: some 100 bytes and the name each. So their number has a
// limit. A Guard at its limit goes on serving the resources it knows, and
// refuses others until Forget makes room.
//
// Its memory ends with the process. What outlives the process must keep the
// token itself: see Exec and Set.
type Guard struct {
	// Limit is how many resources are remembered, at most; 65536 where it is
	// 0 or less. It must not be changed after the first use.
	Limit int

	mu    sync.Mutex // protects known; may be taken while a resource's is held
	known map[string]*resource
}

type resource struct {
	mu        sync.Mutex // held while it is written; protects what follows
	highest   int64
	forgotten bool // it is no longer in known
}

// Do runs write if no greater token was seen for the resource, and returns its
// error. The token counts as seen even where write fails.
//
// Writes to one resource run one at a time, since a check that is over before
// the write begins would fence nothing: a later lease could write in between.
// So write must end, and must not use the Guard for the same resource.
//
// Errors without running write: ErrStale (a *StaleError), ErrUnfenced for a
// token of 0 or less, ErrFull.
func (g *Guard) Do(name string, token int64, write func() error) error {
	if err := demand(name, token); err != nil {
		return err
	}
	r, err := g.lock(name)
	if err != nil {
		return err
	}
	defer r.mu.Unlock() // also when write panics
	if token < r.highest {
		return &StaleError{Resource: name, Token: token, Highest: r.highest}
	}
	r.highest = token
	return write()
}

// Forget makes room, for a resource that is gone for good: if it is written
// again, any token is accepted. It waits for a write that is under way.
func (g *Guard) Forget(name string) {
	g.mu.Lock()
	r := g.known[name]
	g.mu.Unlock()
	if r == nil {
		return
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.forgotten {
		return
	}
	r.forgotten = true
	g.mu.Lock()
	defer g.mu.Unlock()
	delete(g.known, name)
}

// lock returns the resource, locked. One that was forgotten while the caller
// waited for its lock is of no use: another may have taken its place, with
// writes of its own.
func (g *Guard) lock(name string) (*resource, error) {
	for {
		r, err := g.find(name)
		if err != nil {
			return nil, err
		}
		r.mu.Lock()
		if !r.forgotten {
			return r, nil
		}
		r.mu.Unlock()
	}
}

// find returns the resource, a new one where it is not known.
func (g *Guard) find(name string) (*resource, error) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if r := g.known[name]; r != nil {
		return r, nil
	}
	if limit := g.limit(); len(g.known) >= limit {
		return nil, fmt.Errorf("fence: %q: %w: it remembers %d resources, its limit; raise it, or Forget what is gone for good",
			name, ErrFull, limit)
	}
	if g.known == nil {
		g.known = make(map[string]*resource)
	}
	r := new(resource)
	g.known[strings.Clone(name)] = r // not what the name may be a part of
	return r, nil
}

func (g *Guard) limit() int {
	if g.Limit > 0 {
		return g.Limit
	}
	return defaultLimit
}
