package redlockmigrate_test

import (
	"errors"
	"io"
	"strings"
	"testing"
	"testing/fstest"
	"time"

	"github.com/golang-migrate/migrate/v4"
	"github.com/golang-migrate/migrate/v4/database"
	"github.com/golang-migrate/migrate/v4/database/stub"
	suite "github.com/golang-migrate/migrate/v4/database/testing"
	"github.com/golang-migrate/migrate/v4/source/iofs"
	"github.com/stretchr/testify/require"

	"github.com/redlock-go/redlock"
	"github.com/redlock-go/redlock/adapters/redlockmigrate"
	"github.com/redlock-go/redlock/redlocktest"
)

// fakeDriver is golang-migrate's own driver for tests, with hooks.
type fakeDriver struct {
	*stub.Stub
	run       func() // called by each Run; may be nil
	locking   func() // called by each Lock; may be nil
	unlocking func() // called by each Unlock; may be nil
	lockErr   error  // what Lock returns
}

func newFakeDriver() *fakeDriver {
	return &fakeDriver{Stub: &stub.Stub{CurrentVersion: database.NilVersion}}
}

func (d *fakeDriver) Lock() error {
	if d.locking != nil {
		d.locking()
	}
	if d.lockErr != nil {
		return d.lockErr
	}
	return d.Stub.Lock()
}

func (d *fakeDriver) Unlock() error {
	if d.unlocking != nil {
		d.unlocking()
	}
	return d.Stub.Unlock()
}

func (d *fakeDriver) Run(migration io.Reader) error {
	if d.run != nil {
		d.run()
	}
	return d.Stub.Run(migration)
}

// newMigrate makes a migrate.Migrate with two migrations.
func newMigrate(t *testing.T, d database.Driver) *migrate.Migrate {
	t.Helper()
	files, err := iofs.New(fstest.MapFS{
		"1_first.up.sql":  {Data: []byte("one")},
		"2_second.up.sql": {Data: []byte("two")},
	}, ".")
	require.NoError(t, err)
	m, err := migrate.NewWithInstance("files", files, "stub", d)
	require.NoError(t, err)
	t.Cleanup(func() { _, _ = m.Close() })
	return m
}

func TestGolangMigrateMigratesUnderTheLock(t *testing.T) {
	t.Parallel()
	client := open(t, redlocktest.Start(t, 3))
	d := newFakeDriver()
	held := 0
	d.run = func() {
		status, err := client.Inspect(t.Context(), name)
		require.NoError(t, err)
		if status.Holder != "" {
			held++
		}
	}
	m := newMigrate(t, redlockmigrate.Driver(d, client.Mutex(name)))
	require.NoError(t, m.Up())
	require.ErrorIs(t, m.Up(), migrate.ErrNoChange)
	require.Equal(t, 2, held)
	require.Equal(t, []string{"one", "two"}, d.MigrationSequence)
	status, err := client.Inspect(t.Context(), name)
	require.NoError(t, err)
	require.Empty(t, status.Holder)
}

// The suite's Test calls all in this order, but runs statements without the lock.
func TestTheDriverPassesGolangMigratesTestsWithTheLock(t *testing.T) {
	t.Parallel()
	inner := newFakeDriver()
	d := redlockmigrate.Driver(inner, open(t, redlocktest.Start(t, 3)).Mutex(name))
	suite.TestNilVersion(t, d)
	suite.TestLockAndUnlock(t, d)
	require.NoError(t, d.Lock())
	require.ErrorIs(t, d.Lock(), database.ErrLocked)
	suite.TestRun(t, d, strings.NewReader("one"))
	require.Equal(t, []string{"one"}, inner.MigrationSequence)
	suite.TestSetVersion(t, d)
	suite.TestDrop(t, d)
	require.NoError(t, d.Unlock())
	require.NoError(t, d.Close())
}

func TestOneGolangMigrateRunsAtATime(t *testing.T) {
	t.Parallel()
	nodes := redlocktest.Start(t, 3)
	a, b := open(t, nodes), open(t, nodes)
	second := newMigrate(t, redlockmigrate.Driver(newFakeDriver(), b.Mutex(name)))
	d, done := newFakeDriver(), make(chan error, 1)
	d.run = func() {
		if len(d.MigrationSequence) == 0 {
			go func() { done <- second.Up() }()
			awaitQueue(t, a, 1)
		}
	}
	require.NoError(t, newMigrate(t, redlockmigrate.Driver(d, a.Mutex(name))).Up())
	require.NoError(t, <-done)
}

func TestLockGivesUpAndSaysWhoMigrates(t *testing.T) {
	t.Parallel()
	nodes := redlocktest.Start(t, 3)
	a, b := open(t, nodes), open(t, nodes)
	lease, err := a.Mutex(name, redlock.WithOwnerLabel("pod-1")).Lock(within(t, soon))
	require.NoError(t, err)
	defer func() { require.NoError(t, lease.Unlock(t.Context())) }()
	d := redlockmigrate.Driver(newFakeDriver(), b.Mutex(name), redlockmigrate.WithLockTimeout(time.Second))
	err = newMigrate(t, d).Up()
	require.ErrorIs(t, err, database.ErrLocked)
	require.ErrorContains(t, err, "pod-1")
	require.ErrorContains(t, err, "WithLockTimeout")
}

func TestStatementsNeedTheLock(t *testing.T) {
	t.Parallel()
	inner := newFakeDriver()
	d := redlockmigrate.Driver(inner, open(t, redlocktest.Start(t, 1)).Mutex(name))
	for op, err := range map[string]error{"run": d.Run(nil), "set the version": d.SetVersion(1, false), "drop": d.Drop()} {
		require.ErrorIs(t, err, database.ErrNotLocked, op)
		require.EqualError(t, err, "redlockmigrate: "+op+": nothing was executed, since the driver is not locked: "+
			"call its Lock before, and Unlock behind; a migrate.Migrate does both")
	}
	require.ErrorIs(t, d.Unlock(), database.ErrNotLocked)
	require.Empty(t, inner.MigrationSequence)
	_, _, err := d.Version()
	require.NoError(t, err)
}

func TestTheDriverRefusesFurtherStatementsWhenTheLockIsLost(t *testing.T) {
	t.Parallel()
	client := open(t, redlocktest.Start(t, 3))
	inner := newFakeDriver()
	inner.run = func() {
		loseLock(t, client)
		require.Eventually(t, func() bool { return client.Stats().Lost == 1 }, soon, 10*time.Millisecond)
	}
	d := redlockmigrate.Driver(inner, client.Mutex(name))
	err := newMigrate(t, d).Up()
	require.ErrorIs(t, err, redlock.ErrLost)
	require.ErrorContains(t, err, "it was executed")
	require.Equal(t, []string{"one"}, inner.MigrationSequence, "the statement under way goes on, the next does not run")
	require.True(t, inner.IsDirty)
	require.NoError(t, inner.Stub.Lock(), "the driver's own lock is not released")

	inner = newFakeDriver()
	d = redlockmigrate.Driver(inner, client.Mutex(name))
	require.NoError(t, d.Lock())
	loseLock(t, client)
	require.Eventually(t, func() bool { return client.Stats().Lost == 2 }, soon, 10*time.Millisecond)
	require.ErrorIs(t, d.Run(nil), redlock.ErrLost)
	require.ErrorIs(t, d.SetVersion(1, true), redlock.ErrLost)
	require.ErrorIs(t, d.Drop(), redlock.ErrLost)
	require.Empty(t, inner.MigrationSequence)
	require.False(t, inner.IsDirty)
	require.ErrorIs(t, d.Unlock(), redlock.ErrLost)
	require.NoError(t, d.Lock(), "the lost lease is in the way")
	require.NoError(t, d.Unlock())
}

// Else the second one could record that nobody holds the lock when the next Lock has got it, and nobody would release that.
func TestOneOfTwoUnlocksReleasesTheLock(t *testing.T) {
	t.Parallel()
	inner := newFakeDriver()
	d := redlockmigrate.Driver(inner, open(t, redlocktest.Start(t, 3)).Mutex(name))
	unlocks := 0
	inner.unlocking = func() {
		if unlocks++; unlocks == 1 {
			require.ErrorIs(t, d.Unlock(), database.ErrNotLocked)
			require.ErrorIs(t, d.Lock(), database.ErrLocked, "the first one is under way")
		}
	}
	require.NoError(t, d.Lock())
	require.NoError(t, d.Unlock())
	require.Equal(t, 1, unlocks)
	require.NoError(t, d.Lock())
	require.NoError(t, d.Unlock())
}

// The migrations were made under the lock. An error would say otherwise, and the Migrate would lock no more.
func TestAReleaseThatTooFewNodesConfirmIsNoErrorOfGolangMigrate(t *testing.T) {
	t.Parallel()
	nodes := redlocktest.Start(t, 3)
	d := newFakeDriver()
	d.run = func() { nodes.Stop(0); nodes.Stop(1) }
	m := newMigrate(t, redlockmigrate.Driver(d, open(t, nodes).Mutex(name)))
	require.NoError(t, m.Up())
	require.NoError(t, nodes.Start(0))
	require.NoError(t, nodes.Start(1))
	require.ErrorIs(t, m.Up(), migrate.ErrNoChange)
}

func TestLockReleasesTheLockIfTheDriversOwnFails(t *testing.T) {
	t.Parallel()
	client := open(t, redlocktest.Start(t, 3))
	inner := newFakeDriver()
	inner.lockErr = errors.New("no such table")
	d := redlockmigrate.Driver(inner, client.Mutex(name))
	require.ErrorIs(t, d.Lock(), inner.lockErr)
	lease, err := client.Mutex(name).TryLock(t.Context())
	require.NoError(t, err)
	require.NoError(t, lease.Unlock(t.Context()))
	inner.lockErr = nil
	require.NoError(t, d.Lock())
	require.NoError(t, d.Unlock())
}

// golang-migrate may have given up a Lock that is granted later.
func TestCloseEndsALockThatWaitsAndReleasesOneThatIsHeld(t *testing.T) {
	t.Parallel()
	nodes := redlocktest.Start(t, 3)
	a, b := open(t, nodes), open(t, nodes)
	holder := redlockmigrate.Driver(newFakeDriver(), a.Mutex(name))
	require.NoError(t, holder.Lock())
	waiter, ended := redlockmigrate.Driver(newFakeDriver(), b.Mutex(name)), make(chan error, 1)
	go func() { ended <- waiter.Lock() }()
	awaitQueue(t, a, 1)
	require.NoError(t, waiter.Close())
	require.ErrorContains(t, <-ended, "the driver is closed")
	require.NoError(t, holder.Close())
	require.ErrorIs(t, holder.Run(nil), redlock.ErrReleased)
	require.ErrorContains(t, holder.Lock(), "the driver is closed")
	last := redlockmigrate.Driver(newFakeDriver(), b.Mutex(name))
	require.NoError(t, last.Lock())
	require.NoError(t, last.Unlock())
}

func TestCloseReleasesALockThatIsGrantedMeanwhile(t *testing.T) {
	t.Parallel()
	client := open(t, redlocktest.Start(t, 3))
	inner := newFakeDriver()
	d := redlockmigrate.Driver(inner, client.Mutex(name))
	inner.locking = func() { require.NoError(t, d.Close()) }
	require.ErrorContains(t, d.Lock(), "the driver is closed")
	require.ErrorIs(t, d.Run(nil), database.ErrNotLocked)
	lease, err := client.Mutex(name).TryLock(t.Context())
	require.NoError(t, err)
	require.NoError(t, lease.Unlock(t.Context()))
}

// golang-migrate cannot end a Lock that it gives up.
func TestLockGivesUpBeforeGolangMigrateDoes(t *testing.T) {
	require.Less(t, redlockmigrate.DefaultLockTimeout, migrate.DefaultLockTimeout)
}

func TestOpenedDriversHaveTheLockToo(t *testing.T) {
	t.Parallel()
	nodes := redlocktest.Start(t, 3)
	a, b := open(t, nodes), open(t, nodes)
	d, err := redlockmigrate.Driver(newFakeDriver(), b.Mutex(name), redlockmigrate.WithLockTimeout(1500*time.Millisecond)).Open("stub://")
	require.NoError(t, err)
	holder := redlockmigrate.Driver(newFakeDriver(), a.Mutex(name))
	require.NoError(t, holder.Lock())
	err = d.Lock()
	require.ErrorIs(t, err, database.ErrLocked)
	require.ErrorContains(t, err, "1.5s")
	require.NoError(t, holder.Unlock())
	require.NoError(t, d.Lock())
	require.NoError(t, d.Unlock())
}

func TestLockReportsBadSettings(t *testing.T) {
	t.Parallel()
	client := open(t, redlocktest.Start(t, 1))
	none := redlockmigrate.Driver(nil, client.Mutex(name))
	require.ErrorIs(t, none.Lock(), redlock.ErrConfig)
	require.NoError(t, none.Close())
	_, err := none.Open("stub://")
	require.ErrorIs(t, err, redlock.ErrConfig)
	require.ErrorIs(t, redlockmigrate.Driver(newFakeDriver(), nil).Lock(), redlock.ErrConfig)
	require.ErrorIs(t, redlockmigrate.Driver(newFakeDriver(), client.Mutex("")).Lock(), redlock.ErrConfig)
	require.ErrorIs(t, redlockmigrate.Driver(newFakeDriver(), client.Mutex(name), redlockmigrate.WithLockTimeout(0)).Lock(), redlock.ErrConfig)
}
