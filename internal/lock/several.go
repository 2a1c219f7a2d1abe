package lock

import (
	"slices"
	"strings"

	"github.com/redlock-go/redlock/internal/protocol"
)

// Several is a lock of several names, which one owner holds all at once: the Primitive of
// Client.Multi. Its keys are those of the Exclusive locks of the names, and a node grants all of
// them or none.
type Several struct {
	Lock
	names []string
	wire  protocol.SetKeys
}

// Init makes the lock of several different names, which Lock.Name lists in order. A copy of s goes
// on using s.
func (s *Several) Init(e *Engine, t *Terms, prefix string, names []string) {
	e.need(protocol.ForSeveral, t)
	names = slices.Sorted(slices.Values(names))
	s.Lock = Lock{Name: strings.Join(names, ", "), engine: e, terms: t, primitive: s, Reader: t.reader, script: protocol.ReleaseAll,
		suffix: protocol.SetSuffix}
	s.names = names
	s.wire, s.keys = protocol.NewSetKeys(prefix, names, t.Wanted)
}

// Names returns the names, in the order of their bytes.
func (s *Several) Names() []string { return s.names }

// PrepareAttempt implements Primitive. Every attempt is a script.
func (s *Several) PrepareAttempt(a *Attempt) {
	call := a.call()
	for i := range a.Votes {
		if v := &a.Votes[i]; v.Skip == nil {
			call.Flaps = a.flaps.Has(i)
			v.Call.Args = s.wire.Acquire(&s.terms.settings, &call, v.Right.Record, a.Parked.ParkFor(i))
		}
	}
}

// RaiseArgs implements Primitive.
func (s *Several) RaiseArgs(c protocol.RaiseCall, record any) []any {
	return s.wire.Raise(&s.terms.settings, c, record)
}

// RenewalArgs implements Primitive.
func (s *Several) RenewalArgs(c protocol.RenewalCall, record any) []any {
	return s.wire.Renew(&s.terms.settings, c, record)
}

// ReleaseArgs implements Primitive.
func (s *Several) ReleaseArgs(c protocol.ReleaseCall, _ bool) []any {
	return s.wire.Release(&s.terms.settings, c)
}
