package redlock

import (
	"container/heap"
	"context"
	"sync"
	"time"
)

// suspicion is how often the keeper looks at the clock while leases exist: Go's
// timers stop while the machine is suspended, the clock does not.
const suspicion = time.Second

// keeper ends the leases whose validity is over. One goroutine serves them all,
// however many there are.
type keeper struct {
	clock clock
	wake  chan struct{} // the first lease is due earlier than the goroutine knows

	mu     sync.Mutex // protects what follows, and the leases' due and place
	leases leaseHeap  // the one that is due first is the first
	armed  time.Duration
	closed bool
}

func newKeeper(c clock) *keeper {
	return &keeper{clock: c, wake: make(chan struct{}, 1), armed: forever}
}

const forever = time.Duration(1<<63 - 1)

// add takes a lease into its care; false if it is closed.
func (k *keeper) add(l *Lease) bool {
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.closed {
		return false
	}
	heap.Push(&k.leases, l)
	k.rearm()
	return true
}

// move changes when a lease is due.
func (k *keeper) move(l *Lease, due time.Duration) {
	k.mu.Lock()
	defer k.mu.Unlock()
	l.due = due
	if l.place >= 0 {
		heap.Fix(&k.leases, l.place)
		k.rearm()
	}
}

// remove forgets a lease.
func (k *keeper) remove(l *Lease) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if l.place >= 0 {
		heap.Remove(&k.leases, l.place)
	}
}

// close takes no more leases and returns those in its care.
func (k *keeper) close() []*Lease {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.closed = true
	return append([]*Lease(nil), k.leases...)
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

// run ends leases on time until ctx ends.
func (k *keeper) run(ctx context.Context) {
	timer := time.NewTimer(0)
	defer timer.Stop()
	for {
		for _, l := range k.overdue() {
			l.finish(ErrLost)
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

// overdue takes the leases out whose time has come.
func (k *keeper) overdue() []*Lease {
	k.mu.Lock()
	defer k.mu.Unlock()
	var due []*Lease
	for now := k.clock(); len(k.leases) > 0 && k.leases[0].due <= now; {
		due = append(due, heap.Pop(&k.leases).(*Lease))
	}
	return due
}

// sleep is how long the goroutine may sleep.
func (k *keeper) sleep() time.Duration {
	k.mu.Lock()
	defer k.mu.Unlock()
	if len(k.leases) == 0 {
		k.armed = forever
		return forever
	}
	k.armed = k.leases[0].due
	return min(k.armed-k.clock(), suspicion)
}

// leaseHeap orders leases by when they are due.
type leaseHeap []*Lease

func (h leaseHeap) Len() int           { return len(h) }
func (h leaseHeap) Less(i, j int) bool { return h[i].due < h[j].due }

func (h leaseHeap) Swap(i, j int) {
	h[i], h[j] = h[j], h[i]
	h[i].place, h[j].place = i, j
}

func (h *leaseHeap) Push(x any) {
	l := x.(*Lease)
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
