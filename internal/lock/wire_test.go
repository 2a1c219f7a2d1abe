package lock_test

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

	"github.com/redlock-go/redlock/internal/test/testhook"

	"github.com/stretchr/testify/require"

	"github.com/redlock-go/redlock"
	"github.com/redlock-go/redlock/internal/test/testnet"
)

// These tests run the whole client over a bad network (testnet.BadNet). However it treats
// the bytes, there is never more than one holder, tokens increase, every call ends, and no
// key stays behind.

var (
	wireSeed = flag.Uint64("wire.seed", 1, "seed of the first run over a bad network")
	wireRuns = flag.Int("wire.runs", 0, "runs over a bad network, each with the next seed; 0: as many as fit into a test")
)

const (
	wireClients = 3
	wireCallers = 2 // of each client
	wireTime    = 8 * time.Second
)

func TestBadNetworkLeavesOneHolderAndNoKeys(t *testing.T) {
	t.Parallel()
	runs := *wireRuns
	if runs == 0 {
		runs = testnet.Tries(2, 20)
	}
	for seed := *wireSeed; seed < *wireSeed+uint64(runs); seed++ {
		t.Run(fmt.Sprintf("-wire.seed=%d", seed), func(t *testing.T) {
			testnet.InBubble(t, []int{3, 5}[seed%2], func(t *testing.T, net *testnet.Net) {
				run := &wireRun{Net: net, bad: &testnet.BadNet{Seed: seed, Rough: 1 + int(seed%5)}, leases: make(map[string][]*redlock.Lease), tokens: make(map[string]int64)}
				run.bad.Calm.Store(true)
				run.begin()
				run.play()
				run.bad.Calm.Store(true)
				run.finish()
			})
		})
	}
}

// wireRun is one run, and its record of it.
type wireRun struct {
	*testnet.Net
	bad *testnet.BadNet

	mu     sync.Mutex // protects the fields below
	leases map[string][]*redlock.Lease
	tokens map[string]int64
	counts [4]int
}

// Results of calls, which a run counts.
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
	lot := r.bad.Lot("settings")
	ttl := []time.Duration{time.Second, 10 * time.Second, 30 * time.Second}[r.bad.Seed%3]
	opts := []redlock.ClientOption{redlock.WithLogger(nil), redlock.WithTTL(ttl)}
	if lot.IntN(3) == 0 {
		opts = append(opts, redlock.WithRestartGuard(0))
	}
	boards := make([]*testnet.Switchboard, len(r.Nodes))
	for i, n := range r.Nodes {
		boards[i] = testnet.NewSwitchboard(n)
	}
	for id := range wireClients {
		apart, rate := testnet.UpTo(lot, time.Hour), 0.996+0.008*lot.Float64()
		clock := testnet.WithClock(func() time.Duration { return apart + time.Duration(float64(r.Clock.Now())*rate) })
		pools := make([]redlock.Pool, len(r.Nodes))
		for i, n := range r.Nodes {
			pools[i] = &testnet.BadPool{Node: n, Net: r.bad, Board: boards[i], Client: id}
		}
		c, err := redlock.New(pools, append(opts, clock)...)
		require.NoError(r.T, err)
		r.Add(c)
		first, err := c.Mutex("first").Lock(r.T.Context()) // new nodes vote after a guard
		require.NoError(r.T, err)
		require.NoError(r.T, first.Unlock(r.T.Context()))
	}
}

// play has all callers lock and unlock while the network is bad.
func (r *wireRun) play() {
	r.bad.Calm.Store(false)
	over := time.Now().Add(wireTime)
	var callers sync.WaitGroup
	for i := range wireClients * wireCallers {
		lot := r.bad.Lot("caller", i)
		callers.Go(func() {
			for time.Now().Before(over) {
				r.call(r.Clients[i%wireClients], lot)
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
func (r *wireRun) call(c *redlock.Client, lot *rand.Rand) {
	m := c.Mutex([]string{"x", "y"}[lot.IntN(2)])
	terms := testhook.Lock(m).Terms().Lease
	var lease *redlock.Lease
	if lot.IntN(3) == 0 {
		lease = r.tryLock(m)
	} else {
		lease = r.lock(m, testnet.UpTo(lot, 2*time.Second))
	}
	if lease == nil {
		time.Sleep(testnet.UpTo(lot, 50*ms))
		return
	}
	switch lot.IntN(16) {
	case 0:
		time.Sleep(testnet.UpTo(lot, min(2*terms.TTL, wireTime/2)))
	case 1, 2, 3: // and unlock while that is under way, perhaps
		var extending sync.WaitGroup
		defer extending.Wait()
		extending.Go(func() {
			r.atMost(2*terms.NodeTimeout, "Extend", func() { _ = lease.Extend(r.T.Context()) })
		})
		time.Sleep(testnet.UpTo(lot, 10*ms))
	default:
		time.Sleep(testnet.UpTo(lot, 20*ms))
	}
	r.atMost(terms.NodeTimeout, "Unlock", func() {
		switch err := lease.Unlock(r.T.Context()); {
		case errors.Is(err, redlock.ErrLost):
			r.count(lostIt)
		case err != nil && !errors.Is(err, redlock.ErrNoQuorum):
			r.T.Errorf("Unlock: %v", err)
		}
	})
}

func (r *wireRun) lock(m *redlock.Mutex, timeout time.Duration) (lease *redlock.Lease) {
	r.atMost(timeout, "Lock", func() {
		ctx, cancel := context.WithTimeout(r.T.Context(), timeout)
		defer cancel()
		var err error
		if lease, err = m.Lock(ctx); err == nil {
			r.granted(lease)
		} else if r.count(gaveUp); !errors.Is(err, context.DeadlineExceeded) {
			r.T.Errorf("Lock: %v", err)
		}
	})
	return lease
}

func (r *wireRun) tryLock(m *redlock.Mutex) (lease *redlock.Lease) {
	r.atMost(6*testhook.Lock(m).Terms().Lease.NodeTimeout, "TryLock", func() {
		var err error
		if lease, err = m.TryLock(r.T.Context()); err == nil {
			r.granted(lease)
		} else if r.count(refusedNow); !errors.Is(err, redlock.ErrHeld) && !errors.Is(err, redlock.ErrNoQuorum) {
			r.T.Errorf("TryLock: %v", err)
		}
	})
	return lease
}

// atMost checks how long a call takes: 1 % more where the client's clock is slow.
func (r *wireRun) atMost(limit time.Duration, name string, call func()) {
	if took := testnet.Elapsed(call); took > limit+limit/100+ms {
		r.T.Errorf("%s took %v, and may take %v", name, took, limit)
	}
}

func (r *wireRun) count(result int) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.counts[result]++
}

// granted checks a new lease against those before it.
func (r *wireRun) granted(l *redlock.Lease) {
	r.count(gotten)
	r.mu.Lock()
	r.leases[l.Name()] = append(r.leases[l.Name()], l)
	if last := r.tokens[l.Name()]; l.Token() <= last {
		r.T.Errorf("token %d after %d", l.Token(), last)
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
		all = slices.DeleteFunc(all, func(l *redlock.Lease) bool { return l.Err() != nil })
		if len(all) > 1 {
			r.T.Errorf("%d holders of %s: %v and %v left", len(all), name, all[0].Remaining(), all[1].Remaining())
		}
		r.leases[name] = all
	}
}

// finish checks, when the network is good again and all callers are gone, that no key is
// left, and that every client can lock at once.
func (r *wireRun) finish() {
	time.Sleep(6 * time.Second) // all bytes on the way have arrived, and all clients are connected
	r.RequireNoKeys()
	r.RequireNoLines()
	for _, c := range r.Clients {
		for _, name := range []string{"x", "y"} {
			lease := r.tryLock(c.Mutex(name))
			require.NotNil(r.T, lease, "the network is good, and the lock is free")
			require.NoError(r.T, lease.Unlock(r.T.Context()))
			synctest.Wait()
		}
		for _, n := range testhook.Engine(c).Cluster.Nodes() {
			require.Zero(r.T, n.Undos())
		}
	}
	time.Sleep(time.Second)
	r.RequireNoKeys()
	troubles := &r.bad.Troubles
	r.T.Logf("%d leases, %d of them lost; %d refusals, %d gave up; %d connections ended, %d fell silent",
		r.counts[gotten], r.counts[lostIt], r.counts[refusedNow], r.counts[gaveUp], troubles[testnet.Ends].Load(), troubles[testnet.Hushes].Load())
	require.Greater(r.T, r.counts[gotten], 5, "else it has shown nothing")
	require.Positive(r.T, troubles[testnet.Ends].Load())
}
