package main

import (
	"context"
	"fmt"
	"runtime"
	"sync"
	"sync/atomic"
	"time"

	"github.com/redlock-go/redlock"
)

const (
	leaseTTL     = 10 * time.Minute // none expires while it is counted
	leaseTakers  = 64               // goroutines that lock and unlock; they are gone when it is counted
	settleWithin = 5 * time.Second
)

// leaseCost is what holding many leases costs.
type leaseCost struct {
	leases           int
	goroutinesBefore int
	goroutinesAfter  int
	heapPerLease     float64 // bytes, the lease's name and key among them
}

// holdLeases takes so many leases of this library at once, on names of their
// own, counts what they cost, and releases them.
func holdLeases(ctx context.Context, addrs []string, count int) (*leaseCost, error) {
	p, err := openRedlock(addrs, redlock.WithTTL(leaseTTL), redlock.WithRestartGuard(0), redlock.WithFencing(false))
	if err != nil {
		return nil, err
	}
	defer p.close()
	err = each(leaseTakers, func(i int) error { // the queues grow now, not at the leases' cost
		lease, err := p.lock(ctx, fmt.Sprintf("lease/warm/%d", i))
		if err != nil {
			return err
		}
		return lease.Unlock(ctx)
	})
	if err != nil {
		return nil, err
	}

	leases := make([]held, count)
	cost := &leaseCost{leases: count}
	heapBefore := liveHeap()
	cost.goroutinesBefore = runtime.NumGoroutine()
	err = each(count, func(i int) (err error) {
		leases[i], err = p.lock(ctx, fmt.Sprintf("lease/%d", i))
		return err
	})
	if err != nil {
		return nil, err
	}
	cost.goroutinesAfter = settledGoroutines(cost.goroutinesBefore)
	cost.heapPerLease = float64(liveHeap()-heapBefore) / float64(count)
	return cost, each(count, func(i int) error { return leases[i].Unlock(ctx) })
}

// each calls do for 0 … n−1 from a few goroutines, and returns when all is done
// with one of the errors.
func each(n int, do func(i int) error) error {
	var next atomic.Int64
	var group sync.WaitGroup
	errs := make(chan error, leaseTakers)
	for range leaseTakers {
		group.Go(func() {
			for i := int(next.Add(1)) - 1; i < n; i = int(next.Add(1)) - 1 {
				if err := do(i); err != nil {
					errs <- err
					return
				}
			}
		})
	}
	group.Wait()
	close(errs)
	return <-errs
}

// liveHeap is what is reachable, in bytes. The second collection empties what
// pools kept over the first.
func liveHeap() int64 {
	runtime.GC()
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return int64(m.HeapAlloc)
}

// settledGoroutines is their number once it is down to what is expected, or
// after a while.
func settledGoroutines(expected int) int {
	for begin := time.Now(); time.Since(begin) < settleWithin; time.Sleep(10 * time.Millisecond) {
		if runtime.NumGoroutine() <= expected {
			break
		}
	}
	return runtime.NumGoroutine()
}
