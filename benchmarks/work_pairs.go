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
		"(peers for one server use the first alone). Nobody waits for a holder: this is what the quorum costs.",
	budget:  map[size]time.Duration{tiny: time.Minute, quick: 4 * time.Minute, full: 8 * time.Minute},
	run:     runPairs,
	figures: pairsFigures,
	ratios:  pairsRatios,
	page:    pairsPage,
	charts:  pairsCharts,
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

// foreignRounds is how many rounds peers without Redis take part in at most: no target is about them.
const foreignRounds = 3

// drivePeers measures peers that are open in one setting, round by round.
func (b *bench) drivePeers(ctx context.Context, workload, setting string, peers []*opened, rounds int, l load) {
	limit := l.warmUp + l.length + 2*(l.limit+stragglers) + 5*time.Second
	round := func(p *opened, length time.Duration) func(context.Context) (int, figures, error) {
		return func(ctx context.Context) (int, figures, error) {
			l := l
			l.length = length
			return b.drive(ctx, p.peer, l)
		}
	}
	var able []*opened
	for _, p := range peers {
		if !p.alone || l.goroutines == 1 {
			able = append(able, p)
		}
	}
	inTurn(rounds, able, func(number int, p *opened) {
		if p.kind == foreign && number >= foreignRounds {
			return
		}
		b.measure(ctx, p, cell{workload, p.name, setting}, limit, round(p, l.length))
	})
	for _, p := range able {
		b.profile(ctx, p, cell{workload, p.name, setting}, limit, round(p, l.length))
	}
}

var (
	pairsFigures = []string{"pairs/s", "lock-p50-ns", "lock-p99-ns", "unlock-p50-ns", "unlock-p99-ns", "cpu-ns/op", "server-cpu-ns/op",
		"allocs/op", "B/op", "failures", "hung"}
	pairsRatios = []string{"pairs/s", "lock-p50-ns", "cpu-ns/op"}
)

func pairsPage(r *results) []table {
	ours := redlockDefault.name
	busy, alone := pairsSetting(nodes, manyGoroutines), pairsSetting(nodes, 1)
	return []table{
		byPeer("Throughput and CPU, 128 goroutines", r.without(failFast).peers("pairs"),
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

func pairsCharts(r *results) []chart {
	r = r.without(failFast)
	return []chart{
		r.lines("pairs", "pairs-throughput", "Lock+unlock on distinct names, 5 servers", "goroutines", "pairs/s", "pairs per second", 1),
		r.lines("pairs", "pairs-latency", "Lock, median, 5 servers", "goroutines", "lock-p50-ns", "ms", 1e6),
		r.lines("pairs", "pairs-cpu", "Client CPU for one lock+unlock, 5 servers", "goroutines", "cpu-ns/op", "µs", 1e3),
	}
}

// What stands in the way of targets that are missed; docs/performance.md has the profile.
const (
	ownWork = "the client's own work: ballots, leases, timeouts and checks of the nodes; the floor has nothing of that"
	wakeUps = "five connections' readers wake, and one of them wakes the caller; the bare loop reads five sockets itself"
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
	ours, floor := redlockDefault.name, floorPipelined.name
	best := r.bestOf("pairs", pairsSetting(nodes, manyGoroutines), speed, redsyncOnRedigo, redsyncOnGoRedis, redsyncOnRueidis)
	compare(atLeast(2.5, "x"), "pairs/s, best adapter", ours, best, manyGoroutines, speed, "")
	compare(atLeast(0.75, "x"), "pairs/s", ours, floor, manyGoroutines, speed, ownWork)
	compare(atLeast(0.78, "x"), "pairs/s", ours, floor, mostGoroutines, speed, ownWork)
	compare(atMost(2.2, "x"), "client CPU", ours, floor, manyGoroutines, cpu, ownWork)
	compare(atMost(0.14, "x"), "client CPU", ours, redsyncOnRedigo.name, manyGoroutines, cpu, ownWork)
	compare(atMost(0.66, "x"), "p50 of Lock", ours, redsyncOnRedigo.name, 1, p50, wakeUps)
	for _, c := range []contender{redsyncOnGoRedis, redsyncOnRueidis} {
		compare(atMost(0.85, "x"), "p50 of Lock", ours, c.name, 1, p50, "")
	}
	for _, c := range []contender{redsyncOnRedigoFast, redsyncOnGoRedisFast, redsyncOnRueidisFast} {
		compare(atMost(1.2, "x"), "p50 of Lock", ours, c.name, 1, p50, "")
	}
	compare(atMost(1.2, "x"), "p50 of Lock", ours, floorBare.name, 1, p50, wakeUps)
	at := cell{"pairs", ours, pairsSetting(nodes, manyGoroutines)}
	all = append(all,
		atMost(13, "").ofValue("allocations for a pair, by name", r.median(at, "allocs/op")).because("the lock's three keys are boxed once for all of its commands"),
		atMost(2600, " B").ofValue("bytes for a pair, by name", r.median(at, "B/op")).because(notBack))
	return append(all, failureCheck(r, "pairs"))
}

// failureCheck: no call of this library may fail or hang where nothing is wrong.
func failureCheck(r *results, workload string) check {
	return failureCheckOf(r, workload, redlockDefault.name, redlockUnfenced.name)
}

// failureCheckOf is failureCheck where this library's peers have these names.
func failureCheckOf(r *results, workload string, ours ...string) check {
	failed, rounds := 0.0, 0
	for _, e := range r.entries {
		if e.workload == workload && slices.Contains(ours, e.peer) {
			failed += e.figures["failures"] + e.figures["hung"]
			rounds++
		}
	}
	c := check{what: "calls of this library that failed or hung: " + workload, target: "none", met: failed == 0 && rounds > 0}
	if rounds > 0 {
		c.measured = fmt.Sprintf("%.0f in %d rounds", failed, rounds)
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
