package integration

import (
	"context"
	"fmt"
	"math/rand/v2"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/redlock-go/redlock"
	"github.com/redlock-go/redlock/integration/cluster"
)

// Clients contend for a few locks, and many give up at random instants: when the last one
// has ended, the nodes are as before.
func TestNothingIsLeftAtTheNodesWhenAllIsReleased(t *testing.T) {
	t.Parallel()
	const clients, callers, names, rounds = 4, 16, 3, 25
	nodes := cluster.Use(t, 5)
	ctx := within(t, time.Minute)
	var served, gaveUp [callers]int
	var working sync.WaitGroup
	var client *redlock.Client
	for i := range callers {
		if i%(callers/clients) == 0 {
			client = openClient(t, nodes.URLs())
		}
		mutex := client.Mutex(fmt.Sprint("name-", i%names))
		working.Go(func() {
			for range rounds {
				if visitOrGiveUp(ctx, t, mutex) {
					served[i]++
				} else {
					gaveUp[i]++
				}
			}
		})
	}
	working.Wait()
	t.Logf("served, by caller: %v; gave up: %v", served, gaveUp)
	require.NoError(t, ctx.Err(), "too slow")
	assertNothingWaits(t, nodes)
}

// visitOrGiveUp locks and unlocks; it returns false if it ended the wait, after a few
// milliseconds.
func visitOrGiveUp(ctx context.Context, t *testing.T, mutex *redlock.Mutex) bool {
	if rand.N(3) == 0 {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, rand.N(20*time.Millisecond))
		defer cancel()
	}
	lease, err := mutex.Lock(ctx)
	if err != nil {
		assert.ErrorIs(t, err, context.DeadlineExceeded)
		return false
	}
	time.Sleep(rand.N(time.Millisecond))
	assert.NoError(t, lease.Unlock(context.WithoutCancel(ctx)))
	return true
}

// No node can wake a waiter: all waiters get the lock by polling.
func TestWithoutTheRightToPublishAndSubscribeAllAreServedByPolling(t *testing.T) {
	notInShort(t)
	for _, rights := range []string{"resetchannels", "-@pubsub"} {
		t.Run(rights, func(t *testing.T) {
			t.Parallel()
			nodes := cluster.Use(t, 5)
			for _, n := range nodes {
				n.Do(t, "ACL", append([]any{"SETUSER", "default"}, words(rights)...)...)
			}
			release := holdLock(t, nodes)
			var waiters []<-chan struct{}
			for i := range 3 {
				waiters = append(waiters, queueUp(t, openClient(t, nodes.URLs())))
				awaitQueue(t, nodes, i+1)
			}
			release()
			for _, served := range waiters {
				assertServedSoon(t, served)
			}
			assertNothingWaits(t, nodes)
		})
	}
}

func words(s string) []any {
	var all []any
	for _, word := range strings.Fields(s) {
		all = append(all, word)
	}
	return all
}
