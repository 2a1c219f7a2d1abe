package programs

import (
	"context"
	"database/sql"
	"database/sql/driver"
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"testing/fstest"
	"time"

	"github.com/golang-migrate/migrate/v4"
	"github.com/golang-migrate/migrate/v4/database"
	migratesqlite "github.com/golang-migrate/migrate/v4/database/sqlite"
	"github.com/golang-migrate/migrate/v4/source/iofs"
	"github.com/pressly/goose/v3"
	goosedatabase "github.com/pressly/goose/v3/database"
	"github.com/stretchr/testify/require"
	"modernc.org/sqlite"

	"github.com/redlock-go/redlock"
	"github.com/redlock-go/redlock/adapters/redlockmigrate"
	"github.com/redlock-go/redlock/integration/cluster"
	"github.com/redlock-go/redlock/internal/test/testclient"
)

// migrators are processes that migrate one database.
type migrators struct {
	*fleet
	client *redlock.Client
	db     *sql.DB
}

// startMigrators starts four processes over five masters, which begin to migrate at once.
func startMigrators(t *testing.T, program string) *migrators {
	t.Helper()
	file := filepath.Join(t.TempDir(), "shop.db")
	db, err := openDatabase(file)
	require.NoError(t, err)
	t.Cleanup(func() { require.NoError(t, db.Close()) })
	createTables(t, db)
	nodes := cluster.Use(t, 5)
	m := &migrators{client: openClient(t, nodes), db: db}
	m.fleet = startFleet(t, 4, "migrations", program, strings.Join(nodes.URLs(), ","), file)
	m.sayAll(t, "go")
	return m
}

// createTables makes the table that the migrations fill, and those of the programs' versions. Both programs
// make theirs before they lock: a process that is late would wait for the transaction of the
// first one's migration, and not for the lock.
func createTables(t *testing.T, db *sql.DB) {
	t.Helper()
	_, err := db.Exec("CREATE TABLE applied (version INTEGER)")
	require.NoError(t, err)
	_, err = migratesqlite.WithInstance(db, &migratesqlite.Config{})
	require.NoError(t, err)
	store, err := goosedatabase.NewStore(goosedatabase.DialectSQLite3, goose.DefaultTablename)
	require.NoError(t, err)
	require.NoError(t, store.CreateVersionTable(t.Context(), db))
	require.NoError(t, store.Insert(t.Context(), db, goosedatabase.InsertRequest{Version: 0})) // no migration yet
}

// versions returns the versions whose migrations were applied, in their order.
func (m *migrators) versions(t *testing.T) (all []int) {
	t.Helper()
	rows, err := m.db.Query("SELECT version FROM applied ORDER BY rowid")
	require.NoError(t, err)
	defer rows.Close()
	for rows.Next() {
		var version int
		require.NoError(t, rows.Scan(&version))
		all = append(all, version)
	}
	require.NoError(t, rows.Err())
	return all
}

// finish lets n processes do what they ask for, until they end. It returns what they say last.
func (m *migrators) finish(t *testing.T, n int) (last []string) {
	t.Helper()
	for len(last) < n {
		e := m.next(t)
		switch word, _, _ := strings.Cut(e.line, " "); word {
		case "reads", "applies":
			e.from.say(t, "do")
		case "stops": // it ends, and Do with it
		default:
			last = append(last, e.line)
		}
	}
	return last
}

// allOnce are the versions of all migrations, each once.
var allOnce = []int{1, 2, 3}

func TestOneOfFourProcessesMigrates(t *testing.T) {
	t.Parallel()
	for _, program := range []string{"goose with a session locker", "golang-migrate", "goose with a locker", "goose within Do"} {
		t.Run(program, func(t *testing.T) {
			t.Parallel()
			if program != "golang-migrate" && program != "goose with a session locker" {
				notInShort(t)
			}
			m := startMigrators(t, program)
			first := m.expect(t, "reads")
			awaitQueue(t, m.client, migrateLock, 3)
			first.from.say(t, "do")
			last := m.finish(t, 4)
			require.ElementsMatch(t, []string{"migrated 3", "migrated 0", "migrated 0", "migrated 0"}, last)
			require.Equal(t, allOnce, m.versions(t))
		})
	}
}

// The twins of the test above. SQLite's own locks keep the processes from writing at the same
// time, but not from applying what another process has applied since they read the versions.
func TestWithoutALockMigrationsAreAppliedSeveralTimes(t *testing.T) {
	t.Parallel()
	for _, program := range []string{"goose without a lock", "golang-migrate without a lock"} {
		t.Run(program, func(t *testing.T) {
			t.Parallel()
			m := startMigrators(t, program)
			for range m.workers {
				m.expect(t, "reads")
			}
			m.sayAll(t, "do")
			m.finish(t, 4)
			require.Greater(t, len(m.versions(t)), migrations)
		})
	}
}

func TestAnotherProcessMigratesAfterTheDeathOfTheFirst(t *testing.T) {
	t.Parallel()
	for _, program := range []string{"goose with a session locker", "golang-migrate", "goose within Do"} {
		t.Run(program, func(t *testing.T) {
			t.Parallel()
			if program != "golang-migrate" {
				notInShort(t)
			}
			m := startMigrators(t, program)
			first := m.expect(t, "reads").from
			first.say(t, "do")
			require.Equal(t, event{first, "applies 1"}, m.next(t))
			first.say(t, "do")
			require.Equal(t, event{first, "applies 2"}, m.next(t))
			awaitQueue(t, m.client, migrateLock, 3)
			first.kill(t)
			last := m.finish(t, 3)
			require.ElementsMatch(t, []string{"migrated 2", "migrated 0", "migrated 0"}, last)
			require.Equal(t, allOnce, m.versions(t))
		})
	}
}

// The lock is taken away while a migration runs. Do's context ends, and the migration is rolled
// back; the process that has the lock then applies it.
func TestALostLockRollsTheMigrationBack(t *testing.T) {
	notInShort(t)
	t.Parallel()
	m := startMigrators(t, "goose within Do")
	first := m.expect(t, "reads").from
	first.say(t, "do")
	for version := range 2 {
		require.Equal(t, event{first, fmt.Sprintf("applies %d", version+1)}, m.next(t))
		if version == 0 {
			first.say(t, "do")
		}
	}
	awaitQueue(t, m.client, migrateLock, 3)
	_, err := m.client.ForceUnlock(t.Context(), migrateLock)
	require.NoError(t, err)
	stopped := false
	for !stopped {
		e := m.next(t)
		if stopped = e.line == "stops"; stopped {
			require.Equal(t, first, e.from)
		} else {
			require.Equal(t, "reads", e.line) // the next process
		}
		e.from.say(t, "do")
	}
	last := m.finish(t, 4)
	require.Contains(t, strings.Join(last, "\n"), "is lost")
	require.Contains(t, last, "migrated 2")
	require.Equal(t, allOnce, m.versions(t))
}

const (
	migrateLock = "migrate shop"

	// migrations is how many there are. Each inserts a row with its version.
	migrations = 3

	// lockTimeout is longer than any test.
	lockTimeout = 2 * time.Minute
)

// migrationFiles returns the migrations, each in a file; the format's arguments are the statement.
func migrationFiles(name, format string) fs.FS {
	files := fstest.MapFS{}
	for version := 1; version <= migrations; version++ {
		statement := fmt.Sprintf("INSERT INTO applied (version) VALUES (report(%d));", version)
		files[fmt.Sprintf(name, version)] = &fstest.MapFile{Data: []byte(fmt.Sprintf(format, statement))}
	}
	return files
}

func gooseFiles() fs.FS   { return migrationFiles("%d_insert.sql", "-- +goose Up\n%s\n") }
func migrateFiles() fs.FS { return migrationFiles("%d_insert.up.sql", "%s") }

// openDatabase opens the file that all processes migrate. A process waits for SQLite's own locks
// for longer than any test.
func openDatabase(file string) (*sql.DB, error) {
	return sql.Open("sqlite", file+"?_pragma=busy_timeout(120000)")
}

// migrationJob is a process that migrates the database.
type migrationJob struct {
	test    *parent
	file    string
	lock    *redlock.Mutex
	applied atomic.Int64 // statements executed
}

// programs are the ways to migrate the database, with and without a lock.
var programs = map[string]func(*migrationJob) error{
	"goose with a session locker": func(j *migrationJob) error {
		return j.goose(context.Background(), goose.WithSessionLocker(redlockmigrate.GooseSessionLocker(j.lock)))
	},
	"goose with a locker": func(j *migrationJob) error {
		return j.goose(context.Background(), goose.WithLocker(redlockmigrate.GooseLocker(j.lock)))
	},
	"goose within Do": func(j *migrationJob) error {
		return j.lock.Do(context.Background(), func(ctx context.Context, _ *redlock.Lease) error {
			stop := context.AfterFunc(ctx, func() { j.test.say("stops") })
			defer stop()
			return j.goose(ctx)
		})
	},
	"goose without a lock": func(j *migrationJob) error { return j.goose(context.Background()) },
	"golang-migrate": func(j *migrationJob) error {
		return j.golangMigrate(func(d database.Driver) database.Driver {
			return redlockmigrate.Driver(d, j.lock, redlockmigrate.WithLockTimeout(lockTimeout))
		})
	},
	"golang-migrate without a lock": func(j *migrationJob) error {
		return j.golangMigrate(func(d database.Driver) database.Driver { return d })
	},
}

// migrateDatabase is the job of a process that migrates. args are one of the programs, the
// masters, and the database's file.
func migrateDatabase(args []string, test *parent) error {
	client, err := testclient.OpenInProcess(context.Background(), strings.Split(args[1], ","), options()...)
	if err != nil {
		return err
	}
	defer client.Close()
	j := &migrationJob{test: test, file: args[2], lock: client.Mutex(migrateLock)}
	if err := sqlite.RegisterScalarFunction("report", 1, j.report); err != nil {
		return err
	}
	if err := test.ask("ready"); err != nil {
		return err
	}
	if err := programs[args[0]](j); err != nil {
		return err
	}
	test.say("migrated %d", j.applied.Load())
	return nil
}

// report is a function for SQL: it asks the test before a migration is applied, and returns its
// argument, the version.
func (j *migrationJob) report(_ *sqlite.FunctionContext, args []driver.Value) (driver.Value, error) {
	if err := j.test.ask("applies %d", args[0]); err != nil {
		return nil, err
	}
	j.applied.Add(1)
	return args[0], nil
}

func (j *migrationJob) goose(ctx context.Context, opts ...goose.ProviderOption) error {
	db, err := openDatabase(j.file)
	if err != nil {
		return err
	}
	store, err := goosedatabase.NewStore(goosedatabase.DialectSQLite3, goose.DefaultTablename)
	if err != nil {
		return errors.Join(err, db.Close())
	}
	opts = append(opts, goose.WithStore(&reportingStore{Store: store, test: j.test}))
	provider, err := goose.NewProvider(goose.DialectCustom, db, gooseFiles(), opts...)
	if err != nil {
		return errors.Join(err, db.Close())
	}
	_, err = provider.Up(ctx)
	return errors.Join(err, provider.Close())
}

// reportingStore asks the test when goose has read which migrations are applied. It leaves the
// first time out: without the lock goose looks only whether it has anything to do.
type reportingStore struct {
	goosedatabase.Store
	test   *parent
	looked bool
}

func (s *reportingStore) ListMigrations(ctx context.Context, db goosedatabase.DBTxConn) ([]*goosedatabase.ListMigrationsResult, error) {
	applied, err := s.Store.ListMigrations(ctx, db)
	if !s.looked {
		s.looked = true
		return applied, err
	}
	return applied, errors.Join(err, s.test.ask("reads"))
}

func (j *migrationJob) golangMigrate(locked func(database.Driver) database.Driver) error {
	db, err := openDatabase(j.file)
	if err != nil {
		return err
	}
	inner, err := migratesqlite.WithInstance(db, &migratesqlite.Config{})
	if err != nil {
		return errors.Join(err, db.Close())
	}
	d := locked(inner)
	err = j.golangMigrateUp(reportingDriver{d, j.test})
	if dirty := (migrate.ErrDirty{}); errors.As(err, &dirty) {
		if err = repair(d); err == nil {
			err = j.golangMigrateUp(reportingDriver{d, j.test})
		}
	}
	return errors.Join(err, d.Close())
}

func (j *migrationJob) golangMigrateUp(d database.Driver) error {
	files, err := iofs.New(migrateFiles(), ".")
	if err != nil {
		return err
	}
	m, err := migrate.NewWithInstance("files", files, "sqlite", d)
	if err != nil {
		return err
	}
	m.LockTimeout = 2 * lockTimeout
	if err := m.Up(); !errors.Is(err, migrate.ErrNoChange) {
		return err
	}
	return nil
}

// repair sets back the version of a migration that a process did not complete, which SQLite has
// rolled back. Under the lock, so that processes that find the same do not disturb each other.
func repair(d database.Driver) error {
	if err := d.Lock(); err != nil {
		return err
	}
	version, dirty, err := d.Version()
	if err == nil && dirty {
		before := version - 1
		if before == 0 {
			before = database.NilVersion
		}
		err = d.SetVersion(before, false)
	}
	return errors.Join(err, d.Unlock())
}

// reportingDriver asks the test when golang-migrate has read the version.
type reportingDriver struct {
	database.Driver
	test *parent
}

func (d reportingDriver) Version() (int, bool, error) {
	version, dirty, err := d.Driver.Version()
	return version, dirty, errors.Join(err, d.test.ask("reads"))
}
