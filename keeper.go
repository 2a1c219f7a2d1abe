package redlock

import (
	"container/heap"
	"context"
	"sync"
	"time"

	"github.com/redlock-go/redlock/internal/system"
)

// suspicion is how often the keeper looks at the clock while leases exist: Go's
// timers stop while the machine is suspended, the clock does not.
const suspicion = time.Second

// batch is how many leases the keeper looks at before it writes what they queued:
// enough to fill a flush, and few enough that the first does not wait for long.
const batch = 64

// keeper renews leases and ends those whose validity is over. One goroutine
// serves them all, however many there are.
type keeper struct {
	clock system.Clock
	wake  chan struct{} // the first lease is due earlier than the goroutine knows

	mu     sync.Mutex // protects what follows, and the leases' due and place
	leases leaseHeap  // the one that is due first is the first
	armed  time.Duration
	closed bool
}

func newKeeper(c system.Clock) *keeper {
	return &keeper{clock: c, wake: make(chan struct{}, 1), armed: system.Forever}
}

// add takes a lease into its care; false if it is closed.
func (k *keeper) add(h *holding) bool {
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.closed {
		return false
	}
	heap.Push(&k.leases, h)
	k.rearm()
	return true
}

// move changes when a lease is due.
func (k *keeper) move(h *holding, due time.Duration) {
	k.mu.Lock()
	defer k.mu.Unlock()
	h.due = due
	if h.place >= 0 {
		heap.Fix(&k.leases, h.place)
		k.rearm()
	}
}

// remove forgets a lease.
func (k *keeper) remove(h *holding) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if h.place >= 0 {
		heap.Remove(&k.leases, h.place)
	}
}

// close takes no more leases and returns those in its care.
func (k *keeper) close() []*holding {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.closed = true
	return append([]*holding(nil), k.leases...)
}

// rearm wakes the goroutine if it would come too late. Called under k.mu.
func (k *keeper) rearm() {
	if k.leases[0].due >= k.armed {
		return
	}
	k.armed = k.leases[0].due
	select {
	case k.wake <- struct{}{}:
	default: // it has been woken, and will see the newest
	}
}

// run does what is due until ctx ends.
func (k *keeper) run(ctx context.Context) {
	timer := time.NewTimer(0)
	defer timer.Stop()
	for {
		for k.tick() {
		}
		timer.Reset(k.sleep())
		select {
		case <-timer.C:
		case <-k.wake:
		case <-ctx.Done():
			return
		}
	}
}

// tick does what is due for one batch of leases. It returns false when nothing
// was due.
func (k *keeper) tick() bool {
	due := k.due()
	ballots := make([]*ballot, 0, len(due))
	for _, h := range due {
		if b := h.tick(); b != nil {
			ballots = append(ballots, b)
		}
	}
	for _, b := range ballots {
		b.Flush(false)
	}
	return len(due) > 0
}

// due returns leases whose time has come, and lets them rest until they say when
// to look again.
func (k *keeper) due() []*holding {
	k.mu.Lock()
	defer k.mu.Unlock()
	var due []*holding
	now := k.clock()
	for len(due) < batch && len(k.leases) > 0 && k.leases[0].due <= now {
		h := k.leases[0]
		due = append(due, h)
		h.due = system.Forever
		heap.Fix(&k.leases, 0)
	}
	return due
}

// sleep is how long the goroutine may sleep.
func (k *keeper) sleep() time.Duration {
	k.mu.Lock()
	defer k.mu.Unlock()
	if len(k.leases) == 0 {
		k.armed = system.Forever
		return system.Forever
	}
	k.armed = k.leases[0].due
	return min(k.armed-k.clock(), suspicion)
}

// leaseHeap orders leases by when they are due.
type leaseHeap []*holding

func (h leaseHeap) Len() int           { return len(h) }
func (h leaseHeap) Less(i, j int) bool { return h[i].due < h[j].due }

func (h leaseHeap) Swap(i, j int) {
	h[i], h[j] = h[j], h[i]
	h[i].place, h[j].place = i, j
}

func (h *leaseHeap) Push(x any) {
	l := x.(*holding)
	l.place = len(*h)
	*h = append(*h, l)
}

func (h *leaseHeap) Pop() any {
	last := len(*h) - 1
	l := (*h)[last]
	(*h)[last] = nil
	*h = (*h)[:last]
	l.place = -1
	return l
}
