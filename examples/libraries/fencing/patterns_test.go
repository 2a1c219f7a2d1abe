package main

import (
	"database/sql"
	"path/filepath"
	"sync"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/redlock-go/redlock/fence"
)

// The statements in the documentation of package fence, run on a real database.

func TestFencedUpdateIsStaleForANewerOrMissingRow(t *testing.T) {
	db := openFile(t)
	set := func(id, balance, token int64) error {
		return fence.Exec(t.Context(), db, "account", token, fencedUpdate, balance, token, id, token)
	}
	require.NoError(t, set(account, 1, 33))
	require.NoError(t, set(account, 1, 33), "the same write again is not stale, though it alters nothing")
	require.NoError(t, set(account, 2, 40))
	require.ErrorIs(t, set(account, 3, 39), fence.ErrStale)
	require.ErrorIs(t, set(account, 3, 0), fence.ErrUnfenced)
	require.ErrorIs(t, set(account+1, 3, 41), fence.ErrStale, "there is no such row")
	requireAccount(t, db, 2, 40)
}

func TestAFencedInsertMakesTheRowOrRefuses(t *testing.T) {
	db := openFile(t)
	const insert = `
		INSERT INTO accounts (id, balance, fence) VALUES (?, ?, ?)
		ON CONFLICT (id) DO UPDATE SET balance = excluded.balance, fence = excluded.fence
		WHERE accounts.fence <= excluded.fence`
	put := func(balance, token int64) error {
		return fence.Exec(t.Context(), db, "account", token, insert, account, balance, token)
	}
	_, err := db.Exec("DELETE FROM accounts")
	require.NoError(t, err)
	require.NoError(t, put(1, 33))
	require.NoError(t, put(2, 40))
	require.ErrorIs(t, put(3, 39), fence.ErrStale)
	requireAccount(t, db, 2, 40)
}

func TestAFenceRowProtectsAWholeTransaction(t *testing.T) {
	db := openFile(t)
	_, err := db.Exec("CREATE TABLE fences (name TEXT PRIMARY KEY, fence INTEGER NOT NULL DEFAULT 0); INSERT INTO fences (name) VALUES ('accounts')")
	require.NoError(t, err)

	// work changes several rows after it has passed the fence.
	work := func(balance, token int64) error {
		tx, err := db.BeginTx(t.Context(), nil)
		require.NoError(t, err)
		defer tx.Rollback()
		err = fence.Exec(t.Context(), tx, "accounts", token,
			"UPDATE fences SET fence = @token WHERE name = 'accounts' AND fence <= @token", sql.Named("token", token))
		if err != nil {
			return err
		}
		_, err = tx.Exec(plainUpdate, balance, account)
		require.NoError(t, err)
		return tx.Commit()
	}
	require.NoError(t, work(1, 33))
	require.NoError(t, work(2, 40))
	require.ErrorIs(t, work(3, 39), fence.ErrStale)
	requireAccount(t, db, 2, 0)
}

func TestHighestTokenOfConcurrentWritersStays(t *testing.T) {
	db := openFile(t)
	var all sync.WaitGroup
	for token := int64(1); token <= 64; token++ {
		all.Go(func() {
			err := fence.Exec(t.Context(), db, "account", token, fencedUpdate, token, token, account, token)
			if err != nil {
				assert.ErrorIs(t, err, fence.ErrStale)
			}
		})
	}
	all.Wait()
	requireAccount(t, db, 64, 64)
}

// openFile opens a database in a file, which many connections share.
func openFile(t *testing.T) *sql.DB {
	db, err := sql.Open("sqlite", "file:"+filepath.ToSlash(filepath.Join(t.TempDir(), "books.db"))+"?_pragma=busy_timeout(10000)")
	require.NoError(t, err)
	t.Cleanup(func() { db.Close() })
	_, err = db.Exec(schema, account)
	require.NoError(t, err)
	return db
}

func requireAccount(t *testing.T, db *sql.DB, balance, fence int64) {
	t.Helper()
	var gotBalance, gotFence int64
	require.NoError(t, db.QueryRow("SELECT balance, fence FROM accounts WHERE id = ?", account).Scan(&gotBalance, &gotFence))
	require.Equal(t, balance, gotBalance)
	require.Equal(t, fence, gotFence)
}
