package main

import (
	"context"
	"fmt"
	"math"
	"slices"
	"sync"
	"time"

	"github.com/gomodule/redigo/redis"
)

var wanWorkload = workload{
	name: "wan",
	about: "Lock, renewal and unlock where each node is behind a delaying proxy. The limit is the round trip of " +
		"PING to the k-th fastest node that answers, through the same proxies: no majority is faster.",
	budget: map[size]time.Duration{tiny: time.Minute, quick: 3 * time.Minute, full: 9 * time.Minute},
	run:    runWAN,
	figures: []string{
		"lock-per-limit", "p99-per-limit", "renew-per-limit", "unlock-per-limit", "limit-ns", "lock-p50-ns",
		"lock-p99-ns", "renew-p50-ns", "unlock-p50-ns", "failures", "hung",
	},
	page:    wanPage,
	targets: wanTargets,
}

// distance is how far the nodes are: the first N are used for N nodes.
type distance struct {
	name    string
	rtts    []time.Duration
	callers int // so many goroutines that the machine is not what is measured
}

var distances = []distance{
	{"city", milliseconds(1, 1.2, 1.5, 2, 3, 4, 5), 2},
	{"continent", milliseconds(5, 12, 20, 28, 35, 42, 50), 8},
	{"world", milliseconds(1, 12, 35, 70, 140, 180, 250), 16},
}

func milliseconds(values ...float64) []time.Duration {
	all := make([]time.Duration, len(values))
	for i, v := range values {
		all[i] = time.Duration(v * float64(time.Millisecond))
	}
	return all
}

// Faults of one node, in the settings of results.
const (
	healthy  = "none"
	slow     = "slow"
	frozen   = "frozen"
	dead     = "dead"
	flapping = "flapping"
)

var wanPeers = []contender{redlockDefault, redsyncOnRedigo, redsyncOnRedigoFast, redsyncOnRueidis, floor}

func runWAN(ctx context.Context, b *bench) error {
	for _, d := range bySize(b, distances[:1], distances[2:], distances) {
		for _, n := range bySize(b, []int{3}, []int{nodes}, []int{3, nodes, 7}) {
			if err := b.wan(ctx, d, n, healthy, 0); err != nil {
				return err
			}
		}
		for _, fault := range []string{dead, frozen} {
			for _, at := range bySize(b, []int{0}, []int{0, nodes - 1}, []int{0, nodes - 1}) {
				if err := b.wan(ctx, d, bySize(b, 3, nodes, nodes), fault, at); err != nil {
					return err
				}
			}
		}
	}
	return nil
}

// wanSetting names the fault by whether it is the fastest node's or the slowest's.
func wanSetting(d distance, n int, fault string, at int) string {
	if fault != healthy {
		fault += map[bool]string{true: "-fastest", false: "-slowest"}[at == 0]
	}
	return fmt.Sprintf("distance=%s/nodes=%d/fault=%s", d.name, n, fault)
}

// wan measures one setting, with one node at fault from when all are connected.
func (b *bench) wan(ctx context.Context, d distance, n int, fault string, at int) error {
	links, err := openLinks(b.servers.addrs[:n], d.rtts...)
	if err != nil {
		return err
	}
	defer closeLinks(links)
	answering := slices.Clone(links)
	if fault != healthy {
		answering = slices.Delete(answering, at, at+1)
	}
	take := among(wanPeers...)
	if fault != healthy || n != nodes {
		take = among(redlockDefault, redsyncOnRedigoFast)
	}
	setting := wanSetting(d, n, fault, at)
	if err := b.level(ctx, n); err != nil {
		return err
	}
	peers := b.openAll(ctx, site{addrs: addrsOf(links)}, false, take)
	defer b.closeAll(peers)
	restore, err := inflict(links[at], fault)
	if err != nil {
		return err
	}
	defer restore()
	length := b.lengthOf(bySize(b, 100*time.Millisecond, 1200*time.Millisecond, 1200*time.Millisecond))
	l := load{goroutines: d.callers, warmUp: length / 5, length: length, renew: true, limit: 3 * time.Second}
	inTurn(b.roundsOf(bySize(b, 1, 1, 2)), peers, func(p *opened) {
		at := cell{"wan", p.name, setting}
		b.measure(ctx, p, at, 30*time.Second, func(ctx context.Context) (int, figures, error) {
			limit, err := kthFastest(ctx, answering, n/2+1, bySize(b, 5, 9, 15))
			if err != nil {
				return 0, nil, err
			}
			ops, f, err := b.drive(ctx, p.peer, l)
			if f != nil {
				f["limit-ns"] = float64(limit)
				for _, call := range []string{"lock", "renew", "unlock"} {
					if p50, ok := f[call+"-p50-ns"]; ok {
						f[call+"-per-limit"] = p50 / float64(limit)
					}
				}
				f["p99-per-limit"] = f["lock-p99-ns"] / float64(limit)
			}
			return ops, f, err
		})
	})
	return ctx.Err()
}

// level locks some thousand names without delays, which brings the counters of n nodes to the same
// heights, whatever the fault before has left them at. Else the first lock of each of the 256 stripes
// would take two round trips.
func (b *bench) level(ctx context.Context, n int) error {
	p, err := b.open(ctx, redlockDefault, b.site(n), false)
	if err != nil {
		return err
	}
	defer b.closeAll([]*opened{p})
	_, _, err = b.drive(ctx, p.peer, load{goroutines: 32, length: 500 * time.Millisecond})
	return err
}

// kthFastest is the k-th least of the links' round trips, each the median of some
// PINGs. It does not wait for slower ones.
func kthFastest(ctx context.Context, links []*link, k, pings int) (time.Duration, error) {
	ctx, cancel := context.WithCancel(ctx)
	type answer struct {
		rtt time.Duration
		err error
	}
	answers := make(chan answer, len(links))
	var group sync.WaitGroup
	for _, l := range links {
		group.Go(func() {
			rtt, err := roundTrip(ctx, l.addr, pings)
			answers <- answer{rtt, err}
		})
	}
	defer group.Wait()
	defer cancel()
	if k > len(links) {
		return 0, fmt.Errorf("%d nodes answer, %d are needed", len(links), k)
	}
	slowest := time.Duration(0)
	for range k {
		a := <-answers
		if a.err != nil {
			return 0, a.err
		}
		slowest = max(slowest, a.rtt)
	}
	return slowest, nil
}

func roundTrip(ctx context.Context, addr string, pings int) (time.Duration, error) {
	conn, err := redis.DialContext(ctx, "tcp", addr, redis.DialReadTimeout(5*time.Second))
	if err != nil {
		return 0, err
	}
	defer conn.Close()
	var took []time.Duration
	for range pings {
		begin := time.Now()
		if _, err := redis.DoContext(conn, ctx, "PING"); err != nil {
			return 0, err
		}
		took = append(took, time.Since(begin))
	}
	slices.Sort(took)
	return took[len(took)/2], nil
}

func wanPage(r *results) []table {
	var columns []column
	for _, d := range distances {
		columns = append(columns, r.column(d.name, "wan", wanSetting(d, nodes, healthy, 0), "lock-per-limit", times))
	}
	return []table{byPeer("Lock p50 / limit, 5 nodes", r.peers("wan"), columns...)}
}

const (
	wanOverLimit = 1.03
	wanOfHealthy = 1.10

	wanTimers = "the delaying proxies are in this process, whose timers are up to a millisecond late"
	wanTails  = "the timers of the delaying proxies, and a round's p99 is one of the longest few of some hundred locks"
)

// wanTargets: where the fault takes the fastest node away, the limit itself is
// another one; so p99 is compared in terms of each setting's own limit too.
func wanTargets(r *results) []check {
	var all []check
	ours := redlockDefault.name
	for _, d := range distances {
		for _, n := range []int{3, nodes, 7} {
			c := cell{"wan", ours, wanSetting(d, n, healthy, 0)}
			if v := r.median(c, "lock-per-limit"); n == nodes || !math.IsNaN(v) {
				what := fmt.Sprintf("WAN %s, %d nodes: p50 of Lock / limit", d.name, n)
				all = append(all, atMost(wanOverLimit, "x").ofValue(what, v).because(wanTimers))
			}
		}
		well := cell{"wan", ours, wanSetting(d, nodes, healthy, 0)}
		for _, fault := range []string{dead, frozen} {
			last, first := well, well
			last.setting, first.setting = wanSetting(d, nodes, fault, nodes-1), wanSetting(d, nodes, fault, 0)
			what := fmt.Sprintf("WAN %s, %d nodes, one %s: p99 of Lock / healthy", d.name, nodes, fault)
			all = append(all,
				atMost(wanOfHealthy, "x").ofRatio(r, what+", the slowest node",
					last, well, "lock-p99-ns").because(wanTails),
				atMost(wanOfHealthy, "x").ofRatio(r, what+", the fastest node, each by its own limit",
					first, well, "p99-per-limit").because(wanTails))
		}
	}
	return append(all, failureCheck(r, "wan"))
}
