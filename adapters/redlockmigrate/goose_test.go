package redlockmigrate_test

import (
	"context"
	"database/sql"
	"fmt"
	"testing"
	"testing/fstest"
	"time"

	"github.com/pressly/goose/v3"
	"github.com/stretchr/testify/require"

	"github.com/redlock-go/redlock"
	"github.com/redlock-go/redlock/adapters/redlockmigrate"
	"github.com/redlock-go/redlock/redlocktest"
)

// lockers are the two kinds of lockers for goose.
var lockers = map[string]func(*redlock.Mutex) any{
	"Locker":        func(m *redlock.Mutex) any { return redlockmigrate.GooseLocker(m) },
	"SessionLocker": func(m *redlock.Mutex) any { return redlockmigrate.GooseSessionLocker(m) },
}

// provider makes a Provider that ends with the test.
func provider(t *testing.T, d *fakeDatabase, opts ...goose.ProviderOption) *goose.Provider {
	t.Helper()
	p, err := newProvider(d, migrations(), opts...)
	require.NoError(t, err)
	t.Cleanup(func() { _ = p.Close() })
	return p
}

func TestGooseMigratesUnderTheLock(t *testing.T) {
	t.Parallel()
	for kind, newLocker := range lockers {
		t.Run(kind, func(t *testing.T) {
			client := open(t, redlocktest.Start(t, 3))
			held := 0
			d := &fakeDatabase{execute: func(ctx context.Context, _ string) error {
				status, err := client.Inspect(ctx, name)
				if status.Holder != "" {
					held++
				}
				return err
			}}
			p := provider(t, d, withLocker(newLocker(client.Mutex(name))))
			for range 2 {
				results, err := p.Up(within(t, soon))
				require.NoError(t, err)
				require.Len(t, results, 2)
			}
			require.Equal(t, 8, held)
			status, err := client.Inspect(t.Context(), name)
			require.NoError(t, err)
			require.Empty(t, status.Holder)
		})
	}
}

func TestOneGooseMigratesAtATime(t *testing.T) {
	t.Parallel()
	for kind, newLocker := range lockers {
		t.Run(kind, func(t *testing.T) {
			nodes := redlocktest.Start(t, 3)
			a, b := open(t, nodes), open(t, nodes)
			second := provider(t, &fakeDatabase{}, withLocker(newLocker(b.Mutex(name))))
			done := make(chan error, 1)
			var d *fakeDatabase
			d = &fakeDatabase{execute: func(context.Context, string) error {
				if len(d.events()) == 1 { // the first statement after the first BEGIN
					go func() {
						_, err := second.Up(within(t, soon))
						done <- err
					}()
					awaitQueue(t, a, 1)
				}
				return nil
			}}
			_, err := provider(t, d, withLocker(newLocker(a.Mutex(name)))).Up(within(t, soon))
			require.NoError(t, err)
			require.NoError(t, <-done)
		})
	}
}

// One locker serves all Providers of a process, one at a time, also if the lock is lost: goose
// does not say which of them unlocks.
func TestALockerServesOneProviderAtATime(t *testing.T) {
	t.Parallel()
	nodes := redlocktest.Start(t, 3)
	client := open(t, nodes)
	l := redlockmigrate.GooseLocker(client.Mutex(name))
	ctx := within(t, soon)
	require.NoError(t, l.Lock(ctx, nil))
	loseLock(t, client)
	require.Eventually(t, func() bool { return client.Stats().Lost == 1 }, soon, 10*time.Millisecond)
	brief, cancel := context.WithTimeout(ctx, 200*time.Millisecond)
	defer cancel()
	require.ErrorIs(t, l.Lock(brief, nil), context.DeadlineExceeded)
	locked := make(chan error, 1)
	go func() { locked <- l.Lock(ctx, nil) }()
	require.ErrorIs(t, l.Unlock(ctx, nil), redlock.ErrLost)
	require.NoError(t, <-locked)
	require.NoError(t, l.Unlock(ctx, nil))
}

// Go chooses at random among the cases of a select that are ready, so one try shows nothing.
func TestAnEndedContextOnAFreeLockBlamesNoOtherCaller(t *testing.T) {
	t.Parallel()
	l := redlockmigrate.GooseLocker(open(t, redlocktest.Start(t, 1)).Mutex(name))
	ended, cancel := context.WithCancel(t.Context())
	cancel()
	for range 30 {
		require.EqualError(t, l.Lock(ended, nil), `redlockmigrate: lock: redlock: lock "migrate orders": context canceled`)
	}
	require.NoError(t, l.Lock(within(t, soon), nil), "none of them has the slot")
	require.ErrorContains(t, l.Lock(ended, nil), "another caller of this process migrates: context canceled")
	require.NoError(t, l.Unlock(t.Context(), nil))
}

func TestALockThatFailedLetsTheNextProviderAsk(t *testing.T) {
	t.Parallel()
	nodes := redlocktest.Start(t, 3)
	a, b := open(t, nodes), open(t, nodes)
	ctx := within(t, soon)
	lease, err := a.Mutex(name).Lock(ctx)
	require.NoError(t, err)
	l := redlockmigrate.GooseLocker(b.Mutex(name))
	brief, cancel := context.WithTimeout(ctx, 3*time.Second) // a busy machine answers late
	defer cancel()
	require.ErrorIs(t, l.Lock(brief, nil), redlock.ErrHeld)
	require.NoError(t, lease.Unlock(ctx))
	require.NoError(t, l.Lock(ctx, nil))
	require.NoError(t, l.Unlock(ctx, nil))
}

func TestGooseReturnsTheErrorOfALockThatItDoesNotGet(t *testing.T) {
	t.Parallel()
	for kind, newLocker := range lockers {
		t.Run(kind, func(t *testing.T) {
			nodes := redlocktest.Start(t, 3)
			a, b := open(t, nodes), open(t, nodes)
			lease, err := a.Mutex(name).Lock(within(t, soon))
			require.NoError(t, err)
			defer func() { require.NoError(t, lease.Unlock(t.Context())) }()
			ctx, cancel := context.WithCancel(t.Context())
			d := &fakeDatabase{}
			failed := make(chan error, 1)
			p := provider(t, d, withLocker(newLocker(b.Mutex(name))))
			go func() {
				_, err := p.Up(ctx)
				failed <- err
			}()
			awaitQueue(t, a, 1)
			cancel()
			err = <-failed
			require.ErrorIs(t, err, redlock.ErrHeld)
			require.ErrorIs(t, err, context.Canceled)
			require.Empty(t, d.events())
		})
	}
}

func TestGooseLockersReportAMissingMutexAndLock(t *testing.T) {
	t.Parallel()
	ctx := t.Context()
	require.ErrorIs(t, redlockmigrate.GooseLocker(nil).Lock(ctx, nil), redlock.ErrConfig)
	require.ErrorIs(t, redlockmigrate.GooseSessionLocker(nil).SessionLock(ctx, nil), redlock.ErrConfig)
	client := open(t, redlocktest.Start(t, 1))
	require.ErrorIs(t, redlockmigrate.GooseLocker(client.Mutex("")).Lock(ctx, nil), redlock.ErrConfig)
	require.ErrorIs(t, redlockmigrate.GooseLocker(client.Mutex(name)).Unlock(ctx, nil), redlock.ErrReleased)
	require.ErrorIs(t, redlockmigrate.GooseSessionLocker(client.Mutex(name)).SessionUnlock(ctx, nil), redlock.ErrReleased)
}

func TestAReleaseThatTooFewNodesConfirmIsNoErrorOfGoose(t *testing.T) {
	t.Parallel()
	for kind, newLocker := range lockers {
		t.Run(kind, func(t *testing.T) {
			nodes := redlocktest.Start(t, 3)
			d := &fakeDatabase{execute: func(context.Context, string) error {
				nodes.Stop(0)
				nodes.Stop(1)
				return nil
			}}
			results, err := provider(t, d, withLocker(newLocker(open(t, nodes).Mutex(name)))).Up(within(t, soon))
			require.NoError(t, err)
			require.Len(t, results, 2)
		})
	}
}

// losing returns a database whose first statement loses the lock, and lasts until the holder
// notices that. Further ones take their time.
func losing(t *testing.T, client *redlock.Client) *fakeDatabase {
	d := &fakeDatabase{}
	d.execute = func(context.Context, string) error {
		if len(d.events()) > 1 {
			time.Sleep(10 * time.Millisecond)
			return nil
		}
		loseLock(t, client)
		require.Eventually(t, func() bool { return client.Stats().Lost == 1 }, soon, 10*time.Millisecond)
		return nil
	}
	return d
}

func TestTheSessionLockerStopsGooseBehindTheMigrationThatLostTheLock(t *testing.T) {
	t.Parallel()
	client := open(t, redlocktest.Start(t, 3))
	d := losing(t, client)
	many := fstest.MapFS{}
	for i := range 500 {
		many[fmt.Sprintf("%d_some.sql", i+1)] = &fstest.MapFile{Data: []byte("-- +goose Up\none;\n")}
	}
	p, err := newProvider(d, many, goose.WithSessionLocker(redlockmigrate.GooseSessionLocker(client.Mutex(name))))
	require.NoError(t, err)
	defer p.Close()
	_, err = p.Up(within(t, soon))
	require.ErrorIs(t, err, redlock.ErrLost)
	require.ErrorIs(t, err, sql.ErrConnDone)
	require.Less(t, len(d.events()), 3*len(many))
	require.Equal(t, "COMMIT", d.events()[len(d.events())-1], "the migration under way ends as usual")
}

func TestTheLockerOfADatabaseReportsTheLossAtTheEnd(t *testing.T) {
	t.Parallel()
	client := open(t, redlocktest.Start(t, 3))
	d := losing(t, client)
	_, err := provider(t, d, goose.WithLocker(redlockmigrate.GooseLocker(client.Mutex(name)))).Up(within(t, soon))
	require.ErrorIs(t, err, redlock.ErrLost)
	require.Contains(t, d.events(), "four;")
}

// What the docs recommend for goose: Do cancels the statement under way.
func TestDoStopsGooseInTheMidstOfAMigration(t *testing.T) {
	t.Parallel()
	client := open(t, redlocktest.Start(t, 3))
	d := &fakeDatabase{execute: func(ctx context.Context, _ string) error {
		loseLock(t, client)
		<-ctx.Done()
		return ctx.Err()
	}}
	p := provider(t, d)
	err := client.Mutex(name).Do(within(t, soon), func(ctx context.Context, _ *redlock.Lease) error {
		_, err := p.Up(ctx)
		return err
	})
	require.ErrorIs(t, err, redlock.ErrLost)
	require.ErrorIs(t, err, context.Canceled)
	require.Equal(t, []string{"BEGIN", "ROLLBACK"}, d.events()[:2])
	require.NotContains(t, d.events(), "three;")
}
