package redlock

import (
	"fmt"
	"math"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/redlock-go/redlock/internal/simredis"
)

// simHistory is what happened in a simulation, by the true time, and what is wrong
// with it.
type simHistory struct {
	plan *simPlan
	now  func() time.Duration

	mu       sync.Mutex // protects what follows
	lines    []simLine
	visits   []*simVisit
	orphans  []string
	forgot   map[int]time.Duration // when a node last lost its memory
	outside  string                // which assumption was broken; "" if none
	failures []string
}

type simLine struct {
	at   time.Duration
	text string
}

// simVisit is one call of Lock or TryLock, and the lease that it gave.
type simVisit struct {
	history *simHistory
	client  *simClient
	mutex   *Mutex
	lease   *Lease
	waits   bool

	// True times.
	called   time.Duration
	answered time.Duration
	began    time.Duration // the ballot that was granted
	ended    time.Duration // the lease was released, or its validity ended
	lost     bool          // it ended by itself
	tried    bool          // its end is being tried
	dead     atomic.Bool   // it was seen not to be valid
	robbed   time.Duration // its keys were deleted; 0: they were not; protected by history.mu
	doneAt   chan time.Duration
}

func (h *simHistory) add(at time.Duration, text string) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.lines = append(h.lines, simLine{at, text})
}

func (h *simHistory) note(format string, args ...any) {
	h.add(h.now(), fmt.Sprintf(format, args...))
}

func (h *simHistory) fail(format string, args ...any) {
	text := fmt.Sprintf(format, args...)
	h.note("WRONG: %s", text)
	h.mu.Lock()
	defer h.mu.Unlock()
	h.failures = append(h.failures, text)
}

func (h *simHistory) orphan(node int, k simredis.Key) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.orphans = append(h.orphans, fmt.Sprintf("node %d still has %s = %s, for %v", node, k.Name, k.Text, k.Left))
}

// forgets notes that a node loses its memory. Where a majority does, nobody may be left
// to tell the others of a longer ttl: that is outside of A6.
func (h *simHistory) forgets(node int) {
	now := h.now()
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.forgot == nil {
		h.forgot = make(map[int]time.Duration)
	}
	h.forgot[node] = now
	longest, recent := slices.Max(h.plan.ttls), 0
	for _, at := range h.forgot {
		if now-at < 2*longest+heedful {
			recent++
		}
	}
	if recent > h.plan.nodes-h.plan.quorum() && slices.Min(h.plan.ttls) < longest {
		h.outside = "A6: a majority forgets, and with it the longest ttl"
	}
}

// call notes that a client asks for a lock.
func (h *simHistory) call(c *simClient, m *Mutex, waits bool) *simVisit {
	v := &simVisit{history: h, client: c, mutex: m, waits: waits, called: h.now(), ended: math.MaxInt64}
	h.mu.Lock()
	h.visits = append(h.visits, v)
	h.mu.Unlock()
	h.note("client %d asks for %s (waiting: %t)", c.index, m.name, waits)
	return v
}

// returned notes what came of it.
func (v *simVisit) returned(l *Lease, err error) {
	h := v.history
	v.answered = h.now()
	if err != nil {
		h.note("client %d does not get %s: %v", v.client.index, v.mutex.name, err)
		return
	}
	v.lease = l
	v.began = v.client.trueTime(l.h.since)
	h.note("client %d has %s, token %d, owner %s", v.client.index, v.mutex.name, l.Token(), l.Owner())
	done := l.Done()
	v.doneAt = make(chan time.Duration, 1)
	go func() {
		<-done
		v.doneAt <- h.now()
	}()
}

// look tells whether the lease is valid.
func (v *simVisit) look() bool {
	valid := v.lease.Valid()
	if valid && v.dead.Load() {
		v.history.fail("client %d's lease, token %d, had ended and is valid again", v.client.index, v.lease.Token())
	}
	return valid
}

// lookAgain is for a lease that was not valid any more.
func (v *simVisit) lookAgain() {
	if v.lease.Valid() {
		v.history.fail("client %d's lease, token %d, had ended and is valid again", v.client.index, v.lease.Token())
	}
}

// isRobbed notes that its keys are deleted. In the midst of a renewal half of an even
// number of nodes may confirm the lease before, and the other half be seen to have lost
// it: no majority, and in the next renewal neither (docs/safety.md).
func (v *simVisit) isRobbed() {
	if len(v.client.links)%2 == 0 && v.renews() {
		return
	}
	h, now := v.history, v.history.now()
	h.mu.Lock()
	defer h.mu.Unlock()
	if v.robbed == 0 {
		v.robbed = now
	}
}

// renews tells whether a renewal is under way.
func (v *simVisit) renews() bool {
	l := v.lease.h
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.renewal != nil
}

// leaves notes the end of the visit: the instant before Unlock is called, or that at
// which the lease had ended by itself.
func (v *simVisit) leaves() {
	h := v.history
	v.ended = h.now()
	if end := v.client.trueTime(v.lease.h.validity()); end < v.ended {
		v.ended, v.lost = end, true
	}
	select {
	case at := <-v.doneAt:
		v.ended, v.lost = min(v.ended, at), true
	default:
	}
	h.note("client %d leaves %s, token %d (lost: %t)", v.client.index, v.mutex.name, v.lease.Token(), v.lost)
}

// left notes what Unlock said.
func (v *simVisit) left(err error) {
	if err != nil {
		v.history.note("client %d's unlock of token %d: %v", v.client.index, v.lease.Token(), err)
	}
}

// text is the whole history, line by line, by its instants.
func (h *simHistory) text() string {
	h.mu.Lock()
	defer h.mu.Unlock()
	slices.SortStableFunc(h.lines, func(a, b simLine) int {
		if a.at != b.at {
			return int(a.at - b.at)
		}
		return strings.Compare(a.text, b.text)
	})
	var out strings.Builder
	for _, l := range h.lines {
		fmt.Fprintf(&out, "%14.9f %s\n", l.at.Seconds(), l.text)
	}
	return out.String()
}

// leases are the visits that got the lock, in the order in which they did.
func (h *simHistory) leases(lock string) []*simVisit {
	var all []*simVisit
	for _, v := range h.visits {
		if v.lease != nil && v.mutex.name == lock {
			all = append(all, v)
		}
	}
	slices.SortFunc(all, func(a, b *simVisit) int { return int(a.answered - b.answered) })
	return all
}

// check is what the run must show. Assumptions come first: a schedule outside of
// them may have two holders, and is counted as such. Whatever is assumed, nobody
// writes with a token that another one has, or behind a later one's.
func (h *simHistory) check() []string {
	wrong := slices.Clone(h.failures)
	for lock := range h.plan.locks {
		leases := h.leases(fmt.Sprintf("lock-%d", lock))
		if h.outside == "" {
			wrong = append(wrong, exclusion(leases)...)
		}
		wrong = append(wrong, tokens(leases)...)
		wrong = append(wrong, losses(leases)...)
		if h.plan.kind == simMinority {
			wrong = append(wrong, h.progress(leases, fmt.Sprintf("lock-%d", lock))...)
			wrong = append(wrong, h.order(leases, fmt.Sprintf("lock-%d", lock))...)
		}
	}
	return append(wrong, h.orphans...)
}

// exclusion: at no instant are two leases of a lock valid.
func exclusion(leases []*simVisit) (wrong []string) {
	for i, b := range leases {
		for _, a := range leases[:i] {
			if a.ended > b.answered && b.ended > b.answered {
				wrong = append(wrong, fmt.Sprintf("two holders: client %d (token %d) until %v, client %d (token %d) from %v",
					a.client.index, a.lease.Token(), a.ended, b.client.index, b.lease.Token(), b.answered))
			}
		}
	}
	return wrong
}

// losses: a lease whose keys are gone is not renewed any more.
func losses(leases []*simVisit) (wrong []string) {
	for _, v := range leases {
		if v.robbed > 0 && v.ended > v.robbed+v.mutex.opts.ttl*11/10 {
			wrong = append(wrong, fmt.Sprintf("client %d's keys were deleted at %v; its lease went on until %v", v.client.index, v.robbed, v.ended))
		}
	}
	return wrong
}

// tokens: a lease that was asked for after another was granted has a greater token;
// none has another's.
func tokens(leases []*simVisit) (wrong []string) {
	for i, b := range leases {
		for _, a := range leases[:i] {
			if s, t := a.lease.Token(), b.lease.Token(); s == t || (a.answered < b.began || !a.lost && a.ended < b.answered) && s > t {
				wrong = append(wrong, fmt.Sprintf("token %d of client %d, granted at %v, after token %d of client %d, granted at %v",
					t, b.client.index, b.answered, s, a.client.index, a.answered))
			}
		}
	}
	return wrong
}

// progress: while somebody waits, and only a minority fails, somebody gets the lock.
func (h *simHistory) progress(leases []*simVisit, lock string) (wrong []string) {
	for _, v := range h.visits {
		if v.mutex.name != lock || !v.waits {
			continue
		}
		idle := max(v.called, h.plan.calm)
		end := v.answered
		for _, l := range leases {
			if l.answered > idle && l.answered <= end {
				if gap := l.answered - idle; gap > h.plan.idleness() {
					wrong = append(wrong, fmt.Sprintf("nobody had %s for %v while client %d waited, though only a minority failed",
						lock, gap, v.client.index))
				}
			}
			idle = max(idle, min(l.ended, end))
		}
	}
	return wrong
}

// order: while only a minority fails, whoever asked a good while earlier is not passed
// by again and again.
func (h *simHistory) order(leases []*simVisit, lock string) (wrong []string) {
	for _, v := range h.visits {
		if v.mutex.name != lock || !v.waits || v.called < h.plan.calm {
			continue
		}
		passed := 0
		for _, l := range leases {
			if l.waits && l.called > v.called+simHeadStart && l.answered > v.called && l.answered < v.answered {
				passed++
			}
		}
		if passed > simPasses {
			wrong = append(wrong, fmt.Sprintf("client %d, which asked for %s at %v, was passed by %d later ones", v.client.index, lock, v.called, passed))
		}
	}
	return wrong
}

const (
	simHeadStart = 200 * time.Millisecond
	simPasses    = 3
)

// idleness is how long a lock may be free while somebody waits.
func (p *simPlan) idleness() time.Duration { return 3*time.Second + p.ttl }
