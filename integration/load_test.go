package integration

import (
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"

	"github.com/redlock-go/redlock"
)

// samples are the durations of one kind of call.
type samples []time.Duration

func (s samples) percentile(p int) time.Duration {
	sorted := slices.Sorted(slices.Values(s))
	return sorted[len(sorted)*p/100]
}

func (s samples) mean() time.Duration {
	var sum time.Duration
	for _, d := range s {
		sum += d
	}
	return sum / time.Duration(len(s))
}

// load is what some goroutines measured in one phase of locking and unlocking.
type load struct {
	lock, unlock samples
}

// run locks and unlocks for a while in every goroutine, each on its own names.
func runLoad(t *testing.T, client *redlock.Client, goroutines int, d time.Duration) load {
	t.Helper()
	var all load
	var mu sync.Mutex
	var workers sync.WaitGroup
	end := time.Now().Add(d)
	for g := range goroutines {
		workers.Go(func() {
			var mine load
			mutex := client.Mutex(fmt.Sprint("load-", g))
			for time.Now().Before(end) {
				var lease *redlock.Lease
				var err error
				mine.lock = append(mine.lock, timed(func() { lease, err = mutex.TryLock(t.Context()) }))
				if !assert.NoError(t, err) {
					return
				}
				mine.unlock = append(mine.unlock, timed(func() { err = lease.Unlock(t.Context()) }))
				if !assert.NoError(t, err) {
					return
				}
			}
			mu.Lock()
			defer mu.Unlock()
			all.lock = append(all.lock, mine.lock...)
			all.unlock = append(all.unlock, mine.unlock...)
		})
	}
	workers.Wait()
	if t.Failed() {
		t.FailNow() // there may be nothing to compare
	}
	return all
}

// comparison sets phases with a frozen minority against healthy ones.
type comparison struct {
	healthy, frozen []load
}

// each calls f for p50, p99 and mean of Lock and of Unlock, with the medians over
// the phases. The mean is there because few long waits, which no percentile
// shows, can take up most of the time.
func (c *comparison) each(f func(what string, healthy, frozen time.Duration)) {
	for _, call := range []struct {
		name string
		of   func(load) samples
	}{
		{"Lock", func(l load) samples { return l.lock }},
		{"Unlock", func(l load) samples { return l.unlock }},
	} {
		for _, figure := range []struct {
			name string
			of   func(samples) time.Duration
		}{
			{"p50", func(s samples) time.Duration { return s.percentile(50) }},
			{"p99", func(s samples) time.Duration { return s.percentile(99) }},
			{"mean", samples.mean},
		} {
			median := func(phases []load) time.Duration {
				var all samples
				for _, l := range phases {
					all = append(all, figure.of(call.of(l)))
				}
				return all.percentile(50)
			}
			f(call.name+" "+figure.name, median(c.healthy), median(c.frozen))
		}
	}
}

// worst is the greatest of the ratios frozen to healthy.
func (c *comparison) worst() (ratio float64) {
	c.each(func(_ string, healthy, frozen time.Duration) {
		ratio = max(ratio, float64(frozen)/float64(healthy))
	})
	return ratio
}

// longest is the longest call of any frozen phase.
func (c *comparison) longest() (d time.Duration) {
	for _, l := range c.frozen {
		d = max(d, slices.Max(l.lock), slices.Max(l.unlock))
	}
	return d
}

func (c *comparison) String() string {
	var parts []string
	c.each(func(what string, healthy, frozen time.Duration) {
		parts = append(parts, fmt.Sprintf("%s healthy %v, frozen %v (%.2f times)",
			what, healthy.Round(time.Microsecond), frozen.Round(time.Microsecond), float64(frozen)/float64(healthy)))
	})
	return strings.Join(parts, "; ")
}
