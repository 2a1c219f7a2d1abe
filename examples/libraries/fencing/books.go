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

	// For locks with readers too.
	updateBesideReaders = fencedUpdate + " AND read_fence < ?"
	registerRead        = "UPDATE accounts SET read_fence = CASE WHEN read_fence < ? THEN ? ELSE read_fence END" +
		" WHERE id = ? AND fence <= ?"

	selectBalance = "SELECT balance FROM accounts WHERE id = ?"
	newAccount    = "INSERT INTO accounts (id) VALUES (?)"
)

const schema = `
	CREATE TABLE accounts (
		id         INTEGER PRIMARY KEY,
		balance    INTEGER NOT NULL DEFAULT 0,
		fence      INTEGER NOT NULL DEFAULT 0,
		read_fence INTEGER NOT NULL DEFAULT 0);
	` + newAccount

// books is an account in the database, which a lock protects.
type books struct {
	db       *sql.DB
	account  int64
	lockName string
}

// openBooks makes a database with one account. It lives in memory, in its one
// connection.
func openBooks(ctx context.Context) (*books, error) {
	db, err := sql.Open("sqlite", ":memory:")
	if err != nil {
		return nil, err
	}
	db.SetMaxOpenConns(1)
	b := &books{db, account, lockName}
	if _, err := db.ExecContext(ctx, schema, account); err != nil {
		b.close()
		return nil, err
	}
	return b, nil
}

// openAccount adds an account with a lock of its own to the database.
func (b *books) openAccount(ctx context.Context, account int64, lockName string) (*books, error) {
	_, err := b.db.ExecContext(ctx, newAccount, account)
	return &books{b.db, account, lockName}, err
}

func (b *books) close() { b.db.Close() }

// reset sets the balance for another story. The fence stays: no token is ever
// forgotten.
func (b *books) reset(ctx context.Context) error { return b.write(ctx, opening, 0) }

func (b *books) read(ctx context.Context) (balance int64, err error) {
	err = b.db.QueryRowContext(ctx, selectBalance, b.account).Scan(&balance)
	return balance, err
}

// write relies on the caller to hold the lock.
func (b *books) write(ctx context.Context, balance, _ int64) error {
	_, err := b.db.ExecContext(ctx, plainUpdate, balance, b.account)
	return err
}

// writeFenced lets the database refuse a caller that does not hold the lock any more.
func (b *books) writeFenced(ctx context.Context, balance, token int64) error {
	return fence.Exec(ctx, b.db, b.lockName, token, fencedUpdate, balance, token, b.account, token)
}

// writeBesideReaders is writeFenced for a lock that readers share. The database refuses a
// writer also when a reader that came after it has read.
func (b *books) writeBesideReaders(ctx context.Context, balance, token int64) error {
	return fence.Exec(ctx, b.db, b.lockName, token, updateBesideReaders, balance, token, b.account, token, token)
}

// readRegistered reads for the holder of a shared lease. The balance may be used only if there
// is no error: without the commit the database does not know of the read.
func (b *books) readRegistered(ctx context.Context, token int64) (balance int64, err error) {
	tx, err := b.db.BeginTx(ctx, nil)
	if err != nil {
		return 0, err
	}
	defer tx.Rollback()
	if err := fence.Exec(ctx, tx, b.lockName, token, registerRead, token, token, b.account, token); err != nil {
		return 0, err
	}
	if err := tx.QueryRowContext(ctx, selectBalance, b.account).Scan(&balance); err != nil {
		return 0, err
	}
	return balance, tx.Commit()
}
