package fence

import (
	"fmt"
	"strings"
	"sync"
)

// defaultLimit is the Limit of a Guard that has none.
const defaultLimit = 65536

// Guard fences resources that only one process writes to: a structure in its memory, a
// device, a service that only this process calls. It keeps the greatest token of each
// resource. It is safe for concurrent use; the zero Guard is ready, and must not be copied
// once used.
//
// It keeps the token of every resource that was ever written, since without it a late write
// would be accepted: about 100 bytes and the name each. So their number has a limit. A Guard
// at its limit goes on serving the resources that it knows, and refuses others until Forget
// makes room.
//
// Its memory ends with the process. A resource that outlives the process must keep the token
// itself: see Exec and Set.
type Guard struct {
	// Limit is the greatest number of resources; 65536 if it is 0 or less. It must not be
	// changed after the first use.
	Limit int

	mu    sync.Mutex // protects known; may be taken while a resource's is held
	known map[string]*resource
}

type resource struct {
	mu        sync.Mutex // held while it is written; protects what follows
	highest   int64
	forgotten bool // it is no longer in known
}

// Do runs write if no greater token was seen for the resource, and returns its error. The
// token counts as seen even if write fails.
//
// Writes to one resource run one at a time: if another write could run between the check
// and this write, it could be a later lease's. So write must end, and must not use the Guard
// for the same resource.
//
// Errors without running write: ErrStale (a *StaleError), ErrUnfenced for a
// token of 0 or less, ErrFull.
func (g *Guard) Do(name string, token int64, write func() error) error {
	if err := requireToken(name, token); err != nil {
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

// Forget makes room: it removes a resource that does not exist any more. If the resource is
// written again, any token is accepted. Forget waits for a write that is under way.
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

// lock returns the resource, locked. If the resource was forgotten while the caller waited
// for its lock, lock looks it up again: a new one may have replaced it.
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

// find returns the resource; a new one if it is not known.
func (g *Guard) find(name string) (*resource, error) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if r := g.known[name]; r != nil {
		return r, nil
	}
	if limit := g.limit(); len(g.known) >= limit {
		return nil, fmt.Errorf("fence: %q: %w: it has %d resources, its limit; raise Limit, or Forget resources that do not exist any more",
			name, ErrFull, limit)
	}
	if g.known == nil {
		g.known = make(map[string]*resource)
	}
	r := new(resource)
	g.known[strings.Clone(name)] = r // the name may be a part of a large string
	return r, nil
}

func (g *Guard) limit() int {
	if g.Limit > 0 {
		return g.Limit
	}
	return defaultLimit
}
