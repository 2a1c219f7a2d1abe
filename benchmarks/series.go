package main

import (
	"context"
	"fmt"
	"io"
	"slices"
	"time"
)

// plan says what the first workload, lock+unlock on distinct names, measures.
type plan struct {
	servers    *servers
	peers      []contender
	goroutines []int
	rounds     int
	warmUp     time.Duration
	length     time.Duration
}

// opened is a contender with its connections.
type opened struct {
	contender
	peer peer
}

// results are the samples by peer and number of goroutines, round by round.
type results map[spot][]*sample

type spot struct {
	peer       string
	goroutines int
}

// run measures the peers in short rounds in turn, so that what else the machine
// does meets all alike. Each round begins with another peer: none always
// follows the same one.
func (pl *plan) run(ctx context.Context, peers []opened, progress io.Writer) (results, error) {
	all := results{}
	for _, g := range pl.goroutines {
		for round := range pl.rounds {
			for i := range peers {
				p := peers[(round+i)%len(peers)]
				fmt.Fprintf(progress, "%d goroutines, round %d of %d: %s\n", g, round+1, pl.rounds, p.name)
				s := pl.measure(ctx, p.peer, g)
				if err := ctx.Err(); err != nil {
					return all, err
				}
				if s.pairs == 0 {
					return all, fmt.Errorf("%s locked nothing with %d goroutines: %w", p.name, g, s.failure)
				}
				all[spot{p.name, g}] = append(all[spot{p.name, g}], s)
			}
		}
	}
	return all, nil
}

// openAll connects the contenders to the nodes.
func openAll(chosen []contender, addrs []string) ([]opened, error) {
	var peers []opened
	for _, c := range chosen {
		p, err := c.open(addrs)
		if err != nil {
			closeAll(peers)
			return nil, fmt.Errorf("%s: %w", c.name, err)
		}
		peers = append(peers, opened{c, p})
	}
	return peers, nil
}

func closeAll(peers []opened) {
	for _, p := range peers {
		_ = p.peer.close() // nothing is held any more
	}
}

// figure is one number of a sample.
type figure func(*sample) float64

// median is the figure's median over the rounds, of which there must be one.
func (r results) median(at spot, f figure) float64 {
	var values []float64
	for _, s := range r[at] {
		values = append(values, f(s))
	}
	return spreadOf(values).median
}

// ratio compares two peers round by round, so that a slow moment of the machine
// hardly touches it.
func (r results) ratio(a, b spot, f figure) spread {
	var values []float64
	for i, s := range r[a] {
		values = append(values, f(s)/f(r[b][i]))
	}
	return spreadOf(values)
}

func (r results) failures(at spot) (n int, one error) {
	for _, s := range r[at] {
		n += s.failures
		if s.failure != nil {
			one = s.failure
		}
	}
	return n, one
}

// spread is a figure over the rounds.
type spread struct {
	least, median, most float64
}

// spreadOf needs at least one value.
func spreadOf(values []float64) spread {
	v := slices.Sorted(slices.Values(values))
	n := len(v)
	return spread{least: v[0], median: (v[(n-1)/2] + v[n/2]) / 2, most: v[n-1]}
}
