package integration

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
	"github.com/redlock-go/redlock/integration/cluster"
)

// burst is many calls of one client that begin at one instant.
type burst struct {
	calls     int
	cancelled int // one of so many calls is cancelled meanwhile; 0: none
	call      func(ctx context.Context, i int) (*redlock.Lease, error)
}

// outcome is what a burst came to.
type burstOutcome struct {
	granted, refused, cancelled atomic.Int64
	took                        time.Duration
}

// run makes the calls, and unlocks what they get.
func (b burst) run(t *testing.T) *burstOutcome {
	t.Helper()
	var out burstOutcome
	var calls sync.WaitGroup
	start := make(chan struct{})
	for i := range b.calls {
		calls.Go(func() {
			<-start
			ctx := t.Context()
			if b.cancelled > 0 && i%b.cancelled == 0 {
				var cancel func()
				ctx, cancel = context.WithTimeout(ctx, time.Duration(i%97)*time.Millisecond)
				defer cancel()
			}
			lease, err := b.call(ctx, i)
			switch {
			case err == nil:
				out.granted.Add(1)
				err := lease.Unlock(context.Background())
				assert.NoError(t, err)
			case ctx.Err() != nil:
				out.cancelled.Add(1)
			case errors.Is(err, redlock.ErrNoQuorum), errors.Is(err, redlock.ErrHeld):
				out.refused.Add(1)
			default:
				assert.NoError(t, err)
			}
		})
	}
	began := time.Now()
	close(start)
	calls.Wait()
	out.took = time.Since(began)
	return &out
}

// burstKinds are calls that each get their lock, since nobody else wants it, but that of the client's own lease.
var burstKinds = []struct {
	name string
	call func(c *redlock.Client) func(ctx context.Context, i int) (*redlock.Lease, error)
}{
	{"Lock", func(c *redlock.Client) func(context.Context, int) (*redlock.Lease, error) {
		return func(ctx context.Context, i int) (*redlock.Lease, error) {
			return c.Mutex(fmt.Sprint("burst-", i)).Lock(ctx)
		}
	}},
	{"TryLock", func(c *redlock.Client) func(context.Context, int) (*redlock.Lease, error) {
		return func(ctx context.Context, i int) (*redlock.Lease, error) {
			return c.Mutex(fmt.Sprint("burst-", i)).TryLock(ctx)
		}
	}},
	{"RLock", func(c *redlock.Client) func(context.Context, int) (*redlock.Lease, error) {
		m := c.RWMutex("burst")
		return func(ctx context.Context, _ int) (*redlock.Lease, error) { return m.RLock(ctx) }
	}},
}

// A burst of one client neither collapses nor costs the client a lease that it holds.
func TestBurstOfOneClientIsServed(t *testing.T) {
	t.Parallel()
	nodes := cluster.Use(t, 5)
	calls := 2000
	if *soak {
		calls = 10_000
	}
	for _, kind := range burstKinds {
		t.Run(kind.name, func(t *testing.T) { testBurst(t, nodes, burst{calls: calls}, kind.call) })
	}
}

// testBurst checks what a burst does to its client: it ends, few attempts are made in vain, and the client's
// own lease is renewed meanwhile.
func testBurst(t *testing.T, nodes cluster.Nodes, b burst, call func(*redlock.Client) func(context.Context, int) (*redlock.Lease, error)) {
	client := openClient(t, nodes.URLs(), redlock.WithRestartGuard(0))
	held, err := client.Mutex("held").Lock(t.Context())
	require.NoError(t, err)
	before := client.Stats()
	b.call = call(client)
	out := b.run(t)
	after := client.Stats()
	made := after.Acquired + after.Held + after.NoQuorum - before.Acquired - before.Held - before.NoQuorum
	vain := after.NoQuorum - before.NoQuorum
	t.Logf("%d calls took %v: %d granted, %d refused, %d cancelled; %d attempts, %d in vain", b.calls, out.took,
		out.granted.Load(), out.refused.Load(), out.cancelled.Load(), made, vain)
	require.NoError(t, held.Err())
	require.Zero(t, after.Queued)
	require.LessOrEqual(t, vain, made/4, "attempts in vain") // the machine may stop for as long as a node timeout
	require.NoError(t, held.Unlock(t.Context()))
}
