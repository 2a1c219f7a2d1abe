package fence

import (
	"context"
	"database/sql"
	"fmt"
)

// Execer is a *sql.DB, *sql.Tx or *sql.Conn.
type Execer interface {
	ExecContext(ctx context.Context, query string, args ...any) (sql.Result, error)
}

// Exec runs an UPDATE that changes a row only if no greater token wrote it before. The row
// keeps the token in a column, which is 0 at first:
//
//	ALTER TABLE accounts ADD COLUMN fence BIGINT NOT NULL DEFAULT 0;
//
// The statement sets the column and compares it, so the token is among its args, as an
// int64. The database does both in one step:
//
//	err := fence.Exec(ctx, db, "account 7", lease.Token(),
//		`UPDATE accounts SET balance = ?, fence = ? WHERE id = ? AND fence <= ?`,
//		balance, lease.Token(), 7, lease.Token())
//
// The resource's name is used in errors only. Placeholders are the driver's own.
//
// An INSERT for a row that may be missing works in the same way (this is PostgreSQL's and
// SQLite's form):
//
//	INSERT INTO accounts (id, balance, fence) VALUES (?, ?, ?)
//	ON CONFLICT (id) DO UPDATE SET balance = excluded.balance, fence = excluded.fence
//	WHERE accounts.fence <= excluded.fence
//
// To write several rows or tables under one lock, open a transaction, and begin it with Exec
// for the one row that represents the lock:
//
//	UPDATE fences SET fence = ? WHERE name = ? AND fence <= ?
//
// Until the transaction ends no other token can write that row; after an error roll it back.
// A row with a fence must not be deleted while a late write may create it again: mark it as
// deleted instead.
//
// # Readers and writers
//
// Where leases may be shared, the row keeps the greatest token that read, too:
//
//	ALTER TABLE accounts ADD COLUMN read_fence BIGINT NOT NULL DEFAULT 0;
//
// Every statement of a writer compares both columns, an INSERT for a conflicting row and the
// UPDATE of a row that represents a lock as well:
//
//	UPDATE accounts SET balance = ?, fence = ?
//	WHERE id = ? AND fence <= ? AND read_fence < ?
//
// A reader opens a transaction, and begins it with Exec for the statement that registers its
// token. Then it reads, and commits:
//
//	UPDATE accounts SET read_fence = CASE WHEN read_fence < ? THEN ? ELSE read_fence END
//	WHERE id = ? AND fence <= ?
//
// A reader must not use what it has read before the commit has succeeded: a read that was
// rolled back is not registered. Readers of one row wait for each other until their
// transactions end. A row that does not exist cannot register a read, and does not keep a
// late INSERT away: let a row that represents the lock do so.
//
// The holder of an exclusive lease that reads first, and writes what depends on it, registers
// its token as a writer's: it begins its transaction with
//
//	UPDATE accounts SET fence = ? WHERE id = ? AND fence <= ? AND read_fence < ?
//
// # Errors
//
// ErrStale (a *StaleError) when no row was affected. Then the row has a greater token, or a
// reader's that is not smaller than a writer's, or there is no such row: an UPDATE cannot
// distinguish these, but a SELECT can. ErrUnfenced, without asking the database, for a token
// of 0 or less, or one that is not among args. Else the driver's error, and ctx's cause if ctx has ended, such
// as redlock.ErrLost: then the row may or may not have been written, as without a fence.
//
// MySQL counts rows that an UPDATE found but did not change as not affected, so a repeated
// write or read looks stale: connect with clientFoundRows=true (the name in
// go-sql-driver/mysql).
func Exec(ctx context.Context, db Execer, resource string, token int64, query string, args ...any) error {
	if err := requireToken(resource, "write", token); err != nil {
		return err
	}
	if !contains(args, token) {
		return fmt.Errorf("fence: %q: the write is %w: token %d is not among the statement's args, as an int64", resource, ErrUnfenced, token)
	}
	result, err := db.ExecContext(ctx, query, args...)
	if err != nil {
		return failed(ctx, resource, err)
	}
	switch rows, err := result.RowsAffected(); {
	case err != nil:
		return fmt.Errorf("fence: %q: the database does not report whether the row was written: %w", resource, err)
	case rows == 0:
		return &StaleError{Resource: resource, Token: token}
	}
	return nil
}

// contains reports whether the token is among the args. It cannot check whether the
// statement compares the token, but it finds a token that is missing, or another lease's.
func contains(args []any, token int64) bool {
	for _, arg := range args {
		if named, ok := arg.(sql.NamedArg); ok {
			arg = named.Value
		}
		if value, ok := arg.(int64); ok && value == token {
			return true
		}
	}
	return false
}
