package redlock

import (
	"context"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/redlock-go/redlock/internal/system"
)

// The keeper comes for a lease that is not due any more: it is looked at again when
// it says so.
func TestALeaseThatIsNotDueIsLookedAtWhenItIs(t *testing.T) {
	inBubble(t, 3, func(t *testing.T, net *testNet) {
		c := net.client()
		lease, err := c.Mutex("x").Lock(t.Context())
		require.NoError(t, err)
		c.keeper.move(lease.h, system.Forever)
		require.Nil(t, lease.h.tick())
		require.Equal(t, lease.h.next(), lease.h.due)
	})
}

func TestAClosedKeeperTakesNoLease(t *testing.T) {
	k := newKeeper(func() time.Duration { return 0 })
	require.True(t, k.add(&holding{place: -1}))
	require.Len(t, k.close(), 1)
	require.False(t, k.add(&holding{place: -1}))
}

// A lease that cannot be prolonged any more is not renewed in vain.
func TestALeaseAtItsMaxHoldIsNotRenewed(t *testing.T) {
	inBubble(t, 3, func(t *testing.T, net *testNet) {
		c := net.client(WithTTL(3*time.Second), WithMaxHold(2*time.Second))
		lease, err := c.Mutex("x").Lock(t.Context())
		require.NoError(t, err)
		<-lease.Done()
		require.Zero(t, net.nodes[0].executed("renew"))
	})
}

func TestRenewalsAreSpreadButShareTheirInstants(t *testing.T) {
	inBubble(t, 3, func(t *testing.T, net *testNet) {
		c := net.client()
		every := c.opts.renewal()
		instants := make(map[time.Duration]bool)
		for i := range 100 {
			start := c.opts.clock()
			lease, err := c.Mutex(fmt.Sprint(i)).Lock(t.Context())
			require.NoError(t, err)
			at := lease.h.renewAt
			require.LessOrEqual(t, at, start+every)
			require.GreaterOrEqual(t, at, start+every*3/4-every/64-1)
			require.Zero(t, at%(every/64+1))
			instants[at] = true
		}
		require.Greater(t, len(instants), 5)
		require.Less(t, len(instants), 20)
	})
}

func TestARenewalIsNotGivenUpBeforeItsTime(t *testing.T) {
	inBubble(t, 3, func(t *testing.T, net *testNet) {
		c := net.client()
		lease, err := c.Mutex("x").Lock(t.Context())
		require.NoError(t, err)
		for _, n := range net.nodes {
			n.set(func(n *testNode) { n.delay = 100 * ms })
		}
		h := lease.h
		renewal := func() *ballot {
			h.mu.Lock()
			defer h.mu.Unlock()
			return h.renewal
		}
		time.Sleep(h.renewAt - c.opts.clock() + ms)
		require.NotNil(t, renewal())
		require.Nil(t, h.tick())
		require.NotNil(t, renewal())
		time.Sleep(300 * ms)
		require.Greater(t, lease.Remaining(), 9*time.Second)
	})
}

func TestDangerIsToldAtOnceAndSaysWhy(t *testing.T) {
	for name, c := range map[string]struct {
		trouble func(n *testNode)
		after   time.Duration // after the renewal began
		why     string
	}{
		"no node can be asked": {(*testNode).down, 0, "not sent"},
		"no node answers":      {(*testNode).freeze, 500 * ms, errNoVerdict.Error()},
	} {
		t.Run(name, func(t *testing.T) {
			inBubble(t, 3, func(t *testing.T, net *testNet) {
				told := make(chan LeaseDanger, 10)
				client := net.client(WithTrace(&Trace{LeaseDanger: func(d LeaseDanger) { told <- d }}))
				lease, err := client.Mutex("x").Lock(t.Context())
				require.NoError(t, err)
				lease.h.mu.Lock()
				begins := lease.h.renewAt
				lease.h.mu.Unlock()
				for _, n := range net.nodes {
					c.trouble(n)
				}
				danger := <-told
				require.Equal(t, begins+c.after, client.opts.clock())
				require.ErrorContains(t, danger.Err, c.why)
			})
		})
	}
}

func TestALeaseInDangerIsLoggedOnceUntilARenewalSucceeds(t *testing.T) {
	inBubble(t, 3, func(t *testing.T, net *testNet) {
		var told journal
		c := net.client(WithTTL(3*time.Second), WithLogger(slog.New(slog.NewTextHandler(&told, nil))))
		lease, err := c.Mutex("x").Lock(t.Context())
		require.NoError(t, err)
		synctest.Wait()
		logged := func() int {
			synctest.Wait()
			return strings.Count(told.String(), "a lease could not be renewed")
		}
		for times := 1; times <= 2; times++ {
			for _, n := range net.nodes {
				n.freeze()
			}
			time.Sleep(1700 * ms) // two renewals fail
			require.Equal(t, times, logged())
			for _, n := range net.nodes {
				n.thaw()
			}
			time.Sleep(time.Second)
			require.True(t, lease.Valid())
			require.Equal(t, times, logged())
		}
	})
}

// Whoever found it over may have been overtaken by an Extend.
func TestAValidLeaseDoesNotLapse(t *testing.T) {
	inBubble(t, 3, func(t *testing.T, net *testNet) {
		lease, err := net.client().Mutex("x").Lock(t.Context())
		require.NoError(t, err)
		lease.h.lapse()
		require.NoError(t, lease.Err())
	})
}

func TestADroppedHandleIsLoggedWhereItWasHeld(t *testing.T) {
	inBubble(t, 3, func(t *testing.T, net *testNet) {
		var told journal
		c := net.client(WithoutRenewal(), WithLogger(slog.New(slog.NewTextHandler(&told, nil))))
		logged := func() int {
			synctest.Wait()
			return strings.Count(told.String(), "dropped without Unlock")
		}
		lease, err := c.Mutex("x").Lock(t.Context())
		require.NoError(t, err)
		require.NoError(t, lease.Unlock(t.Context()))
		lease.h.abandon()
		require.Zero(t, logged(), "it was released before")

		lease, err = c.Mutex("x").Lock(t.Context())
		require.NoError(t, err)
		net.clock.sleep(time.Minute) // the keeper has not looked yet
		lease.h.abandon()
		require.Zero(t, logged(), "it is lost, and that is logged")

		lease, err = c.Mutex("x").Lock(t.Context())
		require.NoError(t, err)
		lease.h.abandon()
		require.Equal(t, 1, logged())
		require.ErrorIs(t, lease.Err(), ErrReleased)
		net.requireNoKeys()
	})
}

func TestADoThatOutlivesCloseIsReleasedWhenItReturnsOrIsOver(t *testing.T) {
	for name, c := range map[string]struct{ tidy, freed time.Duration }{
		"returns": {100 * ms, 101 * ms},
		"hangs":   {time.Minute, 10 * time.Second},
	} {
		t.Run(name, func(t *testing.T) {
			inBubble(t, 3, func(t *testing.T, net *testNet) {
				a := net.client()
				time.Sleep(time.Second)
				go func() {
					_ = a.Mutex("x").Do(t.Context(), func(ctx context.Context, _ *Lease) error {
						<-ctx.Done()
						time.Sleep(c.tidy)
						return nil
					})
				}()
				synctest.Wait()
				require.NoError(t, a.Close())
				require.NotNil(t, a.nodes[0].Pipe(), "the release needs it")
				time.Sleep(c.freed)
				net.requireNoKeys()
				require.Nil(t, a.nodes[0].Pipe())
				time.Sleep(c.tidy)
			})
		})
	}
}

func TestALeaseIsOverAtTheVeryInstant(t *testing.T) {
	inBubble(t, 3, func(t *testing.T, net *testNet) {
		c := net.client(WithoutRenewal())
		lease, err := c.Mutex("x").Lock(t.Context())
		require.NoError(t, err)
		net.clock.sleep(lease.Remaining()) // the keeper has not looked yet
		require.False(t, lease.Valid())
		require.ErrorIs(t, lease.Unlock(t.Context()), ErrLost)
		require.ErrorIs(t, lease.Err(), ErrLost)
		net.requireNoKeys()
	})
}

func TestAnUnlockInADoThatOutlivesCloseIsTheOnlyOne(t *testing.T) {
	inBubble(t, 3, func(t *testing.T, net *testNet) {
		c := net.client()
		ended := make(chan error, 1)
		go func() {
			ended <- c.Mutex("x").Do(t.Context(), func(ctx context.Context, lease *Lease) error {
				<-ctx.Done()
				require.NoError(t, lease.Unlock(ctx))
				require.ErrorIs(t, lease.Err(), ErrReleased)
				return nil
			})
		}()
		synctest.Wait()
		require.NoError(t, c.Close())
		require.NoError(t, <-ended)
		net.requireNoKeys()
	})
}

// kept returns the leases that the client's keeper looks after.
func (c *Client) kept() []*holding {
	c.keeper.mu.Lock()
	defer c.keeper.mu.Unlock()
	return slices.Clone(c.keeper.leases)
}

func TestTheKeeperForgetsALeaseThatHasEnded(t *testing.T) {
	inBubble(t, 3, func(t *testing.T, net *testNet) {
		c := net.client()
		for range 3 {
			lease, err := c.Mutex("x").Lock(t.Context())
			require.NoError(t, err)
			require.Len(t, c.kept(), 1)
			require.NoError(t, lease.Unlock(t.Context()))
			require.Empty(t, c.kept())
			require.Equal(t, -1, lease.h.place)
		}
	})
}

func TestAContextThatIsCancelledIsForgotten(t *testing.T) {
	inBubble(t, 1, func(t *testing.T, net *testNet) {
		lease, err := net.client().Mutex("x").Lock(t.Context())
		require.NoError(t, err)
		_, cancel := lease.Context(t.Context())
		require.Len(t, lease.h.contexts, 1)
		cancel()
		require.Empty(t, lease.h.contexts)
	})
}

func TestARenewalFindsANodeThatForgot(t *testing.T) {
	inBubble(t, 3, func(t *testing.T, net *testNet) {
		c := net.guarded()
		lease, err := c.Mutex("x").Lock(t.Context())
		require.NoError(t, err)
		synctest.Wait()
		require.NoError(t, lease.Extend(t.Context()))
		synctest.Wait()
		for _, n := range c.nodes {
			require.True(t, n.Current().Votes)
		}
		net.nodes[0].redis.FlushAll()
		require.NoError(t, lease.Extend(t.Context()))
		time.Sleep(100 * ms)
		st := c.nodes[0].Current()
		require.True(t, st == nil || !st.Votes, "long before its record is looked at")
	})
}
