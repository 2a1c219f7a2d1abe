package redlock_test

import (
	"context"
	"errors"
	"fmt"
	"log"
	"reflect"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/redlock-go/redlock"
	"github.com/redlock-go/redlock/internal/test/testnet"
)

// Validity: never longer than ttl − elapsed − drift.

func TestValidityBeginsBeforeTheFirstSend(t *testing.T) {
	testnet.OfEachKind(t, 5, func(t *testing.T, net *testnet.Net) {
		c := net.Client()
		net.Nodes.Set(func(n *testnet.Node) { n.Delay = 30 * ms })
		lease := net.Must(net.Mutex(c, "x", redlock.WithTTL(time.Second), redlock.WithNodeTimeout(100*ms), redlock.WithDrift(0.01, 2*ms), redlock.WithoutRenewal()).Lock(t.Context()))
		want := time.Second - 60*ms - 12*ms // ttl − a round trip − drift
		require.Equal(t, want, lease.Remaining())
		require.WithinDuration(t, time.Now().Add(want), lease.Until(), 0)

		time.Sleep(500 * ms)
		require.NoError(t, lease.Extend(t.Context()))
		require.Equal(t, want, lease.Remaining(), "a renewal counts from its own start")

		took := testnet.Elapsed(func() { <-lease.Done() })
		require.Equal(t, want, took, "Done closes when the validity ends, whatever the nodes answer")
		require.False(t, lease.Valid())
		require.Zero(t, lease.Remaining())
		require.ErrorIs(t, lease.Err(), redlock.ErrLost)
		require.ErrorIs(t, lease.Unlock(t.Context()), redlock.ErrLost)
	})
}

func TestVotesThatComeTooLateGrantNothing(t *testing.T) {
	testnet.OfEachKind(t, 3, func(t *testing.T, net *testnet.Net) {
		c := net.Client()
		// The machine sleeps while the ballot is under way: timers stood still,
		// the keys' ttl did not.
		net.Nodes.Set(func(n *testnet.Node) { n.Delay = 10 * ms })
		go func() {
			time.Sleep(15 * ms)
			net.Clock.Sleep(time.Minute)
		}()
		_, err := net.Mutex(c, "x").TryLock(t.Context())
		require.ErrorIs(t, err, redlock.ErrNoQuorum)
		var q *redlock.QuorumError
		require.ErrorAs(t, err, &q)
		require.True(t, q.Late)
		require.ErrorContains(t, err, "no validity was left")
		time.Sleep(100 * ms)
		net.RequireNoKeys()
	})
}

func TestSuspendedMachineWakesWithoutItsLeases(t *testing.T) {
	testnet.OfEachKind(t, 3, func(t *testing.T, net *testnet.Net) {
		c := net.Client(redlock.WithoutRenewal())
		lease := net.Must(net.Mutex(c, "x").Lock(t.Context()))
		done := lease.Done()
		time.Sleep(2 * time.Second)
		net.Clock.Sleep(time.Hour)
		require.False(t, lease.Valid(), "at once")
		require.ErrorIs(t, lease.Err(), redlock.ErrLost)
		took := testnet.Elapsed(func() { <-done })
		require.LessOrEqual(t, took, time.Second, "within a second of waking")
	})
}

func TestExtendAfterTheEndSendsNoRenewal(t *testing.T) {
	testnet.OfEachKind(t, 3, func(t *testing.T, net *testnet.Net) {
		c := net.Client(redlock.WithoutRenewal())
		lease := net.Must(net.Mutex(c, "x", redlock.WithTTL(time.Second)).Lock(t.Context()))
		synctest.Wait() // the slower grants have arrived
		for _, n := range net.Nodes {
			n.Redis.SetTTL("redlock:x", time.Hour) // a node whose clock stands still
		}
		net.Clock.Sleep(988 * ms) // no timer has fired yet
		require.ErrorIs(t, lease.Extend(t.Context()), redlock.ErrLost)
		time.Sleep(10 * ms)
		for _, n := range net.Nodes {
			require.Zero(t, n.Renewals())
			require.Equal(t, 1, n.Attempts())
		}
		net.RequireNoKeys()
	})
}

func TestAnswerAfterTheEndDoesNotReviveALease(t *testing.T) {
	testnet.OfEachKind(t, 3, func(t *testing.T, net *testnet.Net) {
		c := net.Client(redlock.WithoutRenewal())
		lease := net.Must(net.Mutex(c, "x", redlock.WithTTL(time.Second), redlock.WithNodeTimeout(200*ms)).Lock(t.Context()))
		net.Nodes.Set(func(n *testnet.Node) { n.Delay = 60 * ms })
		time.Sleep(900 * ms) // the answer comes at 1 020, the validity ends at 988
		require.ErrorIs(t, lease.Extend(t.Context()), redlock.ErrLost)
		require.ErrorIs(t, lease.Err(), redlock.ErrLost)
		time.Sleep(200 * ms)
		net.RequireNoKeys()
	})
}

func TestExtendPutsTheKeyBackAtAMinority(t *testing.T) {
	testnet.OfEachKind(t, 5, func(t *testing.T, net *testnet.Net) {
		c := net.Client()
		lease := net.Must(net.Mutex(c, "x").Lock(t.Context()))
		synctest.Wait() // the slower grants have arrived
		net.Nodes[0].Redis.FlushAll()
		net.Nodes[1].Redis.FlushAll()
		require.NoError(t, lease.Extend(t.Context()))
		require.Equal(t, 5, net.Holders(lease))
		require.NoError(t, lease.Unlock(t.Context()))
		net.RequireNoKeys()
	})
}

func TestInconclusiveExtendKeepsTheOldValidity(t *testing.T) {
	testnet.OfEachKind(t, 3, func(t *testing.T, net *testnet.Net) {
		c := net.Client(redlock.WithoutRenewal())
		lease := net.Must(net.Mutex(c, "x").Lock(t.Context()))
		before := lease.Until()
		net.Nodes[0].Freeze()
		net.Nodes[1].Freeze()
		time.Sleep(time.Second)
		ctx, cancel := context.WithTimeout(t.Context(), 100*ms)
		defer cancel()
		err := lease.Extend(ctx)
		require.ErrorIs(t, err, context.DeadlineExceeded)
		require.ErrorIs(t, err, redlock.ErrNoQuorum)
		require.ErrorIs(t, lease.Extend(t.Context()), redlock.ErrNoQuorum)
		require.True(t, lease.Valid())
		require.Equal(t, before, lease.Until())
	})
}

func TestUnlockAtAnyInstantOfARenewalLeavesNoKeys(t *testing.T) {
	testnet.OfEachKind(t, 5, func(t *testing.T, net *testnet.Net) {
		c := net.Client(redlock.WithoutRenewal())
		for i, n := range net.Nodes {
			n.Set(func(n *testnet.Node) { n.Delay = time.Duration(i+1) * 7 * ms })
		}
		for instant := range 80 {
			lease := net.Must(net.Mutex(c, "x").Lock(t.Context()))
			extended := make(chan error, 1)
			go func() { extended <- lease.Extend(t.Context()) }()
			time.Sleep(time.Duration(instant) * ms)
			require.NoError(t, lease.Unlock(t.Context()))
			if err := <-extended; err != nil {
				require.ErrorIs(t, err, redlock.ErrReleased)
			}
			time.Sleep(200 * ms)
			net.RequireNoKeys()
		}
	})
}

func TestLeasesEndInTheOrderOfTheirValidity(t *testing.T) {
	testnet.OfEachKind(t, 3, func(t *testing.T, net *testnet.Net) {
		c := net.Client(redlock.WithoutRenewal())
		ends := map[*redlock.Lease]time.Duration{}
		for _, ttl := range []time.Duration{5, 2, 8, 1, 3} {
			lease := net.Must(net.Mutex(c, ttl.String(), redlock.WithTTL(ttl*time.Second)).Lock(t.Context()))
			ends[lease] = lease.Remaining()
		}
		start := time.Now()
		for lease, end := range ends {
			go func() {
				<-lease.Done()
				if took := time.Since(start); took != end {
					t.Errorf("%s ended after %v, its validity was %v", lease.Name(), took, end)
				}
			}()
		}
		time.Sleep(10 * time.Second)
		synctest.Wait()
		net.RequireNoKeys()
	})
}

// Events have the name that the lease has.
func TestEventsOfSeveralNamesHaveThemAll(t *testing.T) {
	testnet.InBubble(t, 3, func(t *testing.T, net *testnet.Net) {
		var tape testnet.Tape
		set := net.Client(redlock.WithTrace(tape.Trace()), redlock.WithTTL(3*time.Second)).Multi([]string{"b", "a"})
		before := net.Must(net.Client().Mutex("b").Lock(t.Context()))
		tape.Clear() // of the nodes' events
		time.AfterFunc(time.Second, func() { _ = before.Unlock(context.Background()) })
		lease := net.Must(set.Lock(t.Context()))
		require.NoError(t, lease.Extend(t.Context()))
		require.NoError(t, lease.Unlock(t.Context()))
		lease = net.Must(set.TryLock(t.Context()))
		net.Nodes.Down()
		<-lease.Done()

		names := map[string]string{}
		for _, e := range testnet.Told[any](&tape) {
			if name := reflect.ValueOf(e).FieldByName("Name"); name.IsValid() {
				kind := fmt.Sprintf("%T", e)
				if lease, is := e.(redlock.LeaseEvent); is {
					kind += " " + string(lease.Kind)
				}
				names[kind+" "+name.String()] = name.String()
			}
		}
		require.Len(t, names, 12, "each kind of call, ballot, wait and lease: %v", names)
		for _, name := range names {
			require.Equal(t, lease.Name(), name)
		}
	})
}

func ExampleLease_ExtendTo() {
	client, closeAll := openExample() // or redlock.Open, with the servers' URLs
	defer closeAll()
	ctx := context.Background()
	lease, err := client.Mutex("disk").Lock(ctx) // for ten seconds, and renewed
	if err != nil {
		log.Fatal(err)
	}
	defer lease.Unlock(ctx)

	// Nothing renews the lease while the machine stands still.
	if err := lease.ExtendTo(ctx, 2*time.Minute); err != nil {
		log.Fatal(err)
	}
	fmt.Println("for a snapshot:", lease.Remaining().Round(10*time.Second))
	if err := lease.ExtendTo(ctx, 10*time.Second); err != nil {
		log.Fatal(err)
	}
	fmt.Println("as before:", lease.Remaining().Round(10*time.Second))
	// Output:
	// for a snapshot: 2m0s
	// as before: 10s
}

func ExampleLease_Transfer() {
	client, closeAll := openExample() // or redlock.Open, with the servers' URLs
	defer closeAll()
	ctx := context.Background()
	lease, err := client.Mutex("upload-7").Lock(ctx)
	if err != nil {
		log.Fatal(err)
	}
	defer lease.Unlock(ctx) // does nothing after a transfer
	text, err := lease.Transfer(ctx)
	if err != nil {
		log.Fatal(err)
	}
	_, err = client.Mutex("upload-7").TryLock(ctx)
	fmt.Println("free:", !errors.Is(err, redlock.ErrHeld), "transferred:", errors.Is(lease.Err(), redlock.ErrTransferred))

	next, err := client.Resume(ctx, text) // in another process
	if err != nil {
		log.Fatal(err)
	}
	defer next.Unlock(ctx)
	fmt.Println("resumed:", next.Name(), "with a greater token:", next.Token() > lease.Token())
	// Output:
	// free: false transferred: true
	// resumed: upload-7 with a greater token: true
}
