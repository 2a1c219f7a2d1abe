package lock_test

import (
	"context"
	"errors"
	"log/slog"
	"sync"
	"testing"
	"time"

	"github.com/gomodule/redigo/redis"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/redlock-go/redlock"
	"github.com/redlock-go/redlock/internal/test/testhook"
	"github.com/redlock-go/redlock/internal/test/testnet"
)

var errTerm = errors.New("the term failed")

// lead runs Lead for a caller that leads until its ctx ends, and sends its lease to led.
func lead(ctx context.Context, running *sync.WaitGroup, m *redlock.Mutex, led chan<- *redlock.Lease) {
	running.Go(func() {
		_ = m.Lead(ctx, func(ctx context.Context, lease *redlock.Lease) error {
			led <- lease
			<-ctx.Done()
			return context.Cause(ctx)
		})
	})
}

func TestAnotherCandidateLeadsWithinATTLOfTheLeadersDeath(t *testing.T) {
	testnet.OfEachKind(t, 3, func(t *testing.T, net *testnet.Net) {
		if net.Kind == testnet.Shared {
			t.Skip("readers lead together")
		}
		const ttl = 10 * time.Second
		ctx, cancel := context.WithCancel(t.Context())
		var running sync.WaitGroup
		defer running.Wait()
		defer cancel()
		first, second := net.Client(redlock.WithOwnerLabel("first")), net.Client(redlock.WithOwnerLabel("second"))
		led := make(chan *redlock.Lease, 2)
		lead(ctx, &running, net.Mutex(first, "office"), led)
		old := <-led
		lead(ctx, &running, net.Mutex(second, "office"), led)
		time.Sleep(time.Minute)
		status, err := second.Inspect(ctx, "office")
		require.NoError(t, err)
		require.Equal(t, "first", status.Label, "Inspect names the leader")
		require.Empty(t, led, "the other one follows")

		testhook.Engine(first).Renewer.Forget(testhook.Lease(old)) // as if its process had died
		died := time.Now()
		next := <-led
		require.LessOrEqual(t, time.Since(died), ttl+10*ms)
		require.Equal(t, "second", next.Label())
		require.Greater(t, next.Token(), old.Token(), "terms are numbered")
		status, err = second.Inspect(ctx, "office")
		require.NoError(t, err)
		require.Equal(t, "second", status.Label)
	})
}

// The pauses of a candidate whose terms fail at once double from the node timeout to the ttl, and
// begin anew after a term that lasted.
func TestLeadersThatFailAtOnceDoNotSpin(t *testing.T) {
	testnet.OfEachKind(t, 3, func(t *testing.T, net *testnet.Net) {
		const ttl, timeout = 10 * time.Second, 500 * ms
		var journal testnet.Journal
		c := net.Client(redlock.WithLogger(slog.New(slog.NewTextHandler(&journal, nil))))
		period := time.Duration(testnet.Tries(15, 60)) * time.Minute
		ctx, cancel := context.WithTimeout(t.Context(), period)
		defer cancel()
		var ended time.Time
		var pauses []time.Duration
		err := net.Mutex(c, "office").Lead(ctx, func(ctx context.Context, _ *redlock.Lease) error {
			pauses = append(pauses, time.Since(ended))
			if len(pauses) == 20 {
				time.Sleep(ttl)
			}
			ended = time.Now()
			return errTerm
		})
		require.ErrorIs(t, err, context.DeadlineExceeded)
		require.ErrorIs(t, err, errTerm, "the last error is not lost")
		pauses = pauses[1:]
		const least, most = 5, 10 // seconds between terms, in the long run
		require.Greater(t, len(pauses), int(period.Seconds())/most)
		require.Less(t, len(pauses), int(period.Seconds())/least+20)
		for i, pause := range pauses {
			failures := i
			if i >= 19 {
				failures = i - 19
			}
			limit := min(timeout<<min(failures, 10), ttl)
			require.GreaterOrEqual(t, pause, limit/2, "pause %d", i)
			require.LessOrEqual(t, pause, limit, "pause %d", i)
		}
		require.Contains(t, journal.String(), errTerm.Error(), "each failure is logged")
	})
}

func TestCandidatesDoNotSpinWhileNoMajorityCanVote(t *testing.T) {
	for cause, most := range map[error]int{
		testnet.ErrRefused:          10, // a second: the pace of Lock, which waits
		redis.Error("WRONGPASS no"): 1,  // a second: Lock gives up, Lead does not
	} {
		testnet.InBubble(t, 3, func(t *testing.T, net *testnet.Net) {
			c := net.Client()
			for _, n := range net.Nodes {
				n.Set(func(n *testnet.Node) { n.Refusing = cause })
				n.Cut()
			}
			period := time.Duration(testnet.Tries(15, 60)) * time.Minute
			began := time.Now()
			time.AfterFunc(period, func() {
				assert.Less(t, int(c.Stats().NoQuorum), most*int(period.Seconds()), "%v", cause)
				for _, n := range net.Nodes {
					n.Up()
				}
			})
			require.NoError(t, c.Mutex("office").Lead(t.Context(), func(context.Context, *redlock.Lease) error { return nil }))
			require.GreaterOrEqual(t, time.Since(began), period)
			require.Less(t, time.Since(began), period+15*time.Second, "it leads once the nodes are back")
		})
	}
}

func TestLeadEndsWithNilIfTheTermWasHeldToItsEnd(t *testing.T) {
	testnet.OfEachKind(t, 3, func(t *testing.T, net *testnet.Net) {
		c := net.Client(redlock.WithMaxHold(20 * time.Second))
		terms := 0
		require.NoError(t, net.Mutex(c, "office").Lead(t.Context(), func(ctx context.Context, lease *redlock.Lease) error {
			switch terms++; terms {
			case 1:
				return errTerm
			case 2:
				<-ctx.Done() // WithMaxHold ends the term
				require.ErrorIs(t, context.Cause(ctx), redlock.ErrLost)
				return nil
			}
			require.True(t, lease.Valid())
			return nil
		}))
		require.Equal(t, 3, terms, "a term that was lost is followed by another, though fn returned nil")
		net.RequireNoKeys()
	})
}

func TestEndOfLeadsContextEndsIt(t *testing.T) {
	testnet.OfEachKind(t, 3, func(t *testing.T, net *testnet.Net) {
		if net.Kind == testnet.Shared {
			t.Skip("readers lead together")
		}
		c, other := net.Client(), net.Client()
		gaveUp := errors.New("the caller gave up")
		never := func(context.Context, *redlock.Lease) error { panic("it must not lead") }

		leader, err := net.Mutex(other, "office").Lock(t.Context())
		require.NoError(t, err)
		ctx, cancel := context.WithTimeoutCause(t.Context(), time.Minute, gaveUp)
		defer cancel()
		took := testnet.Elapsed(func() { err = net.Mutex(c, "office").Lead(ctx, never) })
		require.Equal(t, time.Minute, took, "it followed")
		require.ErrorIs(t, err, gaveUp)
		var held *redlock.HeldError
		require.ErrorAs(t, err, &held)
		require.Equal(t, leader.Owner(), held.Holder)
		require.ErrorIs(t, net.Mutex(c, "office").Lead(ctx, never), gaveUp, "it had ended before")
		require.NoError(t, leader.Unlock(t.Context()))

		ctx, end := context.WithCancelCause(t.Context())
		err = net.Mutex(c, "office").Lead(ctx, func(ctx context.Context, lease *redlock.Lease) error {
			time.AfterFunc(time.Minute, func() { end(gaveUp) })
			<-ctx.Done()
			require.True(t, lease.Valid())
			return errTerm
		})
		require.ErrorIs(t, err, gaveUp, "while it led")
		require.ErrorIs(t, err, errTerm)
		net.RequireNoKeys()

		ctx, end = context.WithCancelCause(t.Context())
		err = net.Mutex(c, "office").Lead(ctx, func(context.Context, *redlock.Lease) error {
			time.AfterFunc(ms, func() { end(gaveUp) })
			return errTerm
		})
		require.ErrorIs(t, err, gaveUp, "in a pause")
		require.ErrorIs(t, err, errTerm)
	})
}

func TestLeadEndsAtOnceWhereNoElectionCanHelp(t *testing.T) {
	testnet.OfEachKind(t, 3, func(t *testing.T, net *testnet.Net) {
		c := net.Client()
		led := func(context.Context, *redlock.Lease) error { return errTerm }
		require.ErrorIs(t, c.Mutex("office", redlock.WithTTL(0)).Lead(t.Context(), led), redlock.ErrConfig)
		m := net.Mutex(c, "office")
		err := m.Do(t.Context(), func(ctx context.Context, _ *redlock.Lease) error { return m.Lead(ctx, led) })
		require.ErrorIs(t, err, redlock.ErrHeld, "it would wait for itself")
		require.PanicsWithValue(t, "fn's own", func() {
			_ = m.Lead(t.Context(), func(context.Context, *redlock.Lease) error { panic("fn's own") })
		})
		net.RequireNoKeys()

		// Errors of another client's are fn's own.
		terms := 0
		time.AfterFunc(time.Minute, func() { _ = c.Close() })
		err = m.Lead(t.Context(), func(context.Context, *redlock.Lease) error {
			terms++
			return []error{redlock.ErrConfig, redlock.ErrClosed, redlock.ErrHeld, errTerm}[min(terms, 4)-1]
		})
		require.ErrorIs(t, err, redlock.ErrClosed)
		require.ErrorIs(t, err, errTerm)
		require.Greater(t, terms, 4)
	})
}
