package main

import (
	"context"
	"fmt"
	"io"
	"runtime"
	"slices"
	"time"
)

const (
	relayClients = 16                     // each with its own connections, as a process of its own has
	gatherFew    = 100 * time.Millisecond // until so many wait
)

// relayPeers are those whose hand-over is measured, in the order of the report.
var relayPeers = []contender{redlockUnguarded, rueidislockOne, redsyncPatient}

// handoverRound is one round of all peers, and what an uncontended Lock of this
// library took beside it.
type handoverRound struct {
	uncontended time.Duration // p50
	laps        map[string]*laps
}

type handoverRounds []handoverRound

// measureHandovers measures the peers in rounds in turn; each round begins with
// another one.
func (pl *contentionPlan) measureHandovers(ctx context.Context, addrs []string, progress io.Writer) (handoverRounds, error) {
	var rounds handoverRounds
	single, err := redlockUnguarded.open(addrs)
	if err != nil {
		return nil, err
	}
	defer single.close()
	clients := make([][]opened, len(relayPeers))
	for i, c := range relayPeers {
		if clients[i], err = openAll(slices.Repeat([]contender{c}, relayClients), addrs); err != nil {
			return nil, err
		}
		defer closeAll(clients[i])
	}
	for n := range pl.rounds {
		round := handoverRound{laps: make(map[string]*laps)}
		if round.uncontended, err = pl.uncontended(ctx, single); err != nil {
			return nil, err
		}
		for i := range relayPeers {
			at := (n + i) % len(relayPeers)
			fmt.Fprintf(progress, "hand-over, round %d of %d: %s\n", n+1, pl.rounds, relayPeers[at].name)
			runtime.GC() // the garbage of the peer before is not this one's cost
			l, err := runRelay(ctx, clients[at], relayClients, gatherFew, pl.length)
			if err != nil {
				return nil, err
			}
			round.laps[relayPeers[at].name] = l
		}
		rounds = append(rounds, round)
	}
	return rounds, nil
}

// uncontended is the p50 of Lock with one goroutine on names that nobody else
// wants, while nothing else runs.
func (pl *contentionPlan) uncontended(ctx context.Context, p peer) (time.Duration, error) {
	newCrew(1).run(ctx, p, pl.single/4) // a warm-up
	c := newCrew(1)
	runtime.GC()
	c.run(ctx, p, pl.single)
	if c[0].pairs == 0 {
		return 0, fmt.Errorf("nothing was locked without contention: %w", c[0].failure)
	}
	return c[0].lock.quantile(0.50), ctx.Err()
}

// lapsFigure is one number of a peer's laps.
type lapsFigure func(*laps) float64

// spread is the figure of a peer over the rounds.
func (rs handoverRounds) spread(peer string, f lapsFigure) spread {
	return rs.spreadOf(func(r handoverRound) float64 { return f(r.laps[peer]) })
}

// toUncontended compares the figure with an uncontended Lock, round by round.
func (rs handoverRounds) toUncontended(peer string, f lapsFigure) spread {
	return rs.spreadOf(func(r handoverRound) float64 { return f(r.laps[peer]) / float64(r.uncontended) })
}

// ratio compares two peers round by round.
func (rs handoverRounds) ratio(a, b string, f lapsFigure) spread {
	return rs.spreadOf(func(r handoverRound) float64 { return f(r.laps[a]) / f(r.laps[b]) })
}

func (rs handoverRounds) spreadOf(f func(handoverRound) float64) spread {
	values := make([]float64, len(rs))
	for i, r := range rs {
		values[i] = f(r)
	}
	return spreadOf(values)
}
