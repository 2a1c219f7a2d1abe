package main

import (
	"context"
	"fmt"
	"math"
	"runtime"
	"sync"
	"sync/atomic"
	"time"

	"github.com/redlock-go/redlock"
)

var leasesWorkload = workload{
	name: "leases",
	about: "Leases of this library that are held and renew themselves, over five servers, ttl 60 s: memory, CPU " +
		"and system calls for each.",
	budget: map[size]time.Duration{tiny: time.Minute, quick: 3 * time.Minute, full: 5 * time.Minute},
	run:    runLeases,
	figures: []string{
		"heap-B/lease", "goroutines", "renewals/s", "cpu-ns/renewal", "server-cpu-ns/renewal", "writes/vote",
		"lost",
	},
	targets: leasesTargets,
}

const (
	leaseTakers  = 64 // goroutines that lock and unlock; they are gone when it is counted
	settleWithin = 5 * time.Second
)

// leasePlan is how many leases are held, and for how long.
type leasePlan struct {
	count int
	ttl   time.Duration
	watch time.Duration // for how long their renewals are counted
}

// runLeases takes a long ttl: with the default one of 10 s, 100 000 leases are 170 000 renewals a second, which
// is more than local servers on a few processors can do.
func runLeases(ctx context.Context, b *bench) error {
	few := leasePlan{1000, time.Minute, 21 * time.Second}
	many := leasePlan{manyLeases, time.Minute, 21 * time.Second}
	most := leasePlan{mostLeases, time.Minute, 42 * time.Second}
	plan := bySize(b,
		[]leasePlan{{200, 3 * time.Second, 1500 * time.Millisecond}}, []leasePlan{many}, []leasePlan{few, many, most})
	for _, pl := range plan {
		p, err := openRedlock(b.site(nodes), redlock.WithTTL(pl.ttl))
		if err != nil {
			return err
		}
		o := &opened{contender: redlockDefault, peer: p}
		at := cell{"leases", redlockDefault.name, fmt.Sprintf("leases=%d", pl.count)}
		b.measure(ctx, o, at, pl.watch+2*time.Minute, func(ctx context.Context) (int, figures, error) {
			return b.holdLeases(ctx, p, pl)
		})
		b.closeAll([]*opened{o})
		if ctx.Err() != nil {
			return ctx.Err()
		}
	}
	return nil
}

// holdLeases takes so many leases at once, on names of their own, counts what
// they cost, and releases them.
func (b *bench) holdLeases(ctx context.Context, p *redlockPeer, pl leasePlan) (int, figures, error) {
	err := each(leaseTakers, func(i int) error { // the queues grow now, not at the leases' cost
		lease, err := p.lock(ctx, fmt.Sprintf("lease/warm/%d", i))
		if err != nil {
			return err
		}
		return lease.Unlock(ctx)
	})
	if err != nil {
		return 0, nil, err
	}
	leases := make([]held, pl.count)
	heap, goroutines := liveHeap(), runtime.NumGoroutine()
	err = each(pl.count, func(i int) (err error) {
		leases[i], err = p.lock(ctx, fmt.Sprintf("lease/%d", i))
		return err
	})
	if err != nil {
		return 0, nil, err
	}
	f := figures{"goroutines": float64(settledGoroutines(goroutines) - goroutines)}
	f["heap-B/lease"] = float64(liveHeap()-heap) / float64(pl.count)
	renewals, err := b.watchRenewals(ctx, pl, f)
	if err != nil {
		return 0, nil, err
	}
	lost := 0
	for _, l := range leases {
		if !l.(*redlock.Lease).Valid() {
			lost++
		}
	}
	f["lost"] = float64(lost)
	return renewals, f, each(pl.count, func(i int) error { return leases[i].Unlock(ctx) })
}

// watchRenewals counts what renewing costs for a while. The number of renewals is
// what the servers were sent, since nothing else is sent to them meanwhile.
func (b *bench) watchRenewals(ctx context.Context, pl leasePlan, f figures) (int, error) {
	calls, err := b.servers.scriptCalls(nodes)
	if err != nil {
		return 0, err
	}
	cpu, serverCPU, writes := cpuTime(), b.servers.cpuTime(), writeCalls()
	if err := pause(ctx, pl.watch); err != nil {
		return 0, err
	}
	cpu, serverCPU, writes = cpuTime()-cpu, b.servers.cpuTime()-serverCPU, writeCalls()-writes
	after, err := b.servers.scriptCalls(nodes)
	if err != nil {
		return 0, err
	}
	renewals := float64(after-calls) / nodes
	if renewals < 1 {
		return 0, fmt.Errorf("none of %d leases renewed within %v", pl.count, pl.watch)
	}
	f["cpu-ns/renewal"] = float64(cpu) / renewals
	f["server-cpu-ns/renewal"] = float64(serverCPU) / renewals
	f["renewals/s"] = renewals / pl.watch.Seconds()
	if writes > 0 {
		f["writes/vote"] = float64(writes) / (renewals * nodes)
	}
	return int(renewals), nil
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

// liveHeap is what is reachable, in bytes: the least of three measurements, as on a slow machine
// renewals are under way at one of them. The second collection empties what pools kept over the first.
func liveHeap() int64 {
	least := int64(math.MaxInt64)
	for range 3 {
		runtime.GC()
		runtime.GC()
		var m runtime.MemStats
		runtime.ReadMemStats(&m)
		least = min(least, int64(m.HeapAlloc))
		time.Sleep(20 * time.Millisecond)
	}
	return least
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

const (
	maxHeapPerLease   = 1024
	maxNewGoroutines  = 8    // whatever the number of leases
	maxWritesPerVote  = 0.25 // system calls, for one renewal at one node
	maxGrowthPerLease = 1.25
	mostLeases        = 100_000
	manyLeases        = 10_000
)

func leasesTargets(r *results) []check {
	var all []check
	for _, setting := range r.settings("leases") {
		at := cell{"leases", redlockDefault.name, setting}
		all = append(all,
			atMost(0, "").ofValue("leases lost, "+setting, r.median(at, "lost")),
			atMost(maxNewGoroutines, "").ofValue("goroutines more, "+setting, r.median(at, "goroutines")))
		if at.number("leases") >= manyLeases {
			all = append(all,
				atMost(maxHeapPerLease, " B").ofValue("heap for a lease, "+setting, r.median(at, "heap-B/lease")),
				atMost(maxWritesPerVote, "").ofValue("write calls for a renewal at a node, "+setting,
					r.median(at, "writes/vote")))
		}
	}
	many := cell{"leases", redlockDefault.name, fmt.Sprintf("leases=%d", manyLeases)}
	most := cell{"leases", redlockDefault.name, fmt.Sprintf("leases=%d", mostLeases)}
	for _, unit := range []string{"heap-B/lease", "cpu-ns/renewal", "server-cpu-ns/renewal"} {
		what := fmt.Sprintf("%s, %d leases / %d", unit, mostLeases, manyLeases)
		all = append(all, atMost(maxGrowthPerLease, "x").ofRatio(r, what, most, many, unit))
	}
	return all
}
