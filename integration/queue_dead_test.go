package integration

import (
	"context"
	"fmt"
	"maps"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/redlock-go/redlock"
	"github.com/redlock-go/redlock/integration/cluster"
)

// locks takes a lock.
type locks = func(context.Context) (*redlock.Lease, error)

func mutexOf(c *redlock.Client) locks  { return c.Mutex(queueName).Lock }
func writerOf(c *redlock.Client) locks { return c.RWMutex(queueName).Lock }
func readerOf(c *redlock.Client) locks { return c.RWMutex(queueName).RLock }
func setOf(c *redlock.Client) locks    { return queueSet(c).Lock }

func permitsOf(n int) func(c *redlock.Client) locks {
	return func(c *redlock.Client) locks {
		return func(ctx context.Context) (*redlock.Lease, error) {
			return c.Semaphore(queueName, permitsOfQueue).Acquire(ctx, n)
		}
	}
}

// killing is a trial: processes are killed while their clients wait.
type killing struct {
	kind        string // of the clients that die, see takeTurn
	holds, asks func(*redlock.Client) locks
	stays       bool // the holder stays until the next caller is served

	ttl                time.Duration
	clients, processes int // that die
}

var killings = map[string]killing{
	"mutexes":                              {kind: "mutex", holds: mutexOf, asks: mutexOf},
	"sets":                                 {kind: "set", holds: setOf, asks: setOf},
	"permits":                              {kind: "permits", holds: permitsOf(permitsOfQueue), asks: permitsOf(1)},
	"all permits":                          {kind: "permits", holds: permitsOf(permitsOfQueue), asks: permitsOf(permitsOfQueue)},
	"many permits, of which some are free": {kind: "permits", holds: permitsOf(1), asks: permitsOf(1), stays: true},
	"a reader behind writers":              {kind: "mutex", holds: writerOf, asks: readerOf},
	"a writer behind mutexes":              {kind: "mutex", holds: readerOf, asks: writerOf},
	"a reader beside another, behind writers": {kind: "mutex", holds: readerOf, asks: readerOf, stays: true},
}

// Processes are killed while their clients wait. The servers know that at once: the next caller has the lock when its holder
// releases it. The limit is for slow machines; it takes milliseconds. A reader that could enter beside another asks each
// second.
func TestKilledWaitersDoNotDelayTheNextCaller(t *testing.T) {
	for name, k := range killings {
		for _, processes := range []int{9, 1} {
			if testing.Short() && processes == 9 {
				continue
			}
			t.Run(fmt.Sprintf("%s, %d processes", name, processes), func(t *testing.T) {
				k.ttl, k.clients, k.processes = 10*time.Second, 27, processes
				limit := time.Second
				if k.stays {
					limit = 5 * time.Second
				}
				require.LessOrEqual(t, k.run(t), limit)
			})
		}
	}
}

// The next caller is served within 50 ms, the median of five, whatever the ttl and the number of those that died.
func TestSoakKilledWaitersDelayTheNextCallerForMilliseconds(t *testing.T) {
	soakOnly(t)
	for _, name := range slices.Sorted(maps.Keys(killings)) {
		t.Run(name, func(t *testing.T) {
			k := killings[name]
			for _, k.ttl = range []time.Duration{10 * time.Second, time.Minute} {
				for _, c := range [][2]int{{1, 1}, {3, 3}, {9, 9}, {27, 9}, {54, 9}, {54, 1}} {
					k.clients, k.processes = c[0], c[1]
					var took []time.Duration
					for range 5 {
						t.Run("", func(t *testing.T) { took = append(took, k.run(t)) }) // and ends its servers
					}
					slices.Sort(took)
					t.Logf("%s, ttl %v, %d clients in %d processes: %v", name, k.ttl, k.clients, k.processes, took)
					if !k.stays {
						assert.LessOrEqual(t, took[2], 50*time.Millisecond)
					}
				}
			}
		})
	}
}

// run returns how long the next caller waits, from the release on.
func (k killing) run(t *testing.T) time.Duration {
	nodes := cluster.Use(t, 5)
	holder := openClient(t, nodes.URLs(), redlock.WithTTL(k.ttl), redlock.WithNodeTimeout(time.Second))
	awaitAllVotes(t, holder, nodes)
	held, err := k.holds(holder)(t.Context())
	require.NoError(t, err)
	var killed []*worker
	for p := range k.processes {
		var numbers []string
		for i := range k.clients / k.processes {
			numbers = append(numbers, fmt.Sprintf("%s%d-%d", k.kind, p, i))
		}
		w := startWaiters(t, nodes, filepath.Join(t.TempDir(), "turns"), k.ttl, numbers...)
		for _, number := range numbers {
			w.ask(t, number, time.Minute)
		}
		killed = append(killed, w)
	}
	key := queueKey
	if k.kind == "permits" {
		key = "redlock::slots:" + prefix + queueName
	}
	awaitQueueOf(t, nodes, key, k.clients)
	next := openClient(t, nodes.URLs(), redlock.WithTTL(k.ttl), redlock.WithNodeTimeout(time.Second))
	require.NoError(t, next.Ping(t.Context()))
	served := make(chan struct{}, 1)
	go func() {
		defer close(served)
		lease, err := k.asks(next)(t.Context())
		if assert.NoError(t, err) {
			served <- struct{}{}
			assert.NoError(t, lease.Unlock(t.Context()))
		}
	}()
	awaitQueueOf(t, nodes, key, k.clients+1)
	for _, w := range killed {
		w.crash(t)
	}
	time.Sleep(300 * time.Millisecond) // the kernel closes the connections one after the other
	start := time.Now()
	if !k.stays {
		require.NoError(t, held.Unlock(t.Context()))
	}
	_, ok := <-served
	require.True(t, ok, "never served")
	took := time.Since(start).Round(100 * time.Microsecond)
	<-served
	t.Log("served after", took)
	if k.stays {
		require.NoError(t, held.Unlock(t.Context()))
	}
	return took
}

// queueSet is a lock of the name that processes queue for, and of another one.
func queueSet(c *redlock.Client) *redlock.Mutex {
	return c.Multi([]string{queueName, queueName + " too"})
}
