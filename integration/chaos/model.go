package chaos

import (
	"fmt"

	"github.com/anishathalye/porcupine"
)

// state is a lock with leases and tokens, and the one number that it protects.
type state struct {
	holder int64 // the token of the lease that is held; 0: none
	last   int64 // the greatest token so far
	fence  int64 // the greatest token that the protected resource has seen
	value  int64 // the number; unknown after a late write
	reader int64 // the token under which it was last read, until it is written
}

// unknown is a number of which the next read may return any value.
const unknown = -1

// step reports whether the operation is possible in this state, and returns the next state.
//
// Exclusion: a lease is granted only while none is held, and is held until it is released,
// or ends by itself, which is never before the end of validity that it reported. Tokens:
// each grant has a greater one than every grant before it. No lost update without a fence:
// only the holder reads and writes, no other operation comes between the two, and a read
// returns the last write. With a fence: no operation with a lesser token passes after a
// greater one, and none is refused without a greater one.
func step(s state, op Op) (bool, state) {
	mine := s.holder == op.Token
	past := op.Token >= s.fence && op.Token <= s.last // a token that was never granted does not pass either
	seen := s.value == op.Value || s.value == unknown
	next := s
	switch op.Kind {
	case Acquire:
		next.holder, next.last = op.Token, op.Token
		return s.holder == 0 && op.Token > s.last, next
	case Held:
		return mine, next
	case Release, Expire:
		next.holder = 0
		return mine, next
	case Read:
		next.value, next.reader = op.Value, op.Token
		return mine && seen, next
	case Write:
		next.value, next.reader = op.Value, 0
		return mine && s.reader == op.Token, next
	case Late:
		next.value = unknown
		return true, next
	case FencedRead:
		next.fence, next.value = op.Token, op.Value
		return past && seen, next
	case FencedWrite:
		next.fence, next.value = op.Token, op.Value
		return past && op.Value == s.value+1, next
	case StaleRead, StaleWrite:
		return s.fence > op.Token, next
	case Audit:
		return seen, next
	}
	return false, s
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
			return fmt.Sprintf("%s %d, value %d", op.Kind, op.Token, op.Value)
		},
		DescribeState: func(s any) string { return fmt.Sprintf("%+v", s) },
	}
}
