package integration

import (
	"context"
	"fmt"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/redlock-go/redlock"
	"github.com/redlock-go/redlock/integration/cluster"
)

// locks takes a lock.
type locks = func(context.Context) (*redlock.Lease, error)

// Processes are killed while their clients wait. The servers know that at once: the next caller has the lock when its holder
// releases it. These limits are for slow machines; it takes milliseconds.
func TestKilledWaitersDoNotDelayTheNextCaller(t *testing.T) {
	mutex := func(c *redlock.Client) locks { return c.Mutex(queueName).Lock }
	writer := func(c *redlock.Client) locks { return c.RWMutex(queueName).Lock }
	reader := func(c *redlock.Client) locks { return c.RWMutex(queueName).RLock }
	set := func(c *redlock.Client) locks { return queueSet(c).Lock }
	permits := func(n int) func(c *redlock.Client) locks {
		return func(c *redlock.Client) locks {
			return func(ctx context.Context) (*redlock.Lease, error) {
				return c.Semaphore(queueName, permitsOfQueue).Acquire(ctx, n)
			}
		}
	}
	for name, c := range map[string]struct {
		kind        string // of the clients that die, see takeTurn
		holds, asks func(*redlock.Client) locks
		stays       bool // the holder stays until the next caller is served
		limit       time.Duration
	}{
		"mutexes":                 {kind: "mutex", holds: mutex, asks: mutex},
		"sets":                    {kind: "set", holds: set, asks: set},
		"permits":                 {kind: "permits", holds: permits(permitsOfQueue), asks: permits(1)},
		"all permits":             {kind: "permits", holds: permits(permitsOfQueue), asks: permits(permitsOfQueue)},
		"a reader behind writers": {kind: "mutex", holds: writer, asks: reader},
		"a reader beside another, behind writers": {kind: "mutex", holds: reader, asks: reader, stays: true, limit: 5 * time.Second},
	} {
		for _, processes := range []int{9, 1} {
			if testing.Short() && processes == 9 {
				continue
			}
			t.Run(fmt.Sprintf("%s, %d processes", name, processes), func(t *testing.T) {
				killedWaiters(t, c.kind, processes, c.holds, c.asks, c.stays, max(c.limit, time.Second))
			})
		}
	}
}

// killedWaiters kills processes with 27 clients that wait in all, and expects that the next caller is served within the limit.
func killedWaiters(t *testing.T, kind string, processes int, holds, asks func(*redlock.Client) locks, stays bool, limit time.Duration) {
	const clients = 27
	nodes := cluster.Use(t, 5)
	holder := openClient(t, nodes.URLs(), redlock.WithTTL(10*time.Second), redlock.WithNodeTimeout(time.Second))
	awaitAllVotes(t, holder, nodes)
	held, err := holds(holder)(t.Context())
	require.NoError(t, err)
	var killed []*worker
	for p := range processes {
		var numbers []string
		for i := range clients / processes {
			numbers = append(numbers, fmt.Sprintf("%s%d-%d", kind, p, i))
		}
		w := startWaiters(t, nodes, filepath.Join(t.TempDir(), "turns"), 10*time.Second, numbers...)
		for _, number := range numbers {
			w.ask(t, number, time.Minute)
		}
		killed = append(killed, w)
	}
	key := queueKey
	if kind == "permits" {
		key = "redlock::slots:" + prefix + queueName
	}
	awaitQueueOf(t, nodes, key, clients)
	next := openClient(t, nodes.URLs())
	require.NoError(t, next.Ping(t.Context()))
	served := make(chan struct{}, 1)
	go func() {
		defer close(served)
		lease, err := asks(next)(t.Context())
		if assert.NoError(t, err) {
			served <- struct{}{}
			assert.NoError(t, lease.Unlock(t.Context()))
		}
	}()
	awaitQueueOf(t, nodes, key, clients+1)
	for _, w := range killed {
		w.crash(t)
	}
	time.Sleep(300 * time.Millisecond) // the kernel closes the connections one after the other
	if !stays {
		require.NoError(t, held.Unlock(t.Context()))
	}
	assertServedWithin(t, served, limit)
	if stays {
		require.NoError(t, held.Unlock(t.Context()))
	}
}

// queueSet is a lock of the name that processes queue for, and of another one.
func queueSet(c *redlock.Client) *redlock.Mutex {
	return c.Multi([]string{queueName, queueName + " too"})
}
