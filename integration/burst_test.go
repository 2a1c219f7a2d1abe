package integration

import (
	"context"
	"errors"
	"fmt"
	"slices"
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
	unconfirmed                 atomic.Int64 // releases
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
				if err := lease.Unlock(context.Background()); errors.Is(err, redlock.ErrNoQuorum) {
					out.unconfirmed.Add(1) // a node timeout was too short; the nodes execute it later
				} else {
					assert.NoError(t, err)
				}
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
	{"Acquire of many semaphores", func(c *redlock.Client) func(context.Context, int) (*redlock.Lease, error) {
		return func(ctx context.Context, i int) (*redlock.Lease, error) {
			return c.Semaphore(fmt.Sprint("burst-", i), 3).Acquire(ctx, 1)
		}
	}},
}

// A burst of one client neither collapses nor costs the client a lease that it holds.
func TestBurstOfOneClientIsServed(t *testing.T) {
	t.Parallel()
	nodes := cluster.Use(t, 5)
	const calls = 2000
	for _, kind := range burstKinds {
		// The machine may stop while all calls are under way, for longer than a node timeout: then they are made once again.
		t.Run(kind.name, func(t *testing.T) { testBurst(t, nodes, burst{calls: calls}, calls, kind.call) })
	}
}

// A larger burst is served by one, three and five nodes, with a frozen node and without, and with a short ttl. One
// per cent of the callers give up.
func TestSoakBurstsOfOneClientAreServed(t *testing.T) {
	soakOnly(t)
	for _, n := range []int{5, 3, 1} {
		nodes := cluster.Use(t, n)
		for _, ttl := range []time.Duration{10 * time.Second, time.Second} {
			for _, frozen := range []int{0, 1}[:min(n, 2)] {
				for _, calls := range []int{10_000, 50_000} {
					for _, kind := range burstKinds {
						name := fmt.Sprintf("%d nodes, %d frozen, ttl %v, %d of %s", n, frozen, ttl, calls, kind.name)
						t.Run(name, func(t *testing.T) {
							nodes[:frozen].Freeze(t)
							defer nodes.Thaw(t)
							testBurst(t, nodes, burst{calls: calls, cancelled: 100}, uint64(calls/20), kind.call,
								redlock.WithTTL(ttl), redlock.WithNodeTimeout(min(ttl/20, 500*time.Millisecond)))
						})
					}
				}
			}
		}
	}
}

// Callers that are many more than the permits of their semaphore are all served, and the client keeps its lease.
// Attempts in vain are not counted: the nodes choose permits while others return theirs.
func TestBurstOfOneClientForFewPermitsIsServed(t *testing.T) {
	t.Parallel()
	nodes := cluster.Use(t, 5)
	const calls = 500
	client := openClient(t, nodes.URLs(), redlock.WithRestartGuard(0))
	held, err := client.Mutex("held").Lock(t.Context())
	require.NoError(t, err)
	s := client.Semaphore("few", 100)
	out := burst{calls: calls, call: func(ctx context.Context, _ int) (*redlock.Lease, error) { return s.Acquire(ctx, 1) }}.run(t)
	stats := client.Stats()
	t.Logf("%d calls took %v; %d attempts, %d of them without a quorum", calls, out.took, stats.Acquired+stats.Held+stats.NoQuorum, stats.NoQuorum)
	require.EqualValues(t, calls, out.granted.Load())
	require.NoError(t, held.Unlock(t.Context()))
}

// testBurst checks what a burst does to its client: it ends, few attempts are made in vain, and the client's
// own lease is renewed meanwhile. A TryLock whose turn does not come, and an attempt of a caller that gives up, count
// as attempts in vain, and are none.
func testBurst(t *testing.T, nodes cluster.Nodes, b burst, mostInVain uint64,
	call func(*redlock.Client) func(context.Context, int) (*redlock.Lease, error), opts ...redlock.ClientOption) {
	client := openClient(t, nodes.URLs(), append(opts, redlock.WithRestartGuard(0))...)
	held, err := client.Mutex("held").Lock(t.Context())
	require.NoError(t, err)
	before := client.Stats()
	b.call = call(client)
	out := b.run(t)
	after := client.Stats()
	made := after.Acquired + after.Held + after.NoQuorum - before.Acquired - before.Held - before.NoQuorum
	vain := after.NoQuorum - before.NoQuorum
	vain -= min(vain, uint64(out.refused.Load()+out.cancelled.Load()))
	t.Logf("%d calls took %v: %d granted, %d refused, %d cancelled; %d attempts, %d in vain; %d releases unconfirmed",
		b.calls, out.took, out.granted.Load(), out.refused.Load(), out.cancelled.Load(), made, vain, out.unconfirmed.Load())
	require.NoError(t, held.Err())
	require.Zero(t, after.Queued)
	require.LessOrEqual(t, vain, mostInVain, "attempts in vain")
	require.Positive(t, out.granted.Load())
	require.NoError(t, held.Unlock(t.Context()))
}

// Two clients take turns at one lock, and one of them has 5 000 callers of TryLock beside that. Its connections are first
// in, first out: the limiter keeps the nodes' queues short, so that the turns go on.
func TestSoakTurnsGoOnBesideCallersOfTryLock(t *testing.T) {
	soakOnly(t)
	nodes := cluster.Use(t, 5)
	clients := []*redlock.Client{openClient(t, nodes.URLs()), openClient(t, nodes.URLs())}
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
	defer cancel()
	var all sync.WaitGroup
	var tried atomic.Int64
	for i := range 5000 {
		all.Go(func() {
			m := clients[0].Mutex(fmt.Sprint("other-", i))
			for ctx.Err() == nil {
				if lease, err := m.TryLock(ctx); err == nil {
					assert.NoError(t, lease.Unlock(t.Context()))
				}
				tried.Add(1)
			}
		})
	}
	waits := make([][]time.Duration, 2)
	for i, c := range clients {
		all.Go(func() {
			m := c.Mutex("turns")
			for {
				began := time.Now()
				lease, err := m.Lock(ctx)
				if err != nil {
					return
				}
				waits[i] = append(waits[i], time.Since(began))
				assert.NoError(t, lease.Unlock(t.Context()))
			}
		})
	}
	all.Wait()
	turns := len(waits[0]) + len(waits[1])
	longest := slices.Max(slices.Concat(waits...))
	t.Logf("%d and %d turns in 10 s, the longest wait %v, beside %d TryLocks", len(waits[0]), len(waits[1]), longest, tried.Load())
	require.GreaterOrEqual(t, turns, 1500)
	require.LessOrEqual(t, longest, 300*time.Millisecond)
}
