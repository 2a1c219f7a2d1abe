package main

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/redlock-go/redlock"
)

var kindsWorkload = workload{
	name: "kinds",
	about: "What each primitive adds to a mutex: lock and release over five servers, where nobody waits for a " +
		"holder. A set is of names of its own; a permit is one of ten; a transfer is a lock that one client " +
		"hands on, another resumes, and releases.",
	budget:  map[size]time.Duration{tiny: time.Minute, quick: 2 * time.Minute, full: 3 * time.Minute},
	run:     runKinds,
	figures: pairsFigures,
	ratios:  append([]string{"server-cpu-ns/op", "allocs/op"}, pairsRatios...),
	targets: func(r *results) []check { return []check{failureCheck(r, "kinds", r.peers("kinds")...)} },
}

// acquisition makes the calls of one primitive that end with a lease.
type acquisition func(ctx context.Context, c *redlock.Client, name string) (*redlock.Lease, error)

// kinds are the primitives, the mutex first: the others are compared with it.
var kinds = []struct {
	name    string
	acquire acquisition
}{
	{redlockDefault.name, func(ctx context.Context, c *redlock.Client, name string) (*redlock.Lease, error) {
		return c.Mutex(name).Lock(ctx)
	}},
	{"RLock", func(ctx context.Context, c *redlock.Client, name string) (*redlock.Lease, error) {
		return c.RWMutex(name).RLock(ctx)
	}},
	{"Multi-of-two", func(ctx context.Context, c *redlock.Client, name string) (*redlock.Lease, error) {
		return c.Multi([]string{name, name + "/b"}).Lock(ctx)
	}},
	{"Multi-of-three", func(ctx context.Context, c *redlock.Client, name string) (*redlock.Lease, error) {
		return c.Multi([]string{name, name + "/b", name + "/c"}).Lock(ctx)
	}},
	{"Acquire", func(ctx context.Context, c *redlock.Client, name string) (*redlock.Lease, error) {
		return c.Semaphore(name, 10).Acquire(ctx, 1)
	}},
	{"Transfer", func(ctx context.Context, c *redlock.Client, name string) (*redlock.Lease, error) {
		lease, err := c.Mutex(name).Lock(ctx)
		if err != nil {
			return nil, err
		}
		text, err := lease.Transfer(ctx)
		if err != nil {
			return nil, errors.Join(err, lease.Unlock(ctx))
		}
		return c.Resume(ctx, text)
	}},
}

// kindPeer is this library with one primitive.
type kindPeer struct {
	*redlockPeer
	acquire acquisition
}

func (p *kindPeer) lock(ctx context.Context, name string) (held, error) {
	lease, err := p.acquire(ctx, p.client, name)
	if err != nil {
		return nil, err // not lease: a nil *Lease in a held is not a nil held
	}
	return lease, nil
}

func runKinds(ctx context.Context, b *bench) error {
	var peers []*opened
	defer func() { b.closeAll(peers) }()
	for _, k := range kinds {
		p, err := openRedlock(b.site(nodes))
		if err != nil {
			return fmt.Errorf("%s: %w", k.name, err)
		}
		peers = append(peers, &opened{contender: contender{name: k.name}, peer: &kindPeer{p, k.acquire}})
	}
	for _, g := range bySize(b, []int{4}, []int{1, fewGoroutines}, []int{1, fewGoroutines, manyGoroutines}) {
		b.drivePeers(ctx, "kinds", pairsSetting(nodes, g), peers, b.roundsOf(bySize(b, 1, 3, 5)), b.pairsLoad(g))
	}
	return nil
}
