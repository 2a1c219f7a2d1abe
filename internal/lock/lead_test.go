package lock_test

import (
	"context"
	"errors"
	"fmt"
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
		status := net.Status(second.Inspect(ctx, "office"))
		require.Equal(t, "first", status.Label, "Inspect names the leader")
		require.Empty(t, led, "the other one follows")

		testhook.Engine(first).Renewer.Forget(testhook.Lease(old)) // as if its process had died
		died := time.Now()
		next := <-led
		require.LessOrEqual(t, time.Since(died), ttl+10*ms)
		require.Equal(t, "second", next.Label())
		require.Greater(t, next.Token(), old.Token(), "terms are numbered")
		status = net.Status(second.Inspect(ctx, "office"))
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
				net.Nodes.Up()
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

// Three candidates resign whenever another one wants to lead. They lead in turn, and no pause is in between.
func TestALeaderThatResignsIsFollowedAtOnceAndStandsBehindTheWaiters(t *testing.T) {
	testnet.InBubble(t, 3, func(t *testing.T, net *testnet.Net) {
		const candidates, terms = 3, 60
		var journal testnet.Journal
		ctx, cancel := context.WithCancel(t.Context())
		var running sync.WaitGroup
		defer running.Wait()
		defer cancel()
		leads := make(chan int)
		for i := range candidates {
			c := net.Client(redlock.WithLogger(slog.New(slog.NewTextHandler(&journal, nil))))
			running.Go(func() {
				_ = c.Mutex("office", redlock.WithWanted()).Lead(ctx, func(ctx context.Context, lease *redlock.Lease) error {
					select {
					case leads <- i:
					case <-ctx.Done():
					}
					time.Sleep(time.Second)
					select {
					case <-lease.Wanted():
					case <-ctx.Done():
					}
					return fmt.Errorf("another one may lead: %w", redlock.ErrResign)
				})
			})
			time.Sleep(time.Second) // they ask one after the other
		}
		var began time.Time
		for term := range terms {
			require.Equal(t, term%candidates, <-leads, "term %d", term)
			if term > 0 {
				require.Less(t, time.Since(began), time.Second+100*ms, "term %d", term)
			}
			began = time.Now()
		}
		require.NotContains(t, journal.String(), "failed", "to resign is no failure")
	})
}

func TestALeaderThatResignsWithoutWaitersLeadsAgainAtOnce(t *testing.T) {
	testnet.OfEachKind(t, 3, func(t *testing.T, net *testnet.Net) {
		const timeout = 500 * ms
		c := net.Client(redlock.WithMaxHold(20 * time.Second))
		steps := []struct {
			end         error
			least, most time.Duration // the pause behind the term
			untilLost   bool
		}{
			{redlock.ErrResign, 0, 10 * ms, false},
			{errTerm, timeout / 2, timeout, false},
			{redlock.ErrResign, 0, 10 * ms, false},
			{errTerm, timeout, 2 * timeout, false}, // the second failure
			{redlock.ErrResign, timeout / 2, timeout, true},
			{errors.Join(errTerm, redlock.ErrResign), 0, 10 * ms, false},
			{nil, 0, 0, false},
		}
		term, ended := 0, time.Now()
		require.NoError(t, net.Mutex(c, "office").Lead(t.Context(), func(ctx context.Context, _ *redlock.Lease) error {
			step := steps[term]
			if before := steps[max(term-1, 0)]; term > 0 {
				require.GreaterOrEqual(t, time.Since(ended), before.least, "after term %d", term-1)
				require.LessOrEqual(t, time.Since(ended), before.most, "after term %d", term-1)
			}
			if step.untilLost {
				<-ctx.Done()
			}
			term, ended = term+1, time.Now()
			return step.end
		}))
		require.Len(t, steps, term)
		net.RequireNoKeys()
	})
}

// Its caller holds the lock by another lease, so no other candidate can lead.
func TestALeaderThatResignsWhatItsCallerHoldsDoesNotSpin(t *testing.T) {
	testnet.InBubble(t, 3, func(t *testing.T, net *testnet.Net) {
		m, terms := net.Client().Mutex("office", redlock.WithReentry()), 0
		require.NoError(t, m.Do(t.Context(), func(ctx context.Context, _ *redlock.Lease) error {
			ctx, cancel := context.WithTimeout(ctx, time.Minute)
			defer cancel()
			err := m.Lead(ctx, func(context.Context, *redlock.Lease) error {
				if terms++; terms > 30 {
					return nil // it spins
				}
				return redlock.ErrResign
			})
			require.ErrorIs(t, err, context.DeadlineExceeded)
			return nil
		}))
	})
}

func TestLeadThatLedSaysForHowLong(t *testing.T) {
	gaveUp := errors.New("the machine stops")
	for name, c := range map[string]struct {
		end  func(stop context.CancelCauseFunc, c *redlock.Client)
		fn   func(ctx context.Context) error
		is   []error
		text string
	}{
		"fn returns ctx's error": {
			func(stop context.CancelCauseFunc, _ *redlock.Client) { stop(nil) },
			func(ctx context.Context) error { return ctx.Err() },
			[]error{context.Canceled}, `redlock: lead "office": context canceled after it had led for 1m30s`,
		},
		"fn returns an error of its own": {
			func(stop context.CancelCauseFunc, _ *redlock.Client) { stop(gaveUp) },
			func(context.Context) error { return errTerm },
			[]error{context.Canceled, gaveUp, errTerm},
			`redlock: lead "office": the machine stops after it had led for 1m30s; fn returned: the term failed`,
		},
		"the leader resigns": {
			func(stop context.CancelCauseFunc, _ *redlock.Client) { stop(nil) },
			func(context.Context) error { return redlock.ErrResign },
			[]error{context.Canceled},
			`redlock: lead "office": context canceled after it had led for 1m30s; fn returned: the leader resigns`,
		},
		"the client is closed": {
			func(_ context.CancelCauseFunc, c *redlock.Client) { _ = c.Close() },
			func(context.Context) error { return errTerm },
			[]error{redlock.ErrClosed, errTerm},
			`redlock: lead "office": the client is closed after it had led for 1m30s; fn returned: the term failed`,
		},
	} {
		testnet.InBubble(t, 3, func(t *testing.T, net *testnet.Net) {
			client := net.Client()
			ctx, stop := context.WithCancelCause(t.Context())
			defer stop(nil)
			err := client.Mutex("office").Lead(ctx, func(ctx context.Context, _ *redlock.Lease) error {
				time.AfterFunc(90*time.Second, func() { c.end(stop, client) })
				<-ctx.Done()
				return c.fn(ctx)
			})
			require.EqualError(t, err, c.text, name)
			for _, is := range c.is {
				require.ErrorIs(t, err, is, name)
			}
		})
	}
}
