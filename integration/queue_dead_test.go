package integration

import (
	"fmt"
	"path/filepath"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/redlock-go/redlock"
	"github.com/redlock-go/redlock/integration/cluster"
)

// A process with 27 clients is killed while all of them wait: for two names at once, or as writers while a
// reader holds the lock. The next caller does not wait for them one after the other.
func TestKilledClientsThatWaitedForSetsOrAsWritersDelayTheNextCallerForSeconds(t *testing.T) {
	const clients = 27
	for name, c := range map[string]struct {
		kind   string // of the clients that die, see takeTurn
		holds  func(*redlock.Client) *redlock.Mutex
		asks   func(*redlock.Client) *redlock.Mutex
		leaves bool // the holder leaves when they are killed
		limit  time.Duration
	}{
		"sets": {kind: "set", holds: queueSet, asks: queueSet, leaves: true, limit: 10 * time.Second},
		"writers": {
			kind:  "mutex",
			holds: func(c *redlock.Client) *redlock.Mutex { return c.RWMutex(queueName).RLocker() },
			asks:  func(c *redlock.Client) *redlock.Mutex { return c.RWMutex(queueName).RLocker() },
			limit: 8 * time.Second,
		},
	} {
		t.Run(name, func(t *testing.T) {
			nodes := cluster.Use(t, 5)
			holder := openClient(t, nodes.URLs(), redlock.WithTTL(4*time.Second), redlock.WithNodeTimeout(time.Second))
			awaitAllVotes(t, holder, nodes)
			held, err := c.holds(holder).Lock(t.Context())
			require.NoError(t, err)
			var numbers []string
			for i := range clients {
				numbers = append(numbers, fmt.Sprintf("%s%d", c.kind, i))
			}
			w := startWaiters(t, nodes, filepath.Join(t.TempDir(), "turns"), 10*time.Second, numbers...)
			for _, number := range numbers {
				w.ask(t, number, time.Minute)
			}
			awaitQueue(t, nodes, clients)
			next := openClient(t, nodes.URLs())
			require.NoError(t, next.Ping(t.Context()))
			served := make(chan struct{}, 1)
			go func() {
				defer close(served)
				lease, err := c.asks(next).Lock(t.Context())
				if assert.NoError(t, err) {
					served <- struct{}{}
					assert.NoError(t, lease.Unlock(t.Context()))
				}
			}()
			awaitQueue(t, nodes, clients+1)
			time.Sleep(2 * time.Second)
			w.crash(t)
			if c.leaves {
				require.NoError(t, held.Unlock(t.Context()))
			}
			assertServedWithin(t, served, c.limit)
			if !c.leaves {
				require.NoError(t, held.Unlock(t.Context()))
			}
		})
	}
}

// queueSet is a lock of the name that processes queue for, and of another one.
func queueSet(c *redlock.Client) *redlock.Mutex {
	return c.Multi([]string{queueName, queueName + " too"})
}
