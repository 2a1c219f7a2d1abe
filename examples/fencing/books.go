package main

import (
	"context"
	"database/sql"

	_ "modernc.org/sqlite" // the driver "sqlite"

	"github.com/redlock-go/redlock/fence"
)

const (
	account  = 7
	lockName = "account-7"

	plainUpdate  = "UPDATE accounts SET balance = ? WHERE id = ?"
	fencedUpdate = "UPDATE accounts SET balance = ?, fence = ? WHERE id = ? AND fence <= ?"
)

const schema = `
	CREATE TABLE accounts (
		id      INTEGER PRIMARY KEY,
		balance INTEGER NOT NULL DEFAULT 0,
		fence   INTEGER NOT NULL DEFAULT 0);
	INSERT INTO accounts (id) VALUES (?)`

// books is the database that the lock protects.
type books struct{ db *sql.DB }

// openBooks makes a database with one account. It lives in memory, in its one
// connection.
func openBooks(ctx context.Context) (*books, error) {
	db, err := sql.Open("sqlite", ":memory:")
	if err != nil {
		return nil, err
	}
	db.SetMaxOpenConns(1)
	b := &books{db}
	if _, err := db.ExecContext(ctx, schema, account); err != nil {
		b.close()
		return nil, err
	}
	return b, nil
}

func (b *books) close() { b.db.Close() }

// reset sets the balance for another story. The fence stays: no token is ever
// forgotten.
func (b *books) reset(ctx context.Context) error { return b.write(ctx, opening, 0) }

func (b *books) read(ctx context.Context) (balance int64, err error) {
	err = b.db.QueryRowContext(ctx, "SELECT balance FROM accounts WHERE id = ?", account).Scan(&balance)
	return balance, err
}

// write relies on the caller to hold the lock.
func (b *books) write(ctx context.Context, balance, _ int64) error {
	_, err := b.db.ExecContext(ctx, plainUpdate, balance, account)
	return err
}

// writeFenced lets the database refuse a caller that does not hold the lock any more.
func (b *books) writeFenced(ctx context.Context, balance, token int64) error {
	return fence.Exec(ctx, b.db, lockName, token, fencedUpdate, balance, token, account, token)
}
