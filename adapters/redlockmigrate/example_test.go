package redlockmigrate_test

import (
	"context"
	"fmt"
	"log"
	"testing/fstest"
	"time"

	"github.com/golang-migrate/migrate/v4"
	"github.com/golang-migrate/migrate/v4/source/iofs"
	"github.com/pressly/goose/v3"

	"github.com/redlock-go/redlock"
	"github.com/redlock-go/redlock/adapters/redlockmigrate"
	"github.com/redlock-go/redlock/redlocktest"
)

// openClient stands for redlock.Open with the addresses of your masters: here they are
// embedded nodes.
func openClient() (client *redlock.Client, end func()) {
	nodes, err := redlocktest.New(3)
	if err != nil {
		log.Fatal(err)
	}
	client, err = redlock.Open(nodes.URLs(), redlock.WithRestartGuard(0), redlock.WithNodeTimeout(time.Second), redlock.WithTTL(20*time.Second))
	if err != nil {
		log.Fatal(err)
	}
	return client, func() { client.Close(); nodes.Close() }
}

// gooseUp migrates a database that stands for yours.
func gooseUp(ctx context.Context, opts ...goose.ProviderOption) error {
	provider, err := newProvider(&fakeDatabase{}, migrations(), opts...)
	if err != nil {
		return err
	}
	defer provider.Close()
	results, err := provider.Up(ctx)
	fmt.Println("migrations applied:", len(results))
	return err
}

func ExampleGooseSessionLocker() {
	client, end := openClient()
	defer end()
	locker := redlockmigrate.GooseSessionLocker(client.Mutex("migrate orders"))
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute) // bounds the wait too
	defer cancel()
	if err := gooseUp(ctx, goose.WithSessionLocker(locker)); err != nil {
		log.Fatal(err)
	}
	// Output: migrations applied: 2
}

func ExampleGooseLocker() {
	client, end := openClient()
	defer end()
	locker := redlockmigrate.GooseLocker(client.Mutex("migrate orders"))
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	if err := gooseUp(ctx, goose.WithLocker(locker)); err != nil {
		log.Fatal(err)
	}
	// Output: migrations applied: 2
}

// Without a locker, within Do: if the lock is lost, the statement under way is cancelled.
func Example_gooseWithinDo() {
	client, end := openClient()
	defer end()
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	err := client.Mutex("migrate orders").Do(ctx, func(ctx context.Context, _ *redlock.Lease) error {
		return gooseUp(ctx)
	})
	if err != nil {
		log.Fatal(err)
	}
	// Output: migrations applied: 2
}

func ExampleDriver() {
	client, end := openClient()
	defer end()
	files, err := iofs.New(fstest.MapFS{
		"1_orders.up.sql": {Data: []byte("CREATE TABLE orders (id INTEGER)")},
	}, ".")
	if err != nil {
		log.Fatal(err)
	}
	inner := newFakeDriver() // the driver of your database
	driver := redlockmigrate.Driver(inner, client.Mutex("migrate orders"), redlockmigrate.WithLockTimeout(10*time.Minute))
	migrations, err := migrate.NewWithInstance("files", files, "orders", driver)
	if err != nil {
		log.Fatal(err)
	}
	migrations.LockTimeout = 11 * time.Minute // longer than the driver's
	defer migrations.Close()
	if err := migrations.Up(); err != nil {
		log.Fatal(err)
	}
	fmt.Println(inner.MigrationSequence)
	// Output: [CREATE TABLE orders (id INTEGER)]
}

// A process that died in the midst of a migration leaves the database dirty. Where migrations run
// in transactions, the one that was interrupted is undone, and its version can be set back:
// under the lock, so that no other process does the same.
func ExampleDriver_dirty() {
	client, end := openClient()
	defer end()
	inner := newFakeDriver()
	inner.CurrentVersion, inner.IsDirty = 2, true
	driver := redlockmigrate.Driver(inner, client.Mutex("migrate orders"))

	if err := driver.Lock(); err != nil {
		log.Fatal(err)
	}
	version, dirty, err := driver.Version()
	if err == nil && dirty {
		err = driver.SetVersion(version-1, false)
	}
	if err != nil {
		log.Fatal(err)
	}
	if err := driver.Unlock(); err != nil {
		log.Fatal(err)
	}
	fmt.Println(inner.Version())
	// Output: 1 false <nil>
}

func ExampleWithLockTimeout() {
	client, end := openClient()
	defer end()
	driver := redlockmigrate.Driver(newFakeDriver(), client.Mutex("migrate orders"), redlockmigrate.WithLockTimeout(0))
	fmt.Println(driver.Lock())
	// Output: redlockmigrate: bad configuration: WithLockTimeout(0s): it must be more than 0
}
