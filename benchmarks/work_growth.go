package main

import (
	"context"
	"fmt"
	"slices"
	"time"
)

var growthWorkload = workload{
	name:    "growth",
	about:   "Lock and unlock on distinct names with clusters of 1, 3, 5, 7 and 9 servers: how each cost grows with N.",
	budget:  map[size]time.Duration{tiny: time.Minute, quick: 2 * time.Minute, full: 4 * time.Minute},
	run:     runGrowth,
	figures: []string{"cpu-ns/op", "server-cpu-ns/op", "allocs/op", "lock-p50-ns", "pairs/s"},
	targets: growthTargets,
}

var growthPeers = []contender{redlockDefault, redlockUnfenced, redsyncOnRedigo, redsyncOnRueidis, floor}

func runGrowth(ctx context.Context, b *bench) error {
	for _, n := range bySize(b, []int{1, 3}, []int{1, 3, maxNodes}, []int{1, 3, nodes, 7, maxNodes}) {
		peers := b.openAll(ctx, b.site(n), false, among(growthPeers...))
		for _, g := range bySize(b, []int{4}, []int{1, manyGoroutines}, []int{1, manyGoroutines}) {
			b.drivePeers(ctx, "growth", pairsSetting(n, g), peers, b.roundsOf(bySize(b, 1, 2, 3)), load{
				goroutines: g,
				warmUp:     bySize(b, 20*time.Millisecond, 100*time.Millisecond, 150*time.Millisecond),
				length:     b.lengthOf(bySize(b, 50*time.Millisecond, 300*time.Millisecond, 500*time.Millisecond)),
			})
		}
		b.closeAll(peers)
	}
	return nil
}

// among returns a filter that takes the contenders of a list.
func among(list ...contender) func(contender) bool {
	return func(c contender) bool {
		return slices.ContainsFunc(list, func(o contender) bool { return o.name == c.name })
	}
}

// growthTargets: from n to N servers, no cost grows by more than N/n.
func growthTargets(r *results) []check {
	var all []check
	for _, unit := range []string{"cpu-ns/op", "server-cpu-ns/op", "allocs/op"} {
		for _, from := range []int{1, 3} {
			few, many := pairsSetting(from, manyGoroutines), pairsSetting(maxNodes, manyGoroutines)
			all = append(all, atMost(maxNodes/float64(from), "x").ofRatio(r,
				fmt.Sprintf("%s, %d goroutines: N=%d / N=%d", unit, manyGoroutines, maxNodes, from),
				cell{"growth", redlockDefault.name, many}, cell{"growth", redlockDefault.name, few}, unit).because(
				"more servers on the same cores each wake for fewer commands at a time"))
		}
	}
	return append(all, failureCheck(r, "growth"))
}
