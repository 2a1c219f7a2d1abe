package redlock

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"math/rand/v2"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"
)

// The whole client over a bad network (wirenet_test.go): whatever becomes of the
// bytes, there is never more than one holder, tokens increase, every call ends, and
// nothing stays behind.

var (
	wireSeed = flag.Uint64("wire.seed", 1, "seed of the first run over a bad network")
	wireRuns = flag.Int("wire.runs", 0, "runs over a bad network, each with the next seed; 0: as many as fit into a test")
)

const (
	wireClients = 3
	wireCallers = 2 // of each client
	wireTime    = 8 * time.Second
)

func TestOverABadNetworkThereIsOneHolderAndNothingStays(t *testing.T) {
	t.Parallel()
	runs := *wireRuns
	if runs == 0 {
		runs = tries(2, 20)
	}
	for seed := *wireSeed; seed < *wireSeed+uint64(runs); seed++ {
		t.Run(fmt.Sprintf("-wire.seed=%d", seed), func(t *testing.T) {
			inBubble(t, []int{3, 5}[seed%2], func(t *testing.T, net *testNet) {
				run := &wireRun{testNet: net, bad: &badNet{seed: seed, rough: 1 + int(seed%5)}, leases: make(map[string][]*Lease), tokens: make(map[string]int64)}
				run.bad.calm.Store(true)
				run.begin()
				run.play()
				run.bad.calm.Store(true)
				run.finish()
			})
		})
	}
}

// wireRun is one run, and what it has seen.
type wireRun struct {
	*testNet
	bad *badNet

	mu     sync.Mutex // protects what follows
	leases map[string][]*Lease
	tokens map[string]int64
	counts [4]int
}

// What is counted.
const (
	gotten = iota
	refusedNow
	gaveUp
	lostIt
)

// begin makes the clients. Their clocks show other times, and run faster or slower
// than the nodes' by up to 0.4 %: the drift allowance is 1 %. In two runs of three
// admission is on.
func (r *wireRun) begin() {
	lot := r.bad.lot("settings")
	ttl := []time.Duration{time.Second, 10 * time.Second, 30 * time.Second}[r.bad.seed%3]
	opts := []Option{WithLogger(nil), WithTTL(ttl)}
	if lot.IntN(3) == 0 {
		opts = append(opts, WithRestartGuard(0))
	}
	boards := make([]*switchboard, len(r.nodes))
	for i, n := range r.nodes {
		boards[i] = newSwitchboard(n)
	}
	for id := range wireClients {
		apart, rate := upTo(lot, time.Hour), 0.996+0.008*lot.Float64()
		clock := withClock(func() time.Duration { return apart + time.Duration(float64(r.clock.now())*rate) })
		pools := make([]Pool, len(r.nodes))
		for i, n := range r.nodes {
			pools[i] = &badPool{testNode: n, net: r.bad, board: boards[i], client: id}
		}
		c, err := New(pools, append(opts, clock)...)
		require.NoError(r.t, err)
		r.clients = append(r.clients, c)
		first, err := c.Mutex("first").Lock(r.t.Context()) // new nodes vote after a guard
		require.NoError(r.t, err)
		require.NoError(r.t, first.Unlock(r.t.Context()))
	}
}

// play has all callers lock and unlock while the network is bad.
func (r *wireRun) play() {
	r.bad.calm.Store(false)
	over := time.Now().Add(wireTime)
	var callers sync.WaitGroup
	for i := range wireClients * wireCallers {
		lot := r.bad.lot("caller", i)
		callers.Go(func() {
			for time.Now().Before(over) {
				r.call(r.clients[i%wireClients], lot)
			}
		})
	}
	callers.Go(func() {
		for ; time.Now().Before(over); time.Sleep(3 * ms) {
			r.requireOneHolder()
		}
	})
	callers.Wait()
}

// call locks, perhaps, and holds for a while.
func (r *wireRun) call(c *Client, lot *rand.Rand) {
	m := c.Mutex([]string{"x", "y"}[lot.IntN(2)])
	var lease *Lease
	if lot.IntN(3) == 0 {
		lease = r.tryLock(m)
	} else {
		lease = r.lock(m, upTo(lot, 2*time.Second))
	}
	if lease == nil {
		time.Sleep(upTo(lot, 50*ms))
		return
	}
	switch lot.IntN(16) {
	case 0:
		time.Sleep(upTo(lot, min(2*c.opts.ttl, wireTime/2)))
	case 1, 2, 3: // and unlock while that is under way, perhaps
		var extending sync.WaitGroup
		defer extending.Wait()
		extending.Go(func() {
			r.atMost(2*c.opts.voteTimeout(), "Extend", func() { _ = lease.Extend(r.t.Context()) })
		})
		time.Sleep(upTo(lot, 10*ms))
	default:
		time.Sleep(upTo(lot, 20*ms))
	}
	r.atMost(c.opts.voteTimeout(), "Unlock", func() {
		switch err := lease.Unlock(r.t.Context()); {
		case errors.Is(err, ErrLost):
			r.count(lostIt)
		case err != nil && !errors.Is(err, ErrNoQuorum):
			r.t.Errorf("Unlock: %v", err)
		}
	})
}

func (r *wireRun) lock(m *Mutex, patience time.Duration) (lease *Lease) {
	r.atMost(patience, "Lock", func() {
		ctx, cancel := context.WithTimeout(r.t.Context(), patience)
		defer cancel()
		var err error
		if lease, err = m.Lock(ctx); err == nil {
			r.granted(lease)
		} else if r.count(gaveUp); !errors.Is(err, context.DeadlineExceeded) {
			r.t.Errorf("Lock: %v", err)
		}
	})
	return lease
}

func (r *wireRun) tryLock(m *Mutex) (lease *Lease) {
	r.atMost(6*m.opts.voteTimeout(), "TryLock", func() {
		var err error
		if lease, err = m.TryLock(r.t.Context()); err == nil {
			r.granted(lease)
		} else if r.count(refusedNow); !errors.Is(err, ErrHeld) && !errors.Is(err, ErrNoQuorum) {
			r.t.Errorf("TryLock: %v", err)
		}
	})
	return lease
}

// atMost checks how long a call takes: 1 % more where the client's clock is slow.
func (r *wireRun) atMost(limit time.Duration, what string, call func()) {
	if took := elapsed(call); took > limit+limit/100+ms {
		r.t.Errorf("%s took %v, and may take %v", what, took, limit)
	}
}

func (r *wireRun) count(what int) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.counts[what]++
}

// granted checks a new lease against those before it.
func (r *wireRun) granted(l *Lease) {
	r.count(gotten)
	r.mu.Lock()
	r.leases[l.Name()] = append(r.leases[l.Name()], l)
	if last := r.tokens[l.Name()]; l.Token() <= last {
		r.t.Errorf("token %d after %d", l.Token(), last)
	}
	r.tokens[l.Name()] = l.Token()
	r.mu.Unlock()
	r.requireOneHolder()
}

// requireOneHolder looks at all leases at one instant.
func (r *wireRun) requireOneHolder() {
	r.mu.Lock()
	defer r.mu.Unlock()
	for name, all := range r.leases {
		all = slices.DeleteFunc(all, func(l *Lease) bool { return l.Err() != nil })
		if len(all) > 1 {
			r.t.Errorf("%d holders of %s: %v and %v left", len(all), name, all[0].Remaining(), all[1].Remaining())
		}
		r.leases[name] = all
	}
}

// finish checks what is left when the network is good again and all callers are
// gone: nothing, and every client can lock at once.
func (r *wireRun) finish() {
	time.Sleep(6 * time.Second) // what was on the way has arrived, and all are connected
	r.requireNoKeys()
	r.requireNoLines()
	for _, c := range r.clients {
		for _, name := range []string{"x", "y"} {
			lease := r.tryLock(c.Mutex(name))
			require.NotNil(r.t, lease, "the network is good, and nobody holds it")
			require.NoError(r.t, lease.Unlock(r.t.Context()))
			synctest.Wait()
		}
		for _, n := range c.nodes {
			require.Zero(r.t, n.Undos())
		}
	}
	time.Sleep(time.Second)
	r.requireNoKeys()
	troubles := &r.bad.troubles
	r.t.Logf("%d leases, %d of them lost; %d refusals, %d gave up; %d connections ended, %d fell silent",
		r.counts[gotten], r.counts[lostIt], r.counts[refusedNow], r.counts[gaveUp], troubles[ends].Load(), troubles[hushes].Load())
	require.Greater(r.t, r.counts[gotten], 5, "else it has shown nothing")
	require.Positive(r.t, troubles[ends].Load())
}
