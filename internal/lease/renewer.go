package lease

import (
	"container/heap"
	"context"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/redlock-go/redlock/internal/quorum"
	"github.com/redlock-go/redlock/internal/system"
)

// maxSleep is how long the Renewer sleeps, at most, while leases exist: Go's timers stop
// while the machine is suspended, the clock does not.
const maxSleep = time.Second

// batch is how many leases the Renewer looks at before it writes what they queued: enough to
// fill a flush, and few enough that the first does not wait for long.
const batch = 64

// Renewer renews a client's leases and ends those whose validity is over. One goroutine
// serves them all, however many there are.
type Renewer struct {
	cfg  *Config
	wake chan struct{} // the first lease is due earlier than the goroutine knows
	keep atomic.Bool   // KeepHandles was called

	mu       sync.Mutex    // protects what follows, and the leases' heap entries
	leases   leaseHeap     // the lease that is due first is the first
	nextWake time.Duration // when the goroutine looks next
	closed   bool
}

// NewRenewer makes a Renewer. Its owner must start Run.
func NewRenewer(cfg *Config) *Renewer {
	return &Renewer{cfg: cfg, wake: make(chan struct{}, 1), nextWake: system.Forever}
}

// Len returns the number of leases in its care.
func (r *Renewer) Len() int {
	r.mu.Lock()
	defer r.mu.Unlock()
	return len(r.leases)
}

// add takes a lease into its care. It returns false if it is closed.
func (r *Renewer) add(l *Lease) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.closed {
		return false
	}
	heap.Push(&r.leases, l)
	r.wakeInTime()
	return true
}

// move changes when a lease is due.
func (r *Renewer) move(l *Lease, due time.Duration) {
	r.mu.Lock()
	defer r.mu.Unlock()
	l.heap.due = due
	if l.heap.index != notInHeap {
		heap.Fix(&r.leases, l.heap.index)
		r.wakeInTime()
	}
}

// KeepHandles makes the leases refer to their handles for as long as they are held, so that no
// dropped lease is released. Only tests in virtual time need that: the garbage collector's
// goroutine is outside of it.
func (r *Renewer) KeepHandles() { r.keep.Store(true) }

// Forget takes a lease out of its care: it is neither renewed nor released any more, as if the
// process had died. Only tests do that; they must keep the lease's handle.
func (r *Renewer) Forget(l *Lease) { r.remove(l) }

// remove takes a lease out of its care.
func (r *Renewer) remove(l *Lease) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if l.heap.index != notInHeap {
		heap.Remove(&r.leases, l.heap.index)
	}
}

// Close takes no more leases and returns those in its care.
func (r *Renewer) Close() []*Lease {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.closed = true
	return slices.Clone(r.leases)
}

// wakeInTime wakes the goroutine if it would look too late. Called under r.mu.
func (r *Renewer) wakeInTime() {
	if r.leases[0].heap.due >= r.nextWake {
		return
	}
	r.nextWake = r.leases[0].heap.due
	select {
	case r.wake <- struct{}{}:
	default: // it has been woken, and will see the newest
	}
}

// Run does what is due until ctx ends.
func (r *Renewer) Run(ctx context.Context) {
	timer := time.NewTimer(0)
	defer timer.Stop()
	for {
		for r.tick() {
		}
		timer.Reset(r.sleep())
		select {
		case <-timer.C:
		case <-r.wake:
		case <-ctx.Done():
			return
		}
	}
}

// tick does what is due for one batch of leases. It returns false when nothing was due.
func (r *Renewer) tick() bool {
	due := r.due()
	ballots := make([]*quorum.Ballot, 0, len(due))
	for _, l := range due {
		if b := l.tick(); b != nil {
			ballots = append(ballots, b)
		}
	}
	for _, b := range ballots {
		b.Flush(false)
	}
	return len(due) > 0
}

// due returns leases whose time has come, and parks them at the end of the heap until they
// are moved.
func (r *Renewer) due() []*Lease {
	r.mu.Lock()
	defer r.mu.Unlock()
	var due []*Lease
	now := r.cfg.Clock()
	for len(due) < batch && len(r.leases) > 0 && r.leases[0].heap.due <= now {
		l := r.leases[0]
		due = append(due, l)
		l.heap.due = system.Forever
		heap.Fix(&r.leases, 0)
	}
	return due
}

// sleep returns how long the goroutine may sleep.
func (r *Renewer) sleep() time.Duration {
	r.mu.Lock()
	defer r.mu.Unlock()
	if len(r.leases) == 0 {
		r.nextWake = system.Forever
		return system.Forever
	}
	r.nextWake = r.leases[0].heap.due
	return min(r.nextWake-r.cfg.Clock(), maxSleep)
}

// heapEntry is a lease's place in the Renewer's heap.
type heapEntry struct {
	due   time.Duration // when to look at the lease
	index int           // notInHeap while the lease is in nobody's care
}

const notInHeap = -1

// leaseHeap orders leases by when they are due.
type leaseHeap []*Lease

func (h leaseHeap) Len() int           { return len(h) }
func (h leaseHeap) Less(i, j int) bool { return h[i].heap.due < h[j].heap.due }

func (h leaseHeap) Swap(i, j int) {
	h[i], h[j] = h[j], h[i]
	h[i].heap.index, h[j].heap.index = i, j
}

func (h *leaseHeap) Push(x any) {
	l := x.(*Lease)
	l.heap.index = len(*h)
	*h = append(*h, l)
}

func (h *leaseHeap) Pop() any {
	last := len(*h) - 1
	l := (*h)[last]
	(*h)[last] = nil
	*h = (*h)[:last]
	l.heap.index = notInHeap
	return l
}
