package programs

import (
	"database/sql"
	"fmt"
	"path/filepath"
	"strings"
	"testing"

	migratesqlite "github.com/golang-migrate/migrate/v4/database/sqlite"
	"github.com/pressly/goose/v3"
	goosedatabase "github.com/pressly/goose/v3/database"
	"github.com/stretchr/testify/require"

	"github.com/redlock-go/redlock"
	"github.com/redlock-go/redlock/integration/cluster"
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
