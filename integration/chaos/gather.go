package chaos

import (
	"cmp"
	"math"
	"slices"
	"time"
)

// forever is the Return of an operation that may happen at any later time.
const forever = time.Duration(math.MaxInt64)

// History is the operations of all clients during a run.
type History struct {
	Locks  map[string][]Op // for each lock, the operations that the model knows, by the time of the call
	Count  map[Kind]int    // of all operations in the logs
	Why    map[string]int  // the number of refusals by reason
	Shares int             // the number of grants of shares, which Count has among the others
	Sets   int             // the number of grants of several locks at once, which Count has once each

	Permits int // the number of grants of permits, of which those of several are Sets too

	memory *Memory
}

// Gather reads the logs in dir. memory records which nodes lost
// their memory, and when, while the logs were written.
func Gather(dir string, memory *Memory) (*History, error) {
	logs, err := readLogs(dir)
	if err != nil {
		return nil, err
	}
	h := &History{Locks: map[string][]Op{}, Count: map[Kind]int{}, Why: map[string]int{}, memory: memory}
	for _, ops := range logs {
		h.add(ops)
	}
	for name, ops := range h.Locks {
		h.Locks[name] = order(ops)
	}
	return h, nil
}

// Add adds an operation that is not in the logs.
func (h *History) Add(op Op) {
	h.Locks[op.Name] = order(append(h.Locks[op.Name], op))
}

// put adds an operation to each of its locks.
func (h *History) put(op Op) {
	for _, part := range op.split() {
		h.Locks[part.Name] = append(h.Locks[part.Name], part)
	}
}

// add adds one client's log. A client has one lease at a time, of one lock or several. Of several,
// each lock has all operations of the lease, and is judged by itself.
//
// That finds all that can be wrong with sets. A set holds all of its locks from its grant to the
// call of its release, or to its end. So the leases of overlapping sets that hold their locks one
// after the other, and not at the same time, do so in the same order for every lock.
func (h *History) add(ops []Op) {
	var lease life
	for _, op := range ops {
		h.Count[op.Kind]++
		switch op.Kind {
		case Refused:
			h.Why[op.Note]++
			continue
		case Acquire:
			h.endByKill(lease)
			lease = life{known: op}
			if op.Shared {
				h.Shares++
			}
			if op.Set {
				h.Sets++
			}
			if op.Permits > 0 {
				h.Permits++
			}
		case Downgrade:
			lease.downgraded = true
		case Held:
			lease.known = op
		case Unlocking:
			lease.unlocking = op.Call
			continue
		case Release:
			lease = life{}
		case Lost:
			op = lease.loss(op, h.memory)
			lease = life{}
		}
		h.put(op)
	}
	h.endByKill(lease)
}

// life is a lease whose end is not known yet.
type life struct {
	known      Op            // when it was last known to be valid
	unlocking  time.Duration // when its release was begun; 0: it was not
	downgraded bool
}

// shared reports whether the lease is a share.
func (l life) shared() bool { return l.known.Shared || l.downgraded }

// loss returns the end of a lease that ended by itself: the end of the validity that the
// lease last reported; or earlier, the instant at which a renewal found that a majority of
// the nodes did not have the lease any more. Until then no other client can get the lock,
// because the nodes that have the lease refuse, and those that forgot it do not vote.
//
// If a majority forgot the lease, the library's assumptions are broken: the lease may have
// ended at any time since it was last known to be valid.
func (l life) loss(found Op, memory *Memory) Op {
	promised := l.known.Until
	found.Kind, found.Shared = Expire, l.shared()
	switch {
	case found.Until >= promised:
		found.Call = promised
	case memory.majorityForgot(Span{From: promised - memory.TTL, To: found.Return}):
		found.Call = l.known.Call
	default:
		found.Call = found.Until
	}
	return found
}

// endByKill ends the lease of a process that was killed; its log does not show the end.
func (h *History) endByKill(l life) {
	op := l.known
	if op.Kind == "" {
		return
	}
	op.Kind, op.Shared, op.Call, op.Return = Expire, l.shared(), op.Until, forever
	if l.unlocking > 0 {
		op.Call = l.unlocking
	}
	h.put(op)
}

// order sorts the operations by their call. A lease that ended by itself ended before the
// next one was granted that conflicts with it, in a correct history: so order limits the time of
// its end. That changes no verdict, and lets the history be checked in pieces.
func order(ops []Op) []Op {
	alone, shares := grantsOf(ops, ofWriter), grantsOf(ops, ofReader)
	for i, op := range ops {
		if op.Kind != Expire {
			continue
		}
		limit := alone.nextReturn(op.Token + 1)
		if !op.Shared {
			limit = min(limit, shares.nextReturn(op.Token))
		}
		ops[i].Return = max(op.Call, min(op.Return, limit))
	}
	slices.SortStableFunc(ops, func(a, b Op) int { return cmp.Compare(a.Call, b.Call) })
	return ops
}

// grants are those of one mode, by their token.
type grants []Op

// The modes of grants. A set's lease is also a writer's.
var (
	ofWriter = func(op Op) bool { return !op.Shared }
	ofReader = func(op Op) bool { return op.Shared }
	ofSet    = func(op Op) bool { return op.Set }
)

func grantsOf(ops []Op, isOfMode func(Op) bool) grants {
	var all grants
	for _, op := range ops {
		if op.Kind == Acquire && isOfMode(op) {
			all = append(all, op)
		}
	}
	slices.SortFunc(all, func(a, b Op) int {
		return cmp.Or(cmp.Compare(a.Token, b.Token), cmp.Compare(a.Return, b.Return))
	})
	return all
}

// nextReturn returns when the first lease was granted of those with the least token that is
// not less than this one.
func (g grants) nextReturn(token int64) time.Duration {
	i, _ := slices.BinarySearchFunc(g, token, func(op Op, token int64) int { return cmp.Compare(op.Token, token) })
	if i == len(g) {
		return forever
	}
	return g[i].Return
}
