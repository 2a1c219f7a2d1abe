package chaos

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/anishathalye/porcupine"
)

// minPiece is how many operations are checked at once, at least. porcupine's memory grows
// with its square.
const minPiece = 500

// Checker judges histories, one round after the other: each lock goes on from
// where the round before left it.
type Checker struct {
	Timeout time.Duration // for one piece; after that the verdict is unknown
	Ops     int           // how many operations were checked

	states map[string]state
}

// Check returns the history's violations, at most one for each lock: the rest of that
// lock's operations of this round is not checked.
func (c *Checker) Check(h *History) []Violation {
	if c.states == nil {
		c.states = map[string]state{}
	}
	var wrong []Violation
	for _, name := range slices.Sorted(maps.Keys(h.Locks)) {
		for _, ops := range pieces(h.Locks[name], minPiece) {
			c.Ops += len(ops)
			end, v := check(c.states[name], ops, c.Timeout)
			if v != nil {
				wrong = append(wrong, *v)
				end = stateAfterAll(h.Locks[name]) // for the next round
			}
			c.states[name] = end
			if v != nil {
				break
			}
		}
	}
	return wrong
}

// stateAfterAll returns a state in which the leases of the next round are possible, whatever
// these operations did.
func stateAfterAll(ops []Op) state {
	s := state{value: unknown}
	for _, op := range ops {
		if op.Kind != Acquire {
			continue
		}
		s.last = max(s.last, op.Token)
		if !op.Shared {
			s.lastAlone = max(s.lastAlone, op.Token)
		}
	}
	s.written, s.read = s.lastAlone, s.last
	return s
}

// pieces cuts the history, which is in order, at instants without a call under way: all
// operations before such an instant happened before all that follow it.
func pieces(ops []Op, least int) [][]Op {
	var all [][]Op
	var busy time.Duration
	from := 0
	for i, op := range ops {
		if i-from >= least && op.Call > busy {
			all = append(all, ops[from:i])
			from = i
		}
		busy = max(busy, op.Return)
	}
	return append(all, ops[from:])
}

// check returns the state after the operations, or why there is none.
func check(start state, ops []Op, timeout time.Duration) (state, *Violation) {
	history := make([]porcupine.Operation, len(ops))
	for i, op := range ops {
		history[i] = porcupine.Operation{Input: op, Call: int64(op.Call), Return: int64(op.Return)}
	}
	model := modelFrom(start)
	result, info := porcupine.CheckOperationsVerbose(model, history, timeout)
	end, done := replay(start, longest(info))
	if result == porcupine.Ok {
		return end, nil
	}
	return end, &Violation{
		result: result, state: end, done: done, ops: ops,
		draw: func(file string) error { return porcupine.VisualizePath(model, info, file) },
	}
}

// longest returns the longest possible order of operations that porcupine found.
func longest(info porcupine.LinearizationInfo) []porcupine.Operation {
	var best []porcupine.Operation
	for _, partition := range info.PartialLinearizationsOperations() {
		for _, order := range partition {
			if len(order) > len(best) {
				best = order
			}
		}
	}
	return best
}

// replay executes the operations in this order. All complete orders end in the same state,
// since no call is under way any more.
func replay(s state, order []porcupine.Operation) (state, map[Op]bool) {
	done := make(map[Op]bool, len(order))
	for _, operation := range order {
		op := operation.Input.(Op)
		_, s = step(s, op)
		done[op] = true
	}
	return s, done
}

// Violation is a piece of a history that is impossible for a lock.
type Violation struct {
	result porcupine.CheckResult // Illegal, or Unknown: not decided in time
	state  state                 // after the longest order of possible operations
	done   map[Op]bool           // these operations
	ops    []Op
	draw   func(file string) error
}

// Draw writes the piece to a file, as porcupine's HTML page.
func (v Violation) Draw(file string) error { return v.draw(file) }

// String returns the first operations that are not possible, and those before.
func (v Violation) String() string {
	const before, after = 12, 8
	if len(v.ops) == 0 {
		return string(v.result)
	}
	stuck := slices.IndexFunc(v.ops, func(op Op) bool { return !v.done[op] })
	if stuck < 0 {
		stuck = len(v.ops)
	}
	var b strings.Builder
	fmt.Fprintf(&b, "%s: %s, among %d operations: %d are possible, to the state %+v; then (x: not possible)",
		v.ops[0].Name, v.result, len(v.ops), len(v.done), v.state)
	shown := v.ops[max(0, stuck-before):min(len(v.ops), stuck+after)]
	for _, op := range slices.SortedStableFunc(slices.Values(shown), func(a, b Op) int { return cmp.Compare(a.Call, b.Call) }) {
		mark := "x"
		if v.done[op] {
			mark = " "
		}
		fmt.Fprintf(&b, "\n  %s %s", mark, op)
	}
	return b.String()
}
