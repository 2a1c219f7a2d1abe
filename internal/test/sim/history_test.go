package sim

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"math"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/redlock-go/redlock"
	"github.com/redlock-go/redlock/internal/lock"
	"github.com/redlock-go/redlock/internal/protocol"
	"github.com/redlock-go/redlock/internal/test/testhook"
)

// simHistory is what happened in a simulation, by the true time, and what is wrong
// with it.
type simHistory struct {
	run  *simRun
	plan *simPlan
	now  func() time.Duration

	mu            sync.Mutex // protects what follows
	lines         []simLine
	visits        []*simVisit
	orphans       []string
	forced        []*simForce
	rested        map[simRested]bool       // after whose release a lock rested, and whether it may still do so
	renewed       map[string]time.Duration // when a server executed the last renewal of an owner's lease
	transfers     []*simTransfer
	burst         *simBurstHistory  // nil: there was none
	steps         []time.Duration   // when clocks of servers were set back
	passed        map[string]string // the owner of the lease whose transfer gave a key this value
	outside       string            // which assumption was broken; "" if none
	failures      []string
	brokenScripts []string // that failed at a node
}

type simLine struct {
	at   time.Duration
	text string
}

// simVisit is one call that asks for a lock, and the lease that it gave. The fields
// are what the checks ask of a call.
type simVisit struct {
	history *simHistory
	caller  *simCaller
	mutex   simLock
	lease   *redlock.Lease
	token   int64
	waits   bool
	reads   bool // it asks for a share
	works   bool // a Do works under it

	// True times.
	called    time.Duration
	answered  time.Duration
	began     time.Duration // the ballot that was granted
	ended     time.Duration // the lease was released, or its validity ended
	sharedAt  time.Duration // just before Downgrade was called; 0: it was not
	lost      bool          // it ended by itself
	tried     bool          // its end is being tried
	prolongs  atomic.Bool   // an Extend or a Downgrade is under way
	dead      atomic.Bool   // it was seen not to be valid
	robbed    time.Duration // its keys were deleted; 0: they were not; protected by history.mu
	doneAt    chan time.Duration
	err       error         // why it got no lock
	handed    *simTransfer  // of its lease; nil: it was not transferred
	from      *simTransfer  // the lease that it resumes; nil: it is no Resume
	keptAt    time.Duration // a transfer of its lease failed then; 0: none did
	keptUntil time.Duration // it was lost by then; 0: it was not
	arrives   func()        // ends what the watchdog knows of the call
	told      time.Duration // when its holder learned that others want the lock; 0: never; protected by history.mu
}

func (h *simHistory) add(at time.Duration, text string) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.lines = append(h.lines, simLine{at, text})
}

func (h *simHistory) note(format string, args ...any) {
	h.add(h.now(), fmt.Sprintf(format, args...))
}

// fail records a violation. Hooks of the servers may call it.
func (h *simHistory) fail(format string, args ...any) {
	h.failAt(h.now(), fmt.Sprintf(format, args...))
}

func (h *simHistory) failAt(at time.Duration, text string) {
	h.add(at, "WRONG: "+text)
	h.mu.Lock()
	defer h.mu.Unlock()
	h.failures = append(h.failures, text)
}

func (h *simHistory) orphan(node int, p simPossession) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.orphans = append(h.orphans, fmt.Sprintf("node %d still has %v", node, p))
}

// call records that a caller asks for a lock.
func (h *simHistory) call(c *simCaller, m simLock, waits bool) *simVisit {
	reads := testhook.Lock(lockOf(m)).Shared()
	v := &simVisit{history: h, caller: c, mutex: m, waits: waits, reads: reads, called: h.now(), ended: math.MaxInt64}
	v.arrives = h.run.watchdog.does("%v's call for %s", c, v.name())
	h.mu.Lock()
	h.visits = append(h.visits, v)
	h.mu.Unlock()
	if reads {
		h.note("%v asks for a share of %s (waiting: %t)", c, v.name(), waits)
		return v
	}
	if n := permitsOf(v); n > 0 {
		h.note("%v asks for %d permits of %s (waiting: %t)", c, n, v.name(), waits)
		return v
	}
	h.note("%v asks for %s (waiting: %t)", c, v.name(), waits)
	return v
}

// name returns the lock's name.
func (v *simVisit) name() string { return testhook.Lock(lockOf(v.mutex)).Name }

// wants reports whether the lock is one of those that the call asks for.
func (v *simVisit) wants(lock string) bool {
	return slices.Contains(strings.Split(v.name(), ", "), lock)
}

// isSet reports whether the call asks for several locks at once.
func (v *simVisit) isSet() bool {
	return testhook.Lock(lockOf(v.mutex)).WaitedFor().Suffix == protocol.SetSuffix
}

// overlap reports whether two calls ask for a lock in common.
func overlap(a, b *simVisit) bool {
	return lock.Overlap(testhook.Lock(lockOf(a.mutex)).Keys(), testhook.Lock(lockOf(b.mutex)).Keys())
}

// terms returns the settings of the visit's lock.
func (v *simVisit) terms() *lock.Terms { return testhook.Lock(lockOf(v.mutex)).Terms() }

// keysLast returns how long the keys of the visit's lease last at the nodes, at most.
func keysLast(v *simVisit) time.Duration { return testhook.Lease(v.lease).TTL() }

// returned records the result.
func (v *simVisit) returned(l *redlock.Lease, err error) {
	h := v.history
	v.answered = h.now()
	v.arrives()
	if v.err = err; err != nil {
		h.note("%v does not get %s: %v", v.caller, v.name(), err)
		v.refused(err)
		return
	}
	v.lease, v.token = l, l.Token()
	v.began = v.caller.client.trueTime(testhook.Lease(l).Begun)
	h.note("%v has %s, token %d, owner %q", v.caller, v.name(), l.Token(), l.Owner())
	v.checkSince()
	v.listens()
	done := l.Done()
	v.doneAt = make(chan time.Duration, 1)
	go func() {
		<-done
		v.doneAt <- h.now()
	}()
}

// look reports whether the lease is valid.
func (v *simVisit) look() bool {
	valid := v.lease.Valid()
	if valid && v.dead.Load() {
		v.history.fail("%v's lease, token %d, had ended and is valid again", v.caller, v.token)
	}
	return valid
}

// goesOn reports whether a Do goes on after its client's Close: then its keys stay.
func (v *simVisit) goesOn() bool {
	return v.works && errors.Is(v.lease.Err(), redlock.ErrClosed) && v.caller.client.clock() < testhook.Lease(v.lease).Until()
}

// lookAgain is for a lease that was not valid any more.
func (v *simVisit) lookAgain() {
	if v.lease.Valid() {
		v.history.fail("%v's lease, token %d, had ended and is valid again", v.caller, v.token)
	}
}

// isRobbed records that its keys are deleted. In the midst of a renewal half of an even
// number of nodes may confirm the lease before, and the other half be seen to have lost
// it: no majority, and in the next renewal neither (docs/safety.md).
func (v *simVisit) isRobbed() {
	if len(v.caller.client.links)%2 == 0 && v.renews() {
		return
	}
	h, now := v.history, v.history.now()
	h.mu.Lock()
	defer h.mu.Unlock()
	if v.robbed == 0 {
		v.robbed = now
	}
}

// renews reports whether a renewal is under way.
func (v *simVisit) renews() bool {
	_, underWay := testhook.Lease(v.lease).Schedule()
	return underWay || v.prolongs.Load()
}

// leaves notes the end of the visit: the instant before Unlock is called, or that at
// which the lease had ended by itself.
func (v *simVisit) leaves() {
	h := v.history
	v.ended = h.now()
	if end := v.caller.client.trueTime(testhook.Lease(v.lease).Until()); end < v.ended {
		v.ended, v.lost = end, true
	}
	select {
	case at := <-v.doneAt:
		if v.lost = true; !v.goesOn() {
			v.ended = min(v.ended, at)
		}
	default:
	}
	h.note("%v leaves %s, token %d (lost: %t)", v.caller, v.name(), v.token, v.lost)
}

// unlocks calls Unlock, and records its result.
func (v *simVisit) unlocks() {
	defer v.history.run.watchdog.does("%v's unlock of token %d", v.caller, v.token)()
	v.left(v.lease.Unlock(context.Background()))
}

// left records the result of Unlock.
func (v *simVisit) left(err error) {
	if err != nil {
		v.history.note("%v's unlock of token %d: %v", v.caller, v.token, err)
	}
}

// text is the whole history, line by line, by its instants.
func (h *simHistory) text() string { return h.excerpt("", 0, math.MaxInt64) }

// excerpt is what the history says between two instants, in lines that contain a word.
func (h *simHistory) excerpt(word string, from, to time.Duration) string {
	h.mu.Lock()
	defer h.mu.Unlock()
	slices.SortStableFunc(h.lines, func(a, b simLine) int {
		if a.at != b.at {
			return cmp.Compare(a.at, b.at)
		}
		return strings.Compare(a.text, b.text)
	})
	var out strings.Builder
	for _, l := range h.lines {
		if l.at < from || l.at > to || !strings.Contains(l.text, word) {
			continue
		}
		fmt.Fprintf(&out, "%14.9f %s\n", l.at.Seconds(), l.text)
	}
	return out.String()
}
