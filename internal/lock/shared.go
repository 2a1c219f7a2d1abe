package lock

import "github.com/redlock-go/redlock/internal/protocol"

// Shared is a lock that many owners hold together: the Primitive of the readers of a
// read-write lock. It has the key of the Exclusive lock of that name, and excludes it.
type Shared struct {
	keyed
	wire protocol.ShareKeys
}

// Init makes the lock of a name. A copy of s goes on using s.
func (s *Shared) Init(e *Engine, t *Terms, prefix, name string) {
	var key string
	s.wire, key = protocol.NewShareKeys(prefix, name, t.Wanted)
	s.init(e, t, name, key, s, protocol.ForReaders)
	s.shared, s.suffix = true, protocol.ReaderSuffix
}

// PrepareAttempt implements Primitive. Every attempt is a script: a share is an entry in a set
// that the lock's key must outlast.
func (s *Shared) PrepareAttempt(a *Attempt) {
	call := a.call()
	for i := range a.Votes {
		if v := &a.Votes[i]; v.Skip == nil {
			call.Flaps = a.flaps.Has(i)
			v.Call.Args = s.wire.Read(&s.terms.settings, &call, v.Right.Record, a.Parked.ParkFor(i))
		}
	}
}

// RaiseArgs implements Primitive.
func (s *Shared) RaiseArgs(c protocol.RaiseCall, record any) []any {
	return s.wire.Raise(&s.terms.settings, c, record)
}

// RenewalArgs implements Primitive.
func (s *Shared) RenewalArgs(c protocol.RenewalCall, record any) []any {
	return s.wire.Keep(&s.terms.settings, c, record)
}

// ReleaseArgs implements Primitive.
func (s *Shared) ReleaseArgs(c protocol.ReleaseCall, _ bool) []any {
	return s.wire.Release(&s.terms.settings, c)
}
