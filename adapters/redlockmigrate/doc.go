// Package redlockmigrate lets one process at a time migrate a database, on any database: goose
// has locks of its own for two kinds of databases only, and many drivers of golang-migrate lock
// within their process only.
//
//	provider, err := goose.NewProvider(dialect, db, files,
//		goose.WithSessionLocker(redlockmigrate.GooseSessionLocker(client.Mutex("migrate orders"))))
//
//	driver := redlockmigrate.Driver(driver, client.Mutex("migrate orders"))
//	migrations, err := migrate.NewWithInstance("files", source, "orders", driver)
//
// All processes that migrate one database must lock the same name at the masters of one list.
// The leases renew themselves while a migration runs, however long that takes.
//
// # When the lock is lost
//
// A lease is lost if a majority of the masters is down for longer than a ttl, or the machine is
// suspended. Then another process may begin to migrate. What this process still does depends on
// how it locks:
//
//   - Driver refuses every further statement. The one under way goes on: golang-migrate has no
//     way to stop it.
//   - GooseSessionLocker takes goose's connection away: goose begins no further statement or
//     transaction on it. A transaction under way goes on to its end; goose has a transaction
//     for each migration, unless the migration says NO TRANSACTION.
//   - GooseLocker has no connection to take away: goose goes on, and its call returns the
//     loss when it ends.
//   - A goose Provider that runs within Mutex.Do, without a locker, stops at once: the context of
//     Do ends, which cancels the statement under way and rolls its transaction back.
//
// The package's one goroutine watches the lease of a GooseSessionLocker, from SessionLock until
// SessionUnlock.
package redlockmigrate
