package waitqueue_test

import (
	"context"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/redlock-go/redlock"
	"github.com/redlock-go/redlock/internal/test/testnet"
)

// Without tokens, an attempt of a caller that is not queued does not look at the queue. Two callers of
// TryLock hold x and y in turns, for a while each: x or y is always held. A waiter for x alone gets
// it by the next release; the set must get its names as well.
func TestSetWithoutTokensIsNotPassedByCallersOfTryLock(t *testing.T) {
	for name, names := range map[string][]string{"one name": {"x"}, "two names": {"x", "y"}} {
		t.Run(name, func(t *testing.T) {
			testnet.InBubble(t, 3, func(t *testing.T, net *testnet.Net) {
				c := testnet.ListeningClient(t, net, redlock.WithoutFencing())
				ctx, stop := context.WithCancel(t.Context())
				var all sync.WaitGroup
				for _, name := range []string{"x", "y"} {
					m := net.Client(redlock.WithoutFencing()).Mutex(name)
					all.Go(func() {
						for ctx.Err() == nil {
							if lease, err := m.TryLock(ctx); err == nil {
								time.Sleep(200 * ms)
								_ = lease.Unlock(t.Context())
							}
							time.Sleep(10 * ms)
						}
					})
					time.Sleep(100 * ms)
				}
				waiting, giveUp := context.WithTimeout(t.Context(), time.Minute)
				defer giveUp()
				began := time.Now()
				lease, err := c.Multi(names).Lock(waiting)
				assert.NoError(t, err)
				assert.Less(t, time.Since(began), time.Second)
				stop()
				all.Wait()
				if err == nil {
					require.NoError(t, lease.Unlock(t.Context()))
				}
			})
		})
	}
}
