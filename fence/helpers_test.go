package fence_test

import (
	"context"
	"database/sql"
	"database/sql/driver"
	"errors"
	"sync"
)

// books is a minimal database: it has one table of accounts, and knows one statement. The
// tests of Exec need no other; examples/fencing uses Exec with a real one.
type books struct {
	mu      sync.Mutex // protects what follows
	balance map[int64]int64
	fence   map[int64]int64
	down    error // the error of every statement
	mute    error // the error of RowsAffected
	asked   int
}

// update is the statement. Its args are named or in the order of their first use.
const update = `UPDATE accounts SET balance = $1, fence = $2 WHERE id = $3 AND fence <= $2`

// openBooks opens a database with one account, number 7, with a balance of 100.
func openBooks() (*sql.DB, *books) {
	b := &books{balance: map[int64]int64{7: 100}, fence: map[int64]int64{7: 0}}
	return sql.OpenDB(b), b
}

func (b *books) Connect(context.Context) (driver.Conn, error) { return bookConn{b}, nil }
func (b *books) Driver() driver.Driver                        { return nil }

type bookConn struct{ *books }

var errUnsupported = errors.New("these books know one statement only")

func (c bookConn) Prepare(string) (driver.Stmt, error) { return nil, errUnsupported }
func (c bookConn) Begin() (driver.Tx, error)           { return c, nil }
func (c bookConn) Commit() error                       { return nil }
func (c bookConn) Rollback() error                     { return nil }
func (c bookConn) Close() error                        { return nil }

// CheckNamedValue lets named args through.
func (c bookConn) CheckNamedValue(v *driver.NamedValue) (err error) {
	v.Value, err = driver.DefaultParameterConverter.ConvertValue(v.Value)
	return err
}

func (c bookConn) ExecContext(_ context.Context, query string, args []driver.NamedValue) (driver.Result, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.asked++
	switch {
	case c.down != nil:
		return nil, c.down
	case query != update:
		return nil, errUnsupported
	case c.mute != nil:
		return driver.ResultNoRows, nil
	}
	balance, fence, id := args[0].Value.(int64), args[1].Value.(int64), args[2].Value.(int64)
	if highest, ok := c.fence[id]; !ok || highest > fence {
		return driver.RowsAffected(0), nil
	}
	c.balance[id], c.fence[id] = balance, fence
	return driver.RowsAffected(1), nil
}
