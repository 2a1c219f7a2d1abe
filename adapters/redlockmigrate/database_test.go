package redlockmigrate_test

import (
	"context"
	"database/sql"
	"database/sql/driver"
	"io/fs"
	"slices"
	"sync"
	"testing/fstest"

	"github.com/pressly/goose/v3"
	"github.com/pressly/goose/v3/lock"
)

// fakeDatabase is a database for package sql that records what it is told to do.
type fakeDatabase struct {
	execute func(ctx context.Context, statement string) error // called for each statement; may be nil

	mu  sync.Mutex
	log []string
}

func (d *fakeDatabase) record(event string) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.log = append(d.log, event)
}

// events returns what the database was told to do so far.
func (d *fakeDatabase) events() []string {
	d.mu.Lock()
	defer d.mu.Unlock()
	return slices.Clone(d.log)
}

func (d *fakeDatabase) Connect(context.Context) (driver.Conn, error) { return fakeConn{d}, nil }
func (d *fakeDatabase) Driver() driver.Driver                        { return nil }

type fakeConn struct{ database *fakeDatabase }

func (c fakeConn) Prepare(string) (driver.Stmt, error) { return nil, driver.ErrSkip }

func (c fakeConn) Begin() (driver.Tx, error) {
	c.database.record("BEGIN")
	return fakeTx(c), nil
}

func (c fakeConn) ExecContext(ctx context.Context, statement string, _ []driver.NamedValue) (driver.Result, error) {
	if c.database.execute != nil {
		if err := c.database.execute(ctx, statement); err != nil {
			return nil, err
		}
	}
	c.database.record(statement)
	return driver.ResultNoRows, nil
}

func (c fakeConn) Close() error {
	c.database.record("CLOSE")
	return nil
}

type fakeTx struct{ database *fakeDatabase }

func (t fakeTx) Commit() error {
	t.database.record("COMMIT")
	return nil
}

func (t fakeTx) Rollback() error {
	t.database.record("ROLLBACK")
	return nil
}

// migrations are two migrations of two statements each.
func migrations() fs.FS {
	return fstest.MapFS{
		"1_first.sql":  {Data: []byte("-- +goose Up\none;\ntwo;\n")},
		"2_second.sql": {Data: []byte("-- +goose Up\nthree;\nfour;\n")},
	}
}

// newProvider makes a goose Provider that keeps no versions, since a fakeDatabase keeps nothing.
func newProvider(d *fakeDatabase, files fs.FS, opts ...goose.ProviderOption) (*goose.Provider, error) {
	opts = append(opts, goose.WithDisableVersioning(true))
	return goose.NewProvider(goose.DialectSQLite3, sql.OpenDB(d), files, opts...)
}

func withLocker(l any) goose.ProviderOption {
	if session, ok := l.(lock.SessionLocker); ok {
		return goose.WithSessionLocker(session)
	}
	return goose.WithLocker(l.(lock.Locker))
}
