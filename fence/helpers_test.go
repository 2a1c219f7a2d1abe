package fence_test

import (
	"context"
	"database/sql"
	"database/sql/driver"
	"errors"
	"io"
	"sync"
)

// books is a minimal database: it has one table of accounts, and knows four statements; a
// rollback undoes nothing. The tests of Exec need no other; examples/libraries/fencing uses Exec with a
// real one.
type books struct {
	mu        sync.Mutex // protects what follows
	balance   map[int64]int64
	fence     map[int64]int64
	readFence map[int64]int64
	down      error // the error of every statement
	mute      error // the error of RowsAffected
	asked     int
	meanwhile func() // called by every statement; may be nil
}

// The statements. Their args are named or in the order of their first use.
const (
	update              = `UPDATE accounts SET balance = $1, fence = $2 WHERE id = $3 AND fence <= $2`
	updateBesideReaders = update + ` AND read_fence < $2`
	registerRead        = `UPDATE accounts SET read_fence = CASE WHEN read_fence < $1 THEN $1 ELSE read_fence END WHERE id = $2 AND fence <= $1`
	selectBalance       = `SELECT balance FROM accounts WHERE id = $1`
)

// openBooks opens a database with one account, number 7, with a balance of 100.
func openBooks() (*sql.DB, *books) {
	b := &books{balance: map[int64]int64{7: 100}, fence: map[int64]int64{7: 0}, readFence: map[int64]int64{}}
	return sql.OpenDB(b), b
}

func (b *books) Connect(context.Context) (driver.Conn, error) { return bookConn{b}, nil }
func (b *books) Driver() driver.Driver                        { return nil }

type bookConn struct{ *books }

var errUnsupported = errors.New("these books do not know the statement")

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
	if c.meanwhile != nil {
		c.meanwhile()
	}
	switch {
	case c.down != nil:
		return nil, c.down
	case c.mute != nil:
		return driver.ResultNoRows, nil
	}
	arg := func(i int) int64 { return args[i].Value.(int64) }
	switch query {
	case update:
		return c.write(arg(0), arg(1), arg(2), false)
	case updateBesideReaders:
		return c.write(arg(0), arg(1), arg(2), true)
	case registerRead:
		return c.register(arg(0), arg(1))
	}
	return nil, errUnsupported
}

// write is for both statements of a writer. The caller holds c.mu, as for register.
func (c bookConn) write(balance, token, id int64, besideReaders bool) (driver.Result, error) {
	highest, ok := c.fence[id]
	if !ok || highest > token || besideReaders && c.readFence[id] >= token {
		return driver.RowsAffected(0), nil
	}
	c.balance[id], c.fence[id] = balance, token
	return driver.RowsAffected(1), nil
}

func (c bookConn) register(token, id int64) (driver.Result, error) {
	if highest, ok := c.fence[id]; !ok || highest > token {
		return driver.RowsAffected(0), nil
	}
	c.readFence[id] = max(c.readFence[id], token)
	return driver.RowsAffected(1), nil
}

func (c bookConn) QueryContext(_ context.Context, query string, args []driver.NamedValue) (driver.Rows, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if query != selectBalance {
		return nil, errUnsupported
	}
	balance, ok := c.balance[args[0].Value.(int64)]
	return &balanceRow{balance, !ok}, nil
}

// balanceRow is the answer of selectBalance.
type balanceRow struct {
	balance int64
	done    bool
}

func (r *balanceRow) Columns() []string { return []string{"balance"} }
func (r *balanceRow) Close() error      { return nil }

func (r *balanceRow) Next(dest []driver.Value) error {
	if r.done {
		return io.EOF
	}
	dest[0], r.done = r.balance, true
	return nil
}
