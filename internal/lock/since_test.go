package lock_test

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/redlock-go/redlock"
	"github.com/redlock-go/redlock/internal/system"
	"github.com/redlock-go/redlock/internal/test/testhook"
	"github.com/redlock-go/redlock/internal/test/testnet"
)

// ahead is how far the wall clocks of these tests' holders are ahead of all others.
const ahead = 3*time.Hour + 490*ms

func holdersWall() time.Time { return time.Now().Add(ahead) }

func withWall(w system.Wall) redlock.Option { return testhook.WithWall(w).(redlock.Option) }

// shownSince returns the instants that Inspect shows for all that hold x, or permits of it.
func shownSince(t *testing.T, c *redlock.Client) (shown []time.Time) {
	synctest.Wait()
	s, err := c.Inspect(t.Context(), "x")
	require.NoError(t, err)
	if !s.Since.IsZero() {
		shown = append(shown, s.Since)
	}
	for _, r := range s.Readers {
		shown = append(shown, r.Since)
	}
	for _, p := range s.Permits {
		shown = append(shown, p.Since)
	}
	return shown
}

// requireSince checks that a lease, and Inspect, show an instant of the holder's clock, to the second.
func requireSince(t *testing.T, c *redlock.Client, lease *redlock.Lease, granted time.Time) {
	require.WithinDuration(t, granted, lease.Since(), time.Second)
	shown := shownSince(t, c)
	require.NotEmpty(t, shown)
	for _, at := range shown {
		require.Equal(t, lease.Since(), at)
	}
}

func TestSinceIsWhenALeaseWasGrantedByItsHoldersClock(t *testing.T) {
	kinds := map[string]func(*redlock.Client, context.Context, ...redlock.LockOption) (*redlock.Lease, error){
		"mutex": acquireKind[0], "reader": acquireKind[1], "set": acquireKind[2], "permits": acquireKind[3],
		"wanted": func(c *redlock.Client, ctx context.Context, _ ...redlock.LockOption) (*redlock.Lease, error) {
			return c.Mutex("x", redlock.WithWanted()).Lock(ctx)
		},
		"without a label": func(c *redlock.Client, ctx context.Context, _ ...redlock.LockOption) (*redlock.Lease, error) {
			return c.Mutex("x", redlock.WithOwnerLabel("")).TryLock(ctx)
		},
		"downgraded": func(c *redlock.Client, ctx context.Context, _ ...redlock.LockOption) (*redlock.Lease, error) {
			lease, err := c.Mutex("x").Lock(ctx)
			if err == nil {
				err = lease.Downgrade(ctx)
			}
			return lease, err
		},
	}
	for kind, acquire := range kinds {
		t.Run(kind, func(t *testing.T) {
			for _, phase := range []time.Duration{0, 10 * ms, 300 * ms, 600 * ms} { // of the second in which it is granted
				testnet.InBubbleFor(t, 2*time.Hour, 3, func(t *testing.T, net *testnet.Net) {
					holder, other := net.Client(withWall(holdersWall), redlock.WithTTL(10*time.Minute)), net.Client()
					time.Sleep(phase)
					lease, err := acquire(holder, t.Context())
					require.NoError(t, err)
					granted := holdersWall()
					requireSince(t, other, lease, granted)
					time.Sleep(time.Hour)
					require.True(t, lease.Valid(), "it renews itself")
					requireSince(t, other, lease, granted)
					require.NoError(t, lease.Unlock(t.Context()))
					require.Empty(t, shownSince(t, other))
				})
			}
		})
	}
}

func TestSinceOfAWaiterIsWhenItGotTheLock(t *testing.T) {
	for _, opts := range [][]redlock.LockOption{nil, {redlock.WithWanted()}, {redlock.WithoutRenewal()}} { // a WithoutRenewal is not parked
		for _, kind := range acquireKind[:3] {
			for _, phase := range []time.Duration{0, 120 * ms, 490 * ms, 800 * ms} {
				testnet.InBubble(t, 3, func(t *testing.T, net *testnet.Net) {
					before, holder, other := net.Client(), net.Client(withWall(holdersWall)), net.Client()
					first := net.Must(before.Mutex("x").Lock(t.Context()))
					time.AfterFunc(3*time.Second+phase, func() { _ = first.Unlock(context.Background()) })
					lease, err := kind(holder, t.Context(), opts...)
					require.NoError(t, err)
					require.NotEqual(t, first.Owner(), lease.Owner())
					requireSince(t, other, lease, holdersWall())
				})
			}
		}
	}
}

func TestSinceOfALeaseThatIsTransferred(t *testing.T) {
	testnet.InBubble(t, 3, func(t *testing.T, net *testnet.Net) {
		a, b, other := net.Client(withWall(holdersWall), redlock.WithOwnerLabel("a")), net.Client(), net.Client()
		lease := net.Must(a.Mutex("x").Lock(t.Context()))
		granted := holdersWall()
		time.Sleep(time.Minute)
		text := net.Text(lease.Transfer(t.Context()))
		require.WithinDuration(t, granted, lease.Since(), time.Second)
		synctest.Wait()
		s := net.Status(other.Inspect(t.Context(), "x"))
		require.NotEqual(t, lease.Owner(), s.Holder)
		require.Equal(t, "a", s.Label)
		require.Equal(t, lease.Since(), s.Since, "the lock is still held since then")

		time.Sleep(5 * time.Second)
		resumed := net.Must(b.Resume(t.Context(), text))
		requireSince(t, other, resumed, time.Now())
		text = net.Text(resumed.Transfer(t.Context()))
		require.Equal(t, []time.Time{resumed.Since()}, shownSince(t, other))
		again := net.Must(a.Resume(t.Context(), text))
		requireSince(t, other, again, holdersWall())
	})
}

func TestLockThatRestsShowsSinceWhenItsLastLeaseWasHeld(t *testing.T) {
	testnet.InBubble(t, 3, func(t *testing.T, net *testnet.Net) {
		holder, other := net.Client(withWall(holdersWall)), net.Client()
		lease := net.Must(holder.Mutex("x", redlock.WithMinHold(5*time.Second)).Lock(t.Context()))
		require.NoError(t, lease.Unlock(t.Context()))
		require.Equal(t, []time.Time{lease.Since()}, shownSince(t, other))
		var held *redlock.HeldError
		time.Sleep(2 * time.Second)
		_, err := holder.Mutex("x").TryLock(t.Context())
		require.ErrorAs(t, err, &held)
		require.True(t, held.Resting)
		require.NotContains(t, held.Error(), `" for 2s`, "nobody holds it")
	})
}

func TestKeysOfOtherProgramsHaveNoSince(t *testing.T) {
	testnet.InBubble(t, 3, func(t *testing.T, net *testnet.Net) {
		c := net.Client()
		for _, n := range net.Nodes {
			require.NoError(t, n.Redis.Set("redlock:x", "another program"))
			require.NoError(t, n.Redis.Set("redlock:x#3", "01ARZ3NDEKTSV4RRFFQ69G5FAV"))
		}
		s := net.Status(c.Inspect(t.Context(), "x"))
		require.Equal(t, "another program", s.Holder)
		require.Zero(t, s.Since)
		require.Len(t, s.Permits, 1)
		require.Zero(t, s.Permits[0].Since)
		_, err := c.Mutex("x").TryLock(t.Context())
		require.ErrorContains(t, err, `held by "another program" without an end`)
	})
}

func TestClocksThatStandStillOrAreNotSetDoNotDisturbLocks(t *testing.T) {
	for name, wall := range map[string]system.Wall{
		"zero": func() time.Time { return time.Time{} }, "1970": func() time.Time { return time.Unix(0, 0) },
		"one second for ever": func() time.Time { return time.Unix(1_800_000_000, 0) }, "far ahead": func() time.Time { return time.Unix(1<<40, 0) },
	} {
		t.Run(name, func(t *testing.T) {
			testnet.InBubble(t, 3, func(t *testing.T, net *testnet.Net) {
				a, b := net.Client(withWall(wall)), net.Client(withWall(wall))
				lease := net.Must(a.Mutex("x").Lock(t.Context()))
				net.Held(b.Mutex("x").TryLock(t.Context()))
				require.Equal(t, name != "one second for ever", lease.Since().IsZero())
				require.NoError(t, lease.Unlock(t.Context()))
				next := net.Must(b.Mutex("x").Lock(t.Context()))
				require.NotEqual(t, lease.Owner(), next.Owner())
			})
		})
	}
}

func TestRefusedCallerLearnsForHowLongTheLockIsHeld(t *testing.T) {
	testnet.InBubbleFor(t, time.Hour, 3, func(t *testing.T, net *testnet.Net) {
		holder, slow, same := net.Client(withWall(holdersWall), redlock.WithOwnerLabel("web-1"), redlock.WithTTL(10*time.Minute)), net.Client(), net.Client(withWall(holdersWall))
		lease := net.Must(holder.Mutex("x").Lock(t.Context()))
		_, err := same.Mutex("x").TryLock(t.Context())
		require.ErrorContains(t, err, `@web-1" (expires in`, "it was granted within this second")
		time.Sleep(41*time.Minute + 7*time.Second)
		_, err = same.Mutex("x").TryLock(t.Context())
		require.ErrorContains(t, err, `@web-1" for 41m7s (expires in`)
		ctx, cancel := context.WithTimeout(t.Context(), 2*time.Minute)
		defer cancel()
		_, err = same.Mutex("x").Lock(ctx)
		require.Regexp(t, `@web-1" for 43m\ds \(expires in`, err.Error())
		_, err = slow.Mutex("x").TryLock(t.Context())
		require.ErrorContains(t, err, `@web-1" (expires in`, "the holder's clock is ahead of this one")
		require.NoError(t, lease.Unlock(t.Context()))
	})
}
