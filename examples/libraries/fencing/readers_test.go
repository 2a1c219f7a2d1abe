package main

import (
	"context"
	"database/sql"
	"strings"
	"sync"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/redlock-go/redlock/examples/internal/demo"
	"github.com/redlock-go/redlock/fence"
)

func TestReadersAreProtectedByTwoNumbersAndNotByOne(t *testing.T) {
	books, err := openBooks(t.Context())
	require.NoError(t, err)
	defer books.close()
	out := demo.Run(t, func(ctx context.Context, d *demo.Demo) error { return besideReaders(ctx, d, books) })
	t.Log("\n" + out)

	one, two, found := strings.Cut(out, "\nReaders, beside a fence of two numbers\n")
	require.True(t, found)
	assert.Contains(t, one, "\n    "+fencedUpdate+"\n")
	assert.Regexp(t, `(?s)Alice  locks alone.*Bob    .* reads 100\n.*Alice  wakes, and writes 100 \+ 50 = 150\n.*Bob    reads 150`, one)
	assert.Contains(t, one, "Bob read 100 and 150 under one lease, which is WRONG")

	assert.True(t, strings.HasPrefix(two, "    "+updateBesideReaders+"\n    "+registerRead+"\n"))
	assert.Regexp(t, `(?s)Bob    .* reads 100\n.*Alice  wakes, writes .*, and is refused.*Bob    reads 100.*Carol  .* writes 100 - 30 = 70\n.*Bob    wakes, reads, and is refused`, two)
	assert.Contains(t, two, "Bob read 100 and 100 under one lease, which is right")
	books.account = sharedAccount
	balance, err := books.read(t.Context())
	require.NoError(t, err)
	require.EqualValues(t, 70, balance, "Carol's")
}

// The statements for readers in the documentation of package fence, run on a real database.

func TestRegisteredReadRefusesWritersBeforeIt(t *testing.T) {
	b := &books{openFile(t), account, lockName}
	write := func(balance, token int64) error { return b.writeBesideReaders(t.Context(), balance, token) }
	requireRead := func(want, token int64) {
		t.Helper()
		balance, err := b.readRegistered(t.Context(), token)
		require.NoError(t, err)
		require.Equal(t, want, balance)
	}
	require.NoError(t, write(1, 33))
	require.NoError(t, write(1, 33), "one holder may write often")
	requireRead(1, 33)
	requireRead(1, 33)
	require.ErrorIs(t, write(2, 33), fence.ErrStale)

	requireRead(1, 40)
	requireRead(1, 39)
	require.ErrorIs(t, write(2, 40), fence.ErrStale, "an earlier reader does not hide a later one")
	require.NoError(t, write(2, 41))

	_, err := b.readRegistered(t.Context(), 40)
	require.ErrorIs(t, err, fence.ErrStale)
	_, err = b.readRegistered(t.Context(), 0)
	require.ErrorIs(t, err, fence.ErrUnfenced)
	b.account++
	_, err = b.readRegistered(t.Context(), 42)
	require.ErrorIs(t, err, fence.ErrStale, "there is no such row")
	requireAccount(t, b.db, 2, 41)
}

func TestHolderThatRegistersAsAWriterReadsThenWrites(t *testing.T) {
	b := &books{openFile(t), account, lockName}
	register := func(token int64) error {
		return fence.Exec(t.Context(), b.db, lockName, token,
			"UPDATE accounts SET fence = ? WHERE id = ? AND fence <= ? AND read_fence < ?", token, account, token, token)
	}
	require.NoError(t, b.writeBesideReaders(t.Context(), 1, 33))
	require.NoError(t, register(34))
	require.ErrorIs(t, b.writeBesideReaders(t.Context(), 5, 33), fence.ErrStale, "between the holder's read and write")
	require.NoError(t, b.writeBesideReaders(t.Context(), 2, 34))
	_, err := b.readRegistered(t.Context(), 35)
	require.NoError(t, err)
	require.ErrorIs(t, register(35), fence.ErrStale)
	requireAccount(t, b.db, 2, 34)
}

// That is why a reader must not use what it has read before it has committed.
func TestReadThatIsRolledBackIsNotRegistered(t *testing.T) {
	b := &books{openFile(t), account, lockName}
	tx, err := b.db.BeginTx(t.Context(), nil)
	require.NoError(t, err)
	require.NoError(t, fence.Exec(t.Context(), tx, lockName, 40, registerRead, int64(40), int64(40), account, int64(40)))
	require.NoError(t, tx.Rollback())
	require.NoError(t, b.writeBesideReaders(t.Context(), 1, 39))
}

func TestFencedInsertBesideReadersMakesTheRowOrRefuses(t *testing.T) {
	b := &books{openFile(t), account, lockName}
	put := func(balance, token int64) error {
		return fence.Exec(t.Context(), b.db, lockName, token, `
			INSERT INTO accounts (id, balance, fence) VALUES (?, ?, ?)
			ON CONFLICT (id) DO UPDATE SET balance = excluded.balance, fence = excluded.fence
			WHERE accounts.fence <= excluded.fence AND accounts.read_fence < excluded.fence`, account, balance, token)
	}
	_, err := b.db.Exec("DELETE FROM accounts")
	require.NoError(t, err)
	require.NoError(t, put(1, 33))
	_, err = b.readRegistered(t.Context(), 33)
	require.NoError(t, err)
	require.ErrorIs(t, put(2, 33), fence.ErrStale)
	require.NoError(t, put(2, 34))
	require.ErrorIs(t, put(3, 33), fence.ErrStale)
	requireAccount(t, b.db, 2, 34)
}

// Each writer writes its token as the balance. So a reader must find a balance that is not above
// its token, and no later writer may have a token that a reader before it had.
func TestConcurrentReadersAndWritersKeepTheOrderOfTokens(t *testing.T) {
	b := &books{openFile(t), account, lockName}
	greatestRead := func(db *sql.DB) (highest int64) {
		assert.NoError(t, db.QueryRow("SELECT read_fence FROM accounts WHERE id = ?", account).Scan(&highest))
		return highest
	}
	var all sync.WaitGroup
	for token := int64(1); token <= 40; token++ {
		all.Go(func() {
			before := greatestRead(b.db)
			if err := b.writeBesideReaders(t.Context(), token, token); err != nil {
				assert.ErrorIs(t, err, fence.ErrStale)
			} else {
				assert.Greater(t, token, before)
			}
		})
		all.Go(func() {
			balance, err := b.readRegistered(t.Context(), token)
			if err != nil {
				assert.ErrorIs(t, err, fence.ErrStale)
				return
			}
			assert.LessOrEqual(t, balance, token)
			assert.GreaterOrEqual(t, greatestRead(b.db), token)
		})
	}
	all.Wait()
	require.ErrorIs(t, b.writeBesideReaders(t.Context(), 0, greatestRead(b.db)), fence.ErrStale)
}
