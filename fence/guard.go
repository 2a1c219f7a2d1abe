package fence

import (
	"fmt"
	"strings"
	"sync"
)

// defaultLimit is the Limit of a Guard that has none.
const defaultLimit = 65536

// Guard fences resources that only one process accesses: a structure in its memory, a device,
// a service that only this process calls. It keeps the greatest token that wrote and the
// greatest that read, for each resource. It is safe for concurrent use; the zero Guard is
// ready, and must not be copied once used.
//
// It keeps the tokens of every resource that was ever written or read, since without them a
// late write would be accepted: about 100 bytes and the name each. So their number has a
// limit. A Guard at its limit goes on serving the resources that it knows, and refuses others
// until Forget makes room.
//
// Its memory ends with the process. A resource that outlives the process must keep the tokens
// itself: see Exec and Set.
type Guard struct {
	// Limit is the greatest number of resources; 65536 if it is 0 or less. It must not be
	// changed after the first use.
	Limit int

	mu    sync.Mutex // protects known; may be taken while a resource's is held
	known map[string]*resource
}

type resource struct {
	mu        sync.RWMutex // held while it is written, read-locked while it is read; protects what follows
	written   int64        // the greatest token that wrote
	forgotten bool         // it is no longer in known

	registering sync.Mutex // under mu's read lock it protects read as well
	read        int64      // the greatest token that read
}

// Read runs read if no greater token has written the resource, and returns its error. Before
// that it registers the token: from then on Write refuses this token and smaller ones. The
// token counts as registered even if read fails.
//
// It is for shared leases only. The holder of an exclusive lease reads by Write: after a Read
// its own Write would be refused.
//
// Reads of one resource run at the same time as other reads of it, and never while a write
// runs. So read must end, and must not use the Guard for the same resource.
//
// Errors without running read: ErrStale (a *StaleError), ErrUnfenced for a token of 0 or less,
// ErrFull.
func (g *Guard) Read(name string, token int64, read func() error) error {
	if err := requireToken(name, "read", token); err != nil {
		return err
	}
	r, held, err := g.lock(name, func(r *resource) sync.Locker { return r.mu.RLocker() })
	if err != nil {
		return err
	}
	defer held.Unlock() // also when read panics
	if token < r.written {
		return &StaleError{Resource: name, Token: token, Highest: r.written}
	}
	r.registerRead(token)
	return read()
}

// Write runs write if no greater token has written the resource, and no greater or equal
// token has read it, and returns its error. The token counts as seen even if write fails.
//
// The holder of an exclusive lease uses Write for whatever it does with the resource, for its
// reads as well: then Write keeps late writers away from what it has read, and its next Write
// is accepted.
//
// A write runs alone: if another access could run between the check and this write, it could
// be a later lease's. So write must end, and must not use the Guard for the same resource.
//
// Errors without running write: ErrStale (a *StaleError, which says whether a reader is the
// cause), ErrUnfenced for a token of 0 or less, ErrFull.
func (g *Guard) Write(name string, token int64, write func() error) error {
	if err := requireToken(name, "write", token); err != nil {
		return err
	}
	r, held, err := g.lock(name, func(r *resource) sync.Locker { return &r.mu })
	if err != nil {
		return err
	}
	defer held.Unlock() // also when write panics
	if token <= r.read && r.read >= r.written {
		return &StaleError{Resource: name, Token: token, Highest: r.read, Read: true}
	}
	if token < r.written {
		return &StaleError{Resource: name, Token: token, Highest: r.written}
	}
	r.written = token
	return write()
}

// Do is the same as Write: for locks without readers, one method is all that is needed.
func (g *Guard) Do(name string, token int64, write func() error) error {
	return g.Write(name, token, write)
}

// Forget makes room: it removes a resource that does not exist any more. If the resource is
// written or read again, any token is accepted. Forget waits for writes and reads that are
// under way.
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

// registerRead raises the greatest token that read. The caller holds mu's read lock.
func (r *resource) registerRead(token int64) {
	r.registering.Lock()
	defer r.registering.Unlock()
	r.read = max(r.read, token)
}

// lock returns the resource and the lock of it that it has taken: the side of r.mu that the
// caller chooses. If the resource was forgotten while the caller waited, lock looks it up
// again: a new one may have replaced it.
func (g *Guard) lock(name string, side func(*resource) sync.Locker) (*resource, sync.Locker, error) {
	for {
		r, err := g.find(name)
		if err != nil {
			return nil, nil, err
		}
		held := side(r)
		held.Lock()
		if !r.forgotten {
			return r, held, nil
		}
		held.Unlock()
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
