package chaos

import (
	"fmt"
	"slices"
	"strings"

	"github.com/anishathalye/porcupine"
)

// state is a lock with leases and tokens, and the one number that it protects. porcupine
// compares states by ==.
type state struct {
	alone     string // the owner of the lease that holds the lock alone; empty: none
	shares    owners // of the leases that hold it together
	last      int64  // the greatest token so far
	lastAlone int64  // the greatest token so far of a lease that was granted alone
	written   int64  // the greatest token of a writer that the protected resource has seen
	read      int64  // the greatest token of a reader that it has seen
	value     int64  // the number; unknown after a late write
	reader    string // the owner of the lease that last read it, until it is written
}

// unknown is a number of which the next read may return any value.
const unknown = -1

// step reports whether the operation is possible in this state, and returns the next state.
//
// Exclusion: two leases conflict unless both are shares. A lease is granted only while none
// is held that conflicts with it, and is held until it is released, or ends by itself, which is
// never before the end of validity that it reported. A lease becomes a share by its downgrade.
//
// Tokens: a lease that is granted alone has a greater one than every lease before it; a share's
// is not less than that of any lease before it that was granted alone.
//
// No lost update without a fence: only holders read, only one that holds the lock alone writes,
// no other operation comes between its read and its write, and a read returns the last write.
//
// With a fence: no operation passes with a lesser token than that of a writer that passed
// before, and no writer's with the token of a reader that passed, or a lesser one. None is
// refused without such a token.
func step(s state, op Op) (bool, state) {
	alone := s.alone == op.Owner
	held := alone || s.shares.contain(op.Owner)
	seen := s.value == op.Value || s.value == unknown
	next := s
	switch op.Kind {
	case Acquire:
		return s.grant(op)
	case Downgrade:
		if alone { // else it has ended
			next.alone, next.shares = "", s.shares.with(op.Owner)
		}
		return true, next
	case Held:
		return held, next
	case Release, Expire:
		if alone {
			next.alone = ""
		}
		next.shares = s.shares.without(op.Owner)
		return held, next
	case Read:
		next.value, next.reader = op.Value, op.Owner
		return held && seen, next
	case Write:
		next.value, next.reader = op.Value, ""
		return alone && s.reader == op.Owner, next
	case Late:
		next.value = unknown
		return true, next
	case FencedRead:
		next = s.pass(op)
		return s.passes(op) && seen, next
	case FencedWrite:
		next = s.pass(op)
		return s.passes(op) && !op.Shared && op.Value == s.value+1, next
	case StaleRead, StaleWrite:
		return s.stale(op), next
	case Audit:
		return seen, next
	}
	return false, s
}

// grant is step for an Acquire.
func (s state) grant(op Op) (bool, state) {
	next := s
	next.last = max(s.last, op.Token)
	if op.Shared {
		next.shares = s.shares.with(op.Owner)
		return s.alone == "" && op.Token >= s.lastAlone, next
	}
	next.alone, next.lastAlone = op.Owner, op.Token
	return s.alone == "" && s.shares == "" && op.Token > s.last, next
}

// stale reports whether the resource has seen a token that refuses the operation.
func (s state) stale(op Op) bool {
	return op.Token < s.written || !op.Shared && op.Token <= s.read
}

// passes reports whether the operation passes the fence. A token that was never granted does
// not.
func (s state) passes(op Op) bool { return !s.stale(op) && op.Token <= s.last }

// pass returns the state after the operation has passed the fence.
func (s state) pass(op Op) state {
	s.value = op.Value
	if op.Shared {
		s.read = max(s.read, op.Token)
	} else {
		s.written = op.Token
	}
	return s
}

// owners is a set of owners: their names in order, with spaces between them.
type owners string

func (o owners) names() []string { return strings.Fields(string(o)) }

func (o owners) contain(owner string) bool { return slices.Contains(o.names(), owner) }

// with returns the set with the owner, who is not in it.
func (o owners) with(owner string) owners {
	names := append(o.names(), owner)
	slices.Sort(names)
	return owners(strings.Join(names, " "))
}

func (o owners) without(owner string) owners {
	names := slices.DeleteFunc(o.names(), func(name string) bool { return name == owner })
	return owners(strings.Join(names, " "))
}

// modelFrom returns porcupine's model, for a history that begins in this state.
func modelFrom(start state) porcupine.Model {
	return porcupine.Model{
		Init: func() any { return start },
		Step: func(s, input, _ any) (bool, any) {
			ok, next := step(s.(state), input.(Op))
			return ok, next
		},
		DescribeOperation: func(input, _ any) string {
			op := input.(Op)
			return fmt.Sprintf("%s%s %d, value %d", op.mode(), op.Kind, op.Token, op.Value)
		},
		DescribeState: func(s any) string { return fmt.Sprintf("%+v", s) },
	}
}
