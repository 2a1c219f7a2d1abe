package lock_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/redlock-go/redlock"
	"github.com/redlock-go/redlock/internal/test/testnet"
)

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
