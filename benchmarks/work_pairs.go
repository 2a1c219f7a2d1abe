package main

import (
	"context"
	"fmt"
	"slices"
	"time"
)

var pairsWorkload = workload{
	name: "pairs",
	about: "Lock and unlock on distinct names, 64 of its own for each goroutine in turn, over five servers " +
		"(peers for one server use the first alone). Nobody waits for a holder: this is what the quorum " +
		"costs.",
	budget:  map[size]time.Duration{tiny: time.Minute, quick: 4 * time.Minute, full: 8 * time.Minute},
	run:     runPairs,
	figures: pairsFigures,
	ratios:  pairsRatios,
	page:    pairsPage,
	targets: pairsTargets,
}

const (
	fewGoroutines  = 16
	manyGoroutines = 128
	mostGoroutines = 512
)

func runPairs(ctx context.Context, b *bench) error {
	peers := b.openAll(ctx, b.site(nodes), false, func(contender) bool { return true })
	defer b.closeAll(peers)
	all := []int{1, fewGoroutines, manyGoroutines, mostGoroutines}
	for _, g := range bySize(b, []int{1, 8}, all, all) {
		b.drivePeers(ctx, "pairs", pairsSetting(nodes, g), peers, b.roundsOf(bySize(b, 1, 3, 7)), b.pairsLoad(g))
	}
	return nil
}

// pairsLoad is a round of lock and release by so many goroutines.
func (b *bench) pairsLoad(goroutines int) load {
	return load{
		goroutines: goroutines,
		warmUp:     bySize(b, 20*time.Millisecond, 150*time.Millisecond, 150*time.Millisecond),
		length:     b.lengthOf(bySize(b, 50*time.Millisecond, 500*time.Millisecond, 600*time.Millisecond)),
	}
}

func pairsSetting(nodes, goroutines int) string {
	return fmt.Sprintf("nodes=%d/goroutines=%d", nodes, goroutines)
}

// drivePeers measures peers that are open in one setting, round by round.
func (b *bench) drivePeers(ctx context.Context, workload, setting string, peers []*opened, rounds int, l load) {
	limit := l.warmUp + l.length + 2*(l.limit+stragglers) + 5*time.Second
	inTurn(rounds, peers, func(p *opened) {
		b.measure(ctx, p, cell{workload, p.name, setting}, limit, func(ctx context.Context) (int, figures, error) {
			return b.drive(ctx, p.peer, l)
		})
	})
}

var (
	pairsFigures = []string{
		"pairs/s", "lock-p50-ns", "lock-p99-ns", "unlock-p50-ns", "unlock-p99-ns", "cpu-ns/op", "server-cpu-ns/op",
		"allocs/op", "B/op", "failures", "hung",
	}
	pairsRatios = []string{"pairs/s", "lock-p50-ns", "cpu-ns/op"}
)

func pairsPage(r *results) []table {
	ours := redlockDefault.name
	busy, alone := pairsSetting(nodes, manyGoroutines), pairsSetting(nodes, 1)
	return []table{
		byPeer("Throughput and CPU, 128 goroutines", slices.DeleteFunc(r.peers("pairs"), failFast),
			r.against("pairs/s, redlock / peer", cell{"pairs", ours, busy}, "pairs/s"),
			r.against("without tokens", cell{"pairs", redlockUnfenced.name, busy}, "pairs/s"),
			r.against("client CPU", cell{"pairs", ours, busy}, "cpu-ns/op"),
			r.column("pairs/s", "pairs", busy, "pairs/s", whole),
			r.column("client, µs/pair", "pairs", busy, "cpu-ns/op", micros),
			r.column("servers", "pairs", busy, "server-cpu-ns/op", micros)),
		byPeer("Latency of Lock, µs", r.peers("pairs"),
			r.against("redlock / peer", cell{"pairs", ours, alone}, "lock-p50-ns"),
			r.column("p50, 1 goroutine", "pairs", alone, "lock-p50-ns", micros),
			r.column("p99", "pairs", alone, "lock-p99-ns", micros),
			r.column("p50, 128", "pairs", busy, "lock-p50-ns", micros)),
	}
}

// What stands in the way of targets that are missed; docs/performance.md has the profile.
const (
	ownWork = "the client's own work: ballots, leases, timeouts and checks of the nodes; the floor has nothing of that"
	wakeUps = "five connections' readers wake, and one of them wakes the caller"
	boxed   = "the lock's three keys are boxed once for all of its commands"
	notBack = "attempts and releases whose last answers come late are not used again soon enough"
)

func pairsTargets(r *results) []check {
	var all []check
	compare := func(b bound, what, ours, theirs string, goroutines int, unit, obstacle string) {
		setting := pairsSetting(nodes, goroutines)
		all = append(all, b.ofRatio(r, fmt.Sprintf("%s, goroutines: %d, %s / %s", what, goroutines, ours, theirs),
			cell{"pairs", ours, setting}, cell{"pairs", theirs, setting}, unit).because(obstacle))
	}
	const speed, p50, cpu = "pairs/s", "lock-p50-ns", "cpu-ns/op"
	ours := redlockDefault.name
	at := cell{"pairs", ours, pairsSetting(nodes, manyGoroutines)}
	best := r.bestOf("pairs", at.setting, speed, redsyncOnRedigo, redsyncOnGoRedis, redsyncOnRueidis)
	compare(atLeast(2.5, "x"), "pairs/s, best adapter", ours, best, manyGoroutines, speed, "")
	compare(atLeast(0.75, "x"), "pairs/s", ours, floor.name, manyGoroutines, speed, ownWork)
	compare(atLeast(0.78, "x"), "pairs/s", ours, floor.name, mostGoroutines, speed, ownWork)
	compare(atMost(2.2, "x"), "client CPU", ours, floor.name, manyGoroutines, cpu, ownWork)
	compare(atMost(0.14, "x"), "client CPU", ours, redsyncOnRedigo.name, manyGoroutines, cpu, ownWork)
	compare(atMost(0.66, "x"), "p50 of Lock", ours, redsyncOnRedigo.name, 1, p50, wakeUps)
	for _, c := range []contender{redsyncOnGoRedis, redsyncOnRueidis} {
		compare(atMost(0.85, "x"), "p50 of Lock", ours, c.name, 1, p50, "")
	}
	for _, c := range []contender{redsyncOnRedigoFast, redsyncOnGoRedisFast, redsyncOnRueidisFast} {
		compare(atMost(1.2, "x"), "p50 of Lock", ours, c.name, 1, p50, "")
	}
	compare(atMost(1.2, "x"), "p50 of Lock", ours, floor.name, 1, p50, ownWork)
	return append(all,
		atMost(13, "").ofValue("allocations for a pair, by name", r.median(at, "allocs/op")).because(boxed),
		atMost(2600, " B").ofValue("bytes for a pair, by name", r.median(at, "B/op")).because(notBack),
		failureCheck(r, "pairs"))
}

// failureCheck checks that no call of this library fails or hangs where nothing is wrong. Its peers are ours, or
// else redlock and redlock-unfenced.
func failureCheck(r *results, workload string, ours ...string) check {
	if len(ours) == 0 {
		ours = []string{redlockDefault.name, redlockUnfenced.name}
	}
	failed, rounds := 0.0, 0
	for _, e := range r.entries {
		if e.workload == workload && slices.Contains(ours, e.peer) {
			failed += e.figures["failures"] + e.figures["hung"]
			rounds++
		}
	}
	c := check{what: "calls of this library that failed or hung: " + workload, target: "none"}
	if rounds > 0 {
		c.measured, c.met = fmt.Sprintf("%.0f in %d rounds", failed, rounds), failed == 0
	}
	return c
}

// bestOf is the name of the contender with the most of a unit.
func (r *results) bestOf(workload, setting, unit string, among ...contender) string {
	best, most := among[0].name, 0.0
	for _, c := range among {
		if v := r.median(cell{workload, c.name, setting}, unit); v > most {
			best, most = c.name, v
		}
	}
	return best
}
