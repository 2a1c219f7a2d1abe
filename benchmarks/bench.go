package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"sync"
	"time"
)

// size says how much is measured.
type size int

const (
	tiny  size = iota // what tests run: that it works
	quick             // make bench
	full              // make bench-full
)

func (s size) String() string { return [...]string{"tiny", "quick", "full"}[s] }

// workload is one question to the peers.
type workload struct {
	name    string // one word in lower case
	about   string // for the report
	budget  map[size]time.Duration
	run     func(context.Context, *bench) error
	parts   []string               // further names of its cells
	figures []string               // the units of its CSV
	ratios  []string               // the units that its CSV also has as multiples, of the base's
	base    func(cell) cell        // nil: this library in the same setting
	page    func(*results) []table // on the page of results; nil: none
	targets func(*results) []check
}

func (w workload) String() string { return w.name }

// workloads are all, in the order of a run. Leases come last: their ttl is long,
// and the servers keep a note of it.
var workloads = []workload{
	pairsWorkload, kindsWorkload, growthWorkload, wanWorkload, faultsWorkload, contentionWorkload, leasesWorkload,
}

// bench is one run.
type bench struct {
	size      size
	rounds    int           // 0: the workload's own
	length    time.Duration // of a round; 0: the same
	peers     []contender
	workloads []workload
	servers   *servers // maxNodes of them
	results   *results
	progress  io.Writer
}

const (
	maxNodes   = 9
	nodes      = 5 // of a cluster, unless the workload asks what more or less of them cost
	openWithin = 2 * admission
)

// errHung is a peer that did not return.
var errHung = errors.New("did not return in time")

// errNothing is a peer that got no lock in a round.
var errNothing = errors.New("locked nothing")

// site is a cluster of the first n servers.
func (b *bench) site(n int) site { return site{addrs: b.servers.addrs[:n]} }

// run runs all workloads, each within its budget. Failures of peers are recorded as notes; it
// returns an error only if the run itself was ended.
func (b *bench) run(ctx context.Context) error {
	for _, w := range b.workloads {
		within, cancel := context.WithTimeout(ctx, w.budget[b.size])
		start := time.Now()
		err := w.run(within, b)
		ended := within.Err()
		cancel()
		switch {
		case ctx.Err() != nil:
			return ctx.Err()
		case ended != nil:
			b.addNote("workload %s: ended by its time budget of %v; what follows in it was not measured",
				w.name, w.budget[b.size])
		case err != nil:
			b.addNote("workload %s: %v", w.name, err)
		}
		fmt.Fprintf(b.progress, "%s took %v\n", w.name, time.Since(start).Round(time.Second))
	}
	return nil
}

func (b *bench) addNote(format string, args ...any) {
	text := fmt.Sprintf(format, args...)
	fmt.Fprintln(b.progress, text)
	b.results.note(text)
}

// opened is a contender with its connections.
type opened struct {
	contender
	peer peer
	lost bool // it hung, and is used no more
}

// attempt calls fn, and gives up waiting for it after the limit, or a moment after
// ctx has ended: no peer can stop the run. What fn then still does, it does
// alone, until the program ends.
func attempt[T any](ctx context.Context, limit time.Duration, fn func() (T, error)) (T, error) {
	type outcome struct {
		value T
		err   error
	}
	ended := make(chan outcome, 1)
	go func() {
		value, err := fn()
		ended <- outcome{value, err}
	}()
	timer := time.NewTimer(limit)
	defer timer.Stop()
	interrupted := ctx.Done()
	for {
		select {
		case o := <-ended:
			return o.value, o.err
		case <-interrupted:
			interrupted = nil
			timer.Reset(stragglers)
		case <-timer.C:
			var none T
			return none, errHung
		}
	}
}

// open connects a contender; waiting says that its lock is to wait for holders.
func (b *bench) open(ctx context.Context, c contender, s site, waiting bool) (*opened, error) {
	with := c.open
	if waiting && c.waits != nil {
		with = c.waits
	}
	p, err := attempt(ctx, openWithin, func() (peer, error) { return with(s) })
	if err != nil {
		return nil, fmt.Errorf("%s: %w", c.name, err)
	}
	return &opened{contender: c, peer: p}, nil
}

// openAll connects those of the run's peers that the filter takes. A peer that fails gets a
// note and is left out.
func (b *bench) openAll(ctx context.Context, s site, waiting bool, take func(contender) bool) []*opened {
	var all []*opened
	for _, c := range b.peers {
		if !take(c) {
			continue
		}
		p, err := b.open(ctx, c, s, waiting)
		if err != nil {
			if ctx.Err() == nil {
				b.addNote("%v", err)
			}
			continue
		}
		all = append(all, p)
	}
	return all
}

func (b *bench) closeAll(peers []*opened) {
	for _, p := range peers {
		if !p.lost {
			// Nothing is held any more, so its error would change nothing.
			_, _ = attempt(context.Background(), stragglers, func() (any, error) { return nil, p.peer.close() })
		}
	}
}

// round measures once: how many operations there were, and what they cost.
type round func(context.Context) (ops int, f figures, err error)

// measure runs one round of a cell and keeps what it gave. A peer that fails or
// hangs gets a note; one that hangs is not used again.
func (b *bench) measure(ctx context.Context, p *opened, c cell, limit time.Duration, run round) {
	if ctx.Err() != nil || p.lost || b.results.nothing[c] {
		return
	}
	fmt.Fprintf(b.progress, "%s %s %s\n", c.workload, c.setting, c.peer)
	type outcome struct {
		ops     int
		figures figures
	}
	o, err := attempt(ctx, limit, func() (outcome, error) {
		ops, f, err := run(ctx)
		return outcome{ops, f}, err
	})
	switch {
	case ctx.Err() != nil:
		p.lost = p.lost || errors.Is(err, errHung)
		return
	case errors.Is(err, errHung):
		p.lost = true
		b.addNote("%s, %s: %s %v (%v); it is left out from here on", c.workload, c.setting, c.peer, err, limit)
	case err != nil:
		b.results.nothing[c] = errors.Is(err, errNothing)
		b.addNote("%s, %s: %s: %v", c.workload, c.setting, c.peer, err)
	}
	if o.figures != nil {
		b.results.add(c, o.ops, o.figures)
	}
}

// inTurn calls measure for each peer in short rounds in turn, so that what else
// the machine does meets all alike. Each round begins with another peer: none
// always follows the same one.
func inTurn(rounds int, peers []*opened, measure func(*opened)) {
	for round := range rounds {
		for i := range peers {
			measure(peers[(round+i)%len(peers)])
		}
	}
}

// roundsOf and lengthOf return the workload's own plan, unless flags say otherwise.
func (b *bench) roundsOf(own int) int                     { return cmp.Or(b.rounds, own) }
func (b *bench) lengthOf(own time.Duration) time.Duration { return cmp.Or(b.length, own) }

// bySize picks one of three values.
func bySize[T any](b *bench, forTiny, forQuick, forFull T) T {
	return [...]T{forTiny, forQuick, forFull}[b.size]
}

// levelled is how long the first client of new servers stays, to level their counters, as in
// a cluster that is in use. If it left earlier, the first lock of each of the 256 stripes
// would take one more round trip.
const levelled = 2 * time.Second

// admit waits for the guard of new servers, once for all numbers of nodes.
func (b *bench) admit(ctx context.Context) error {
	if !slices.ContainsFunc(b.peers, among(redlockDefault, redlockUnfenced)) {
		return nil
	}
	fmt.Fprintln(b.progress, "new servers serve their first lock after one guard of 10 s")
	var group sync.WaitGroup
	errs := make([]error, maxNodes)
	for n := 1; n <= maxNodes; n += 2 {
		group.Go(func() {
			p, err := b.open(ctx, redlockDefault, b.site(n), false)
			if err == nil {
				err = pause(ctx, levelled)
				b.closeAll([]*opened{p})
			}
			errs[n-1] = err
		})
	}
	group.Wait()
	return errors.Join(errs...)
}
