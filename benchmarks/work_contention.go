package main

import (
	"context"
	"fmt"
	"math"
	"runtime"
	"slices"
	"time"
)

var contentionWorkload = workload{
	name: "contention",
	about: "Many runners lock one name; each holds it for 2 ms, and asks again at once after its release. Up to " +
		"16 have a client (its own connections, as a process has) each, more share 16. A hand-off lasts from " +
		"the call of Unlock to the next holder's return from Lock. Shares are relative to the mean; commands " +
		"are those of the busiest server.",
	budget: map[size]time.Duration{tiny: time.Minute, quick: 3 * time.Minute, full: 6 * time.Minute},
	run:    runContention,
	parts:  []string{"commands", "alone", "idle"},
	figures: []string{
		"sections/s", "handoff-p50-ns", "handoff-p99-ns", "kept-share", "passed-p50-ns", "passed-p99-ns",
		"least-share", "most-share", "overlaps", "failures", "hung", "commands/handoff", "lock-p50-ns",
		"lock-p99-ns", "commands/s",
	},
	ratios:  []string{"sections/s", "passed-p99-ns"},
	page:    contentionPage,
	targets: contentionTargets,
}

const (
	fewWaiters = 16 // that have a client each; more share so many
	idleFor    = 10 * time.Second
	manyIdle   = 1000
)

// contends reports whether a contender is measured here: its lock waits for a holder.
func contends(c contender) bool {
	return c.single || among(redlockDefault, redsyncOnRedigo, redsyncOnRueidis)(c)
}

func contentionSetting(waiters int) string { return fmt.Sprintf("clients=%d", waiters) }

func runContention(ctx context.Context, b *bench) error {
	for _, n := range bySize(b, []int{4}, []int{fewWaiters, 128}, []int{2, fewWaiters, 64, 256}) {
		inTurnOf := b.roundsOf(bySize(b, 1, 2, 2))
		for _, c := range b.peers {
			if contends(c) {
				b.contend(ctx, c, n, inTurnOf)
			}
			if ctx.Err() != nil {
				return ctx.Err()
			}
		}
	}
	b.alone(ctx)
	return b.idle(ctx)
}

// alone measures an uncontended Lock at the pace of the relay. Between the hand-offs servers
// and clients sleep, and waking them takes longer than in a loop without pauses.
func (b *bench) alone(ctx context.Context) {
	peers := b.openAll(ctx, b.site(nodes), true, among(redlockDefault, rueidislockOne))
	defer b.closeAll(peers)
	length := b.lengthOf(bySize(b, 50*time.Millisecond, 500*time.Millisecond, time.Second))
	b.drivePeers(ctx, "alone", contentionSetting(1), peers, b.roundsOf(bySize(b, 1, 3, 5)),
		load{goroutines: 1, hold: holdTime, warmUp: 50 * time.Millisecond, length: length})
}

// contend lets n runners of a peer compete: some rounds for the time, and one
// behind proxies for the commands.
func (b *bench) contend(ctx context.Context, c contender, n, rounds int) {
	clients, err := b.openClients(ctx, c, b.site(nodes), n)
	if err != nil {
		b.addNote("contention: %v", err)
		return
	}
	defer b.closeAll(clients)
	length := b.lengthOf(bySize(b, 100*time.Millisecond, 700*time.Millisecond, time.Second))
	gather := bySize(b, 50*time.Millisecond, 200*time.Millisecond, 300*time.Millisecond)
	at := cell{"contention", c.name, contentionSetting(n)}
	round := func(ctx context.Context) (int, figures, error) {
		runtime.GC() // the garbage of the peer before is not this one's cost
		l, err := runRelay(ctx, clients, n, gather, length)
		if err != nil {
			return 0, nil, err
		}
		return l.handoff.total, l.figures(), nil
	}
	for range rounds {
		b.measure(ctx, clients[0], at, gather+length+giveUp+10*time.Second, round)
	}
	if !clients[0].lost {
		b.countCommands(ctx, c, n,
			bySize(b, gather, time.Second, time.Second), bySize(b, length, time.Second, time.Second))
	}
	for _, other := range clients {
		other.lost = clients[0].lost
	}
}

// openClients opens a client for each of so many runners, or for the first few.
func (b *bench) openClients(ctx context.Context, c contender, s site, runners int) ([]*opened, error) {
	var clients []*opened
	for range min(runners, fewWaiters) {
		p, err := b.open(ctx, c, s, true)
		if err != nil {
			b.closeAll(clients)
			return nil, err
		}
		clients = append(clients, p)
	}
	return clients, nil
}

func (l *laps) figures() figures {
	return figures{
		"handoff-p50-ns": float64(l.handoff.quantile(0.50)),
		"handoff-p99-ns": float64(l.handoff.quantile(0.99)),
		"passed-p50-ns":  float64(l.passed.quantile(0.50)),
		"passed-p99-ns":  float64(l.passed.quantile(0.99)),
		"sections/s":     float64(l.handoff.total) / l.elapsed.Seconds(),
		"kept-share":     1 - float64(l.passed.total)/float64(l.handoff.total), // went back to the runner that released
		"least-share":    l.leastShare(),
		"most-share":     l.mostShare(),
		"overlaps":       float64(l.overlaps),
		"failures":       float64(l.failures),
		"hung":           float64(l.hung),
	}
}

// countCommands counts by a proxy, in a round of its own, and from the first hand-off on: commands of waiters that
// arrive or leave are no cost of a hand-off.
func (b *bench) countCommands(ctx context.Context, c contender, n int, gather, length time.Duration) {
	at := cell{"commands", c.name, contentionSetting(n)}
	b.withCrowd(ctx, c, n, gather, at, func(r *relay, links []*link) (int, figures, error) {
		before := busiest(links)
		if err := r.begin(ctx, length); err != nil {
			return 0, nil, err
		}
		commands, handoffs := float64(busiest(links)-before), r.handoffs()
		if handoffs == 0 {
			return 0, nil, fmt.Errorf("nothing was handed off among %d", n)
		}
		return handoffs, figures{"commands/handoff": commands / float64(handoffs)}, nil
	})
}

func (b *bench) idle(ctx context.Context) error {
	if slices.ContainsFunc(b.peers, among(redlockDefault)) {
		b.countIdle(ctx, bySize(b, 32, manyIdle, manyIdle), bySize(b, 200*time.Millisecond, idleFor, idleFor))
	}
	return ctx.Err()
}

// countIdle counts while a crowd waits and the lock is not released.
func (b *bench) countIdle(ctx context.Context, n int, length time.Duration) {
	at := cell{"idle", redlockDefault.name, contentionSetting(n)}
	b.withCrowd(ctx, redlockDefault, n, bySize(b, time.Second, 2*time.Second, 2*time.Second), at,
		func(_ *relay, links []*link) (int, figures, error) {
			before := busiest(links)
			if err := pause(ctx, length); err != nil {
				return 0, nil, err
			}
			return n, figures{"commands/s": float64(busiest(links)-before) / length.Seconds()}, nil
		})
}

// busiest returns the greatest number of commands that one server was sent.
func busiest(links []*link) int64 {
	most := int64(0)
	for _, l := range links {
		most = max(most, l.commands.Load())
	}
	return most
}

// withCrowd measures a cell once a crowd waits, behind proxies that count, for a
// lock that is held, and sends the crowd home after it.
func (b *bench) withCrowd(ctx context.Context, c contender, n int, gather time.Duration, at cell,
	work func(*relay, []*link) (int, figures, error)) {
	links, err := openLinks(b.servers.addrs[:nodes])
	if err != nil {
		b.addNote("%s: %v", at.workload, err)
		return
	}
	defer closeLinks(links)
	clients, err := b.openClients(ctx, c, site{addrs: addrsOf(links)}, n)
	if err != nil {
		b.addNote("%s: %v", at.workload, err)
		return
	}
	defer b.closeAll(clients)
	b.measure(ctx, clients[0], at, 45*time.Second, func(ctx context.Context) (ops int, f figures, err error) {
		l, err := withRelay(ctx, clients, n, gather, func(r *relay) (err error) {
			ops, f, err = work(r, links)
			return err
		})
		if f != nil {
			f["overlaps"], f["failures"], f["hung"] = float64(l.overlaps), float64(l.failures), float64(l.hung)
		}
		return ops, f, err
	})
}

func contentionPage(r *results) []table {
	few := contentionSetting(fewWaiters)
	return []table{byPeer("One name, 16 clients", r.peers("contention"),
		r.against("redlock / peer", cell{"contention", redlockDefault.name, few}, "sections/s"),
		r.column("sections/s", "contention", few, "sections/s", whole),
		r.column("hand-off p50, µs", "contention", few, "handoff-p50-ns", micros),
		r.column("to others: p99, µs", "contention", few, "passed-p99-ns", micros),
		r.column("least share", "contention", few, "least-share", hundredths),
		r.column("most", "contention", few, "most-share", hundredths),
		r.column("commands/hand-off, 256 clients", "commands", contentionSetting(256), "commands/handoff", hundredths))}
}

// sleepers is why a hand-off can take many times as long as a Lock in a loop.
const sleepers = "clients and servers sleep between hand-offs; waking takes longer than the trip"

// contentionTargets: the hand-off is compared with an uncontended Lock of the
// same run, where it has that.
func contentionTargets(r *results) []check {
	ours := redlockDefault.name
	few := cell{"contention", ours, contentionSetting(fewWaiters)}
	alone := r.median(cell{"pairs", ours, pairsSetting(nodes, 1)}, "lock-p50-ns")
	paced := r.median(cell{"alone", ours, contentionSetting(1)}, "lock-p50-ns")
	one := few
	one.peer = rueidislockOne.name
	p50, p99 := r.median(few, "handoff-p50-ns"), r.median(few, "handoff-p99-ns")
	of, equal := fmt.Sprintf("%d clients", fewWaiters), fmt.Sprintf("share of %d equal clients", fewWaiters)
	onOne := fmt.Sprintf("%s on %d servers / %s on one", ours, nodes, one.peer)
	checks := []check{
		atMost(3.5, "x").ofValue("hand-off p50, "+of+" / an uncontended Lock's p50 in a loop without rest", p50/alone).
			because(sleepers),
		atMost(10, "x").ofValue("hand-off p99, "+of+" / the same", p99/alone).because(sleepers),
		atMost(3.5, "x").ofValue("hand-off p50, "+of+" / an uncontended Lock's p50 at the same pace", p50/paced),
		atMost(1, "x").ofRatio(r, "hand-off p50, "+of+": "+onOne, few, one, "handoff-p50-ns"),
		atLeast(0.8, "").ofValue("least "+equal, r.median(few, "least-share")),
		atMost(1.25, "").ofValue("most "+equal, r.median(few, "most-share")),
	}
	small, large := cell{"commands", ours, few.setting}, few
	for _, setting := range r.settings("commands") {
		if c := (cell{"commands", ours, setting}); c.number("clients") >= 128 {
			large = c
		}
	}
	idle := math.NaN()
	for _, setting := range r.settings("idle") {
		idle = r.median(cell{"idle", ours, setting}, "commands/s")
	}
	return append(checks,
		atMost(1.5, "x").ofRatio(r, "commands for a hand-off, "+large.setting+" / "+small.setting,
			large, small, "commands/handoff"),
		atMost(10, "").ofValue(fmt.Sprintf("commands per second while %d wait", manyIdle), idle).because(
			"the foremost waiter of each of 16 clients asks now and then, in case a holder has died"),
		r.soundCheck())
}

// soundCheck: no two hold the lock at once, and no Lock or Unlock fails where
// nothing is wrong.
func (r *results) soundCheck() check {
	c := check{what: "two holders at once, failures and hangs of this library while the lock goes round"}
	c.target = "none"
	overlaps, failures, hung := 0.0, 0.0, 0.0
	for _, e := range r.entries {
		if e.peer == redlockDefault.name && slices.Contains([]string{"contention", "commands", "idle"}, e.workload) {
			overlaps += e.figures["overlaps"]
			failures += e.figures["failures"]
			hung += e.figures["hung"]
			c.measured = fmt.Sprintf("%.0f, %.0f, %.0f", overlaps, failures, hung)
		}
	}
	c.met = c.measured != "" && overlaps+failures+hung == 0
	return c
}
