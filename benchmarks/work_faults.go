package main

import (
	"context"
	"fmt"
	"time"
)

var faultsWorkload = workload{
	name: "faults",
	about: "Lock and unlock over five servers while the first of them is slow (20 ms), frozen, dead or flapping " +
		"(frozen for 200 ms, then not). Each call has a limit of 1 s by its context; a call that has not " +
		"returned 2 s after that counts as hung. Peers for one server have theirs at fault.",
	budget:  map[size]time.Duration{tiny: time.Minute, quick: 4 * time.Minute, full: 6 * time.Minute},
	run:     runFaults,
	figures: []string{"lock-p50-ns", "lock-p99-ns", "lock-max-ns", "pairs/s", "failures", "hung"},
	ratios:  []string{"lock-p99-ns"},
	base:    withoutFault,
	page:    faultsPage,
	targets: faultsTargets,
}

const (
	slowBy     = 20 * time.Millisecond
	flapPeriod = 200 * time.Millisecond
	faultGrace = 200 * time.Millisecond // after the fault begins, for what was under way
)

// inflict makes one node slow, frozen, dead or flapping, until restore.
func inflict(l *link, fault string) (restore func(), err error) {
	switch fault {
	case healthy:
		return func() {}, nil
	case slow:
		was := time.Duration(2 * l.oneWay.Load())
		l.delay(was + slowBy)
		return func() { l.delay(was) }, nil
	case frozen:
		l.freeze()
		return l.thaw, nil
	case dead:
		l.cut()
		return func() { _ = l.revive() }, nil // if its port was taken meanwhile, its next use fails
	case flapping:
		return l.flap(flapPeriod), nil
	}
	return nil, fmt.Errorf("there is no fault %q", fault)
}

func faultSetting(fault string) string { return "fault=" + fault }

// runFaults opens each peer anew for each fault, and its proxy too: so no fault affects the
// next one.
func runFaults(ctx context.Context, b *bench) error {
	some, all := []string{healthy, frozen}, []string{healthy, slow, frozen, dead, flapping}
	for range b.roundsOf(bySize(b, 1, 1, 2)) {
		for _, fault := range bySize(b, some, some, all) {
			for _, c := range b.peers {
				if c.name == floor.name {
					continue
				}
				if err := b.fault(ctx, c, fault); err != nil {
					b.addNote("faults, %s, %s: %v", fault, c.name, err)
				}
				if ctx.Err() != nil {
					return ctx.Err()
				}
			}
		}
	}
	return nil
}

func (b *bench) fault(ctx context.Context, c contender, fault string) error {
	at := cell{"faults", c.name, faultSetting(fault)}
	if b.results.nothing[at] {
		return nil
	}
	l, err := openLink(b.servers.addrs[0], 0)
	if err != nil {
		return err
	}
	defer l.close()
	addrs := append([]string{l.addr}, b.servers.addrs[1:nodes]...)
	p, err := b.open(ctx, c, site{addrs: addrs}, false)
	if err != nil {
		return err
	}
	defer b.closeAll([]*opened{p})
	limit := bySize(b, 100*time.Millisecond, time.Second, time.Second)
	length := bySize(b, 50*time.Millisecond, 200*time.Millisecond, 300*time.Millisecond)
	if _, _, err := b.drive(ctx, p.peer, load{goroutines: 16, length: length, limit: limit}); err != nil {
		return err
	}
	restore, err := inflict(l, fault)
	if err != nil {
		return err
	}
	defer restore() // before the peer is closed: what hangs goes on
	if err := pause(ctx, faultGrace); err != nil {
		return err
	}
	length = b.lengthOf(bySize(b, 100*time.Millisecond, time.Second, time.Second))
	during := load{goroutines: 16, length: length, limit: limit}
	b.measure(ctx, p, at, length+10*time.Second, func(ctx context.Context) (int, figures, error) {
		return b.drive(ctx, p.peer, during)
	})
	return nil
}

func withoutFault(c cell) cell { return cell{c.workload, c.peer, faultSetting(healthy)} }

func faultsPage(r *results) []table {
	columns := []column{r.column("healthy, µs", "faults", faultSetting(healthy), "lock-p99-ns", micros)}
	for _, fault := range []string{slow, frozen, dead, flapping} {
		columns = append(columns, column{fault, func(peer string) string {
			at := cell{"faults", peer, faultSetting(fault)}
			return r.shownRatio(at, withoutFault(at), "lock-p99-ns")
		}})
	}
	columns = append(columns, r.column("pairs/s, frozen", "faults", faultSetting(frozen), "pairs/s", whole),
		r.column("dead", "faults", faultSetting(dead), "pairs/s", whole))
	return []table{byPeer("p99 of Lock / healthy p99", r.peers("faults"), columns...)}
}

func faultsTargets(r *results) []check {
	ours := redlockDefault.name
	return []check{
		atMost(2, "x").ofRatio(r, "one node frozen: p99 of Lock / healthy",
			cell{"faults", ours, faultSetting(frozen)}, cell{"faults", ours, faultSetting(healthy)}, "lock-p99-ns"),
		failureCheck(r, "faults"),
	}
}
