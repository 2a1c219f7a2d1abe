package lock

import (
	"slices"
	"strings"

	"github.com/redlock-go/redlock/internal/protocol"
)

// The kinds of locks. Permits are in permits.go. What a kind is, its Lock says: the keys that commands name, the script
// that releases, what its waiters want, and how replies are read. A copy of a lock goes on using the keys of the original.
//
//	kind       keys           an attempt is                             its waiters' tickets end with
//	Exclusive  Keys           plain commands; a waiter's: acquire.lua   nothing
//	Shared     ShareKeys      read.lua                                  r
//	Several    SetKeys        acquireall.lua                            +
//	Permits    SemaphoreKeys  permit.lua                                what they ask for

// Exclusive is a lock that one owner holds at a time: a mutex, and what the writers of a read-write lock hold.
type Exclusive struct {
	Lock
	key  [1]string
	wire protocol.Keys
	args plainArgs
}

// Init makes the lock of a name.
func (x *Exclusive) Init(e *Engine, t *Terms, prefix, name string) {
	e.need(0, t)
	x.wire, x.key[0] = protocol.NewKeys(prefix, name, t.Wanted)
	x.args = plainArgs{key: [1]any{x.wire.Key}, queue: [1]any{x.wire.Queue}}
	x.Lock = Lock{Name: name, keys: x.key[:], engine: e, terms: t, kind: &x.wire, plain: x, Reader: acquiring,
		script: protocol.Release}
}

// Shared is a lock that many owners hold together: what the readers of a read-write lock hold. It has the key of the
// Exclusive lock of that name, and excludes it.
type Shared struct {
	Lock
	key  [1]string
	wire protocol.ShareKeys
}

// Init makes the lock of a name.
func (s *Shared) Init(e *Engine, t *Terms, prefix, name string) {
	e.need(protocol.ForReaders, t)
	s.wire, s.key[0] = protocol.NewShareKeys(prefix, name, t.Wanted)
	s.Lock = Lock{Name: name, keys: s.key[:], engine: e, terms: t, kind: &s.wire, Reader: acquiring,
		script: protocol.Release, shared: true, suffix: protocol.ReaderSuffix}
}

// Several is a lock of several names, which one owner holds all at once. Its keys are those of the Exclusive locks of
// the names, and a node grants all of them or none.
type Several struct {
	Lock
	names []string
	wire  protocol.SetKeys
}

// Init makes the lock of several different names, which Lock.Name lists in order.
func (s *Several) Init(e *Engine, t *Terms, prefix string, names []string) {
	e.need(protocol.ForSeveral, t)
	s.names = slices.Sorted(slices.Values(names))
	var keys []string
	s.wire, keys = protocol.NewSetKeys(prefix, s.names, t.Wanted)
	s.Lock = Lock{Name: strings.Join(s.names, ", "), keys: keys, engine: e, terms: t, kind: &s.wire, Reader: acquiring,
		script: protocol.ReleaseAll, suffix: protocol.SetSuffix}
}

// Names returns the names, in the order of their bytes.
func (s *Several) Names() []string { return s.names }
