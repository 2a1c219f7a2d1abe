package lock_test

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/redlock-go/redlock"
	"github.com/redlock-go/redlock/internal/test/testnet"
)

// schedule is jobs without a length that two machines run, each tick on the one that gets the lock.
type schedule struct {
	period   time.Duration
	hold     time.Duration // the minimum hold; 0: none
	apart    time.Duration // the second machine's clock is behind by this
	lateness time.Duration // every other tick, both machines wake so late
	ticks    int
}

// runs returns how often the job of each tick was run.
func (s schedule) runs(t *testing.T, net *testnet.Net) []int64 {
	counts := make([]atomic.Int64, s.ticks)
	began := time.Now().Add(time.Second)
	var all sync.WaitGroup
	for _, behind := range []time.Duration{0, s.apart} {
		var opts []redlock.LockOption
		if s.hold > 0 {
			opts = append(opts, redlock.WithMinHold(s.hold))
		}
		m := net.Client().Mutex("job", opts...)
		all.Go(func() {
			for tick := range s.ticks {
				at := began.Add(time.Duration(tick)*s.period + behind + s.lateness*time.Duration(tick%2))
				time.Sleep(time.Until(at))
				lease, err := m.TryLock(context.Background())
				if errors.Is(err, redlock.ErrHeld) {
					continue
				}
				if assert.NoError(t, err) {
					counts[tick].Add(1)
					assert.NoError(t, lease.Unlock(context.Background()))
				}
			}
		})
	}
	all.Wait()
	runs := make([]int64, s.ticks)
	for tick := range runs {
		runs[tick] = counts[tick].Load()
	}
	return runs
}

// With a minimum hold d each tick runs exactly once, for each difference of the clocks below d and each
// lateness below the period less d. The nodes are 1 ms away, and that is how near the test goes to both.
func TestMinimumHoldRunsEachTickOnceWhateverTheClocksDiffer(t *testing.T) {
	const period, d, trip = 10 * time.Second, 4 * time.Second, 5 * ms
	once := []int64{1, 1, 1, 1, 1, 1}
	for _, apart := range []time.Duration{ms, 100 * ms, 500 * ms, 1900 * ms, d / 2, d - time.Second, d - 100*ms, d - trip} {
		for _, lateness := range []time.Duration{0, ms, time.Second, period/2 - d/2, period - d - 100*ms, period - d - trip} {
			t.Run(fmt.Sprint(apart, " ", lateness), func(t *testing.T) {
				testnet.InBubble(t, 3, func(t *testing.T, net *testnet.Net) {
					net.Delay(ms)
					require.Equal(t, once, schedule{period, d, apart, lateness, len(once)}.runs(t, net))
				})
			})
		}
	}
}

// Beyond these limits, and without a minimum hold, ticks run twice or not at all: the test above can fail.
func TestWithoutAMinimumHoldTicksRunTwice(t *testing.T) {
	const period, d = 10 * time.Second, 4 * time.Second
	for name, c := range map[string]struct {
		schedule schedule
		runs     []int64
	}{
		"no minimum hold":       {schedule{period, 0, 500 * ms, 0, 4}, []int64{2, 2, 2, 2}},
		"clocks too far apart":  {schedule{period, d, d + 100*ms, 0, 4}, []int64{2, 2, 2, 2}},
		"late by too much":      {schedule{period, d, 0, period - d + 100*ms, 4}, []int64{1, 1, 0, 1}},
		"late, without a limit": {schedule{period, 0, 500 * ms, period - d + 100*ms, 4}, []int64{2, 2, 2, 2}},
	} {
		t.Run(name, func(t *testing.T) {
			testnet.InBubble(t, 3, func(t *testing.T, net *testnet.Net) {
				require.Equal(t, c.runs, c.schedule.runs(t, net))
			})
		})
	}
}

// Machines whose clocks agree ask at the same instant, and split the votes. While one node is down, each of them sees
// an owner that may have the lock at that node too; still one of them gets the lock.
func TestOneOfTheCallersThatAskAtTheSameInstantGetsTheLockWhileANodeIsDown(t *testing.T) {
	for _, machines := range []int{2, 3} {
		for _, nodes := range []int{3, 5} {
			t.Run(fmt.Sprint(machines, " of ", nodes), func(t *testing.T) {
				testnet.InBubble(t, nodes, func(t *testing.T, net *testnet.Net) {
					var callers []*redlock.Mutex
					for range machines {
						c := net.Client()
						require.NoError(t, c.Ping(t.Context()))
						callers = append(callers, c.Mutex("job"))
					}
					net.Nodes[0].Down()
					for range 8 {
						time.Sleep(time.Second)
						var all sync.WaitGroup
						var leases atomic.Int64
						for _, m := range callers {
							all.Go(func() {
								lease, err := m.TryLock(context.Background())
								if err == nil {
									leases.Add(1)
									time.Sleep(100 * ms)
									assert.NoError(t, lease.Unlock(context.Background()))
								} else {
									assert.ErrorIs(t, err, redlock.ErrHeld)
								}
							})
						}
						all.Wait()
						require.EqualValues(t, 1, leases.Load())
					}
				})
			})
		}
	}
}
