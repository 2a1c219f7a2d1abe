package integration

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"

	_ "modernc.org/sqlite" // the driver "sqlite"

	"github.com/redlock-go/redlock"
	"github.com/redlock-go/redlock/fence"
	"github.com/redlock-go/redlock/integration/chaos"
)

// counter is a number in a file that only the lock protects: its clients are not paused on
// purpose. They check the lease before they write, and again after it: if the write took too
// long, which no lock can prevent, they log it as late.
type counter struct{ dir string }

func openCounter(dir string) (place, error) { return counter{dir}, nil }

func (c counter) close() error { return nil }

func (c counter) works() int { return 40 }

func (c counter) file(lock string) string { return filepath.Join(c.dir, lock) }

func (c counter) read(lease *redlock.Lease, op *chaos.Op) (bool, error) {
	value, err := c.value(op.Name)
	if err != nil || !lease.Valid() {
		return false, err
	}
	op.Kind, op.Value = chaos.Read, value
	return true, nil
}

func (c counter) value(lock string) (int64, error) {
	text, err := os.ReadFile(c.file(lock))
	if err != nil {
		return 0, err
	}
	return strconv.ParseInt(strings.TrimSpace(string(text)), 10, 64)
}

func (c counter) write(lease *redlock.Lease, op *chaos.Op) (bool, error) {
	file, err := os.OpenFile(c.file(op.Name), os.O_WRONLY, 0)
	if err != nil {
		return false, err
	}
	if lease.Valid() {
		err = writeNumber(file, op.Value)
		op.Kind = chaos.Write
		if !lease.Valid() {
			op.Kind = chaos.Late
		}
	}
	return true, errors.Join(err, file.Close())
}

// writeNumber overwrites the number in one piece: it is never seen half written.
func writeNumber(file *os.File, n int64) error {
	_, err := file.WriteAt(fmt.Appendf(nil, "%20d\n", n), 0)
	return err
}

func (c counter) create(lock string) error {
	file, err := os.Create(c.file(lock))
	if err != nil {
		return err
	}
	return errors.Join(writeNumber(file, 0), file.Close())
}

// register is a number in a database, with a fence of two tokens. Reads go past the fence too:
// otherwise an older lease could write between a newer one's read and its write, or while a
// reader holds the lock. A lease that holds the lock alone reads as a writer. Its clients do not
// check whether the lease is valid: they are paused and killed, and rely on the fence.
//
// The journal has the committed operations: a killed client may not have logged them.
type register struct{ db *sql.DB }

const (
	registerSchema = `
		CREATE TABLE registers (lock TEXT PRIMARY KEY, value INTEGER NOT NULL DEFAULT 0,
			fence INTEGER NOT NULL DEFAULT 0, read_fence INTEGER NOT NULL DEFAULT 0);
		CREATE TABLE journal (kind TEXT, lock TEXT, owner TEXT, shared INTEGER, token INTEGER, value INTEGER, call INTEGER);`
	registerRead = "UPDATE registers SET read_fence = max(read_fence, @token) WHERE lock = @lock AND fence <= @token"
	passFence    = "UPDATE registers SET fence = @token WHERE lock = @lock AND fence <= @token AND read_fence < @token"
	setValue     = "UPDATE registers SET value = @value, fence = @token WHERE lock = @lock AND fence <= @token AND read_fence < @token"
)

func openRegister(dir string) (place, error) { return connectRegister(dir) }

func connectRegister(dir string) (register, error) {
	// Paused clients may be in a transaction: others wait for them.
	file := filepath.ToSlash(filepath.Join(dir, "registers.db"))
	db, err := sql.Open("sqlite", "file:"+file+"?_txlock=immediate&_pragma=busy_timeout(30000)&_pragma=journal_mode(WAL)&_pragma=synchronous(OFF)")
	if err == nil {
		db.SetMaxOpenConns(1)
	}
	return register{db}, err
}

func (r register) close() error { return r.db.Close() }

// works is large, so that a client that is paused is mostly a holder.
func (r register) works() int { return 160 }

func (r register) read(_ *redlock.Lease, op *chaos.Op) (bool, error) {
	statement := passFence
	if op.Shared {
		statement = registerRead
	}
	return r.pass(op, chaos.FencedRead, chaos.StaleRead, statement)
}

func (r register) write(_ *redlock.Lease, op *chaos.Op) (bool, error) {
	return r.pass(op, chaos.FencedWrite, chaos.StaleWrite, setValue)
}

// pass runs a statement that passes the fence, unless its token is stale.
func (r register) pass(op *chaos.Op, passed, stale chaos.Kind, statement string) (bool, error) {
	ctx := context.Background()
	tx, err := r.db.BeginTx(ctx, nil)
	if err != nil {
		return false, err
	}
	defer tx.Rollback()
	err = fence.Exec(ctx, tx, op.Name, op.Token, statement,
		sql.Named("token", op.Token), sql.Named("lock", op.Name), sql.Named("value", op.Value))
	if errors.Is(err, fence.ErrStale) {
		op.Kind = stale
		return false, nil
	}
	if err != nil {
		return false, err
	}
	op.Kind = passed
	if err := tx.QueryRow("SELECT value FROM registers WHERE lock = ?", op.Name).Scan(&op.Value); err != nil {
		return false, err
	}
	if _, err := tx.Exec("INSERT INTO journal (kind, lock, owner, shared, token, value, call) VALUES (?, ?, ?, ?, ?, ?, ?)",
		op.Kind, op.Name, op.Owner, op.Shared, op.Token, op.Value, int64(op.Call)); err != nil {
		return false, err
	}
	return true, tx.Commit()
}

func (r register) create(lock string) error {
	_, err := r.db.Exec("INSERT INTO registers (lock) VALUES (?)", lock)
	return err
}

func (r register) value(lock string) (value int64, err error) {
	err = r.db.QueryRow("SELECT value FROM registers WHERE lock = ?", lock).Scan(&value)
	return value, err
}

// takeJournal empties the journal and returns what was in it.
func (r register) takeJournal() (ops []chaos.Op, err error) {
	rows, err := r.db.Query("DELETE FROM journal RETURNING kind, lock, owner, shared, token, value, call")
	if err != nil {
		return nil, err
	}
	defer rows.Close()
	for rows.Next() {
		var op chaos.Op
		if err := rows.Scan(&op.Kind, &op.Name, &op.Owner, &op.Shared, &op.Token, &op.Value, (*int64)(&op.Call)); err != nil {
			return nil, err
		}
		ops = append(ops, op)
	}
	return ops, rows.Err()
}
