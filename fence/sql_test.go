package fence_test

import (
	"database/sql"
	"errors"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/redlock-go/redlock/fence"
)

// In *sql.DB, *sql.Tx and *sql.Conn Exec finds what it needs.
var _ = []fence.Execer{(*sql.DB)(nil), (*sql.Tx)(nil), (*sql.Conn)(nil)}

func TestExecRefusesARowThatAGreaterTokenWrote(t *testing.T) {
	db, books := openBooks()
	defer db.Close()
	set := func(db fence.Execer, balance, token int64) error {
		return fence.Exec(t.Context(), db, "account 7", token, update, balance, token, 7)
	}
	require.NoError(t, set(db, 110, 33))
	require.NoError(t, set(db, 120, 33), "one holder may write often")

	tx, err := db.BeginTx(t.Context(), nil)
	require.NoError(t, err)
	require.NoError(t, set(tx, 130, 40))
	require.NoError(t, tx.Commit())

	err = set(db, 0, 39)
	require.ErrorIs(t, err, fence.ErrStale)
	require.EqualError(t, err, `fence: "account 7": token 39 is stale, or there is no such row`)
	var stale *fence.StaleError
	require.ErrorAs(t, err, &stale)
	require.Equal(t, &fence.StaleError{Resource: "account 7", Token: 39}, stale)
	require.EqualValues(t, 130, books.balance[7])
}

func TestExecReturnsErrStaleForAMissingRowToo(t *testing.T) {
	db, _ := openBooks()
	defer db.Close()
	err := fence.Exec(t.Context(), db, "account 8", 33, update, 0, int64(33), 8)
	require.ErrorIs(t, err, fence.ErrStale)
	require.ErrorContains(t, err, "or there is no such row")
}

func TestExecDoesNotAskTheDatabaseWithoutAToken(t *testing.T) {
	db, books := openBooks()
	defer db.Close()
	for _, token := range []int64{0, -1} {
		err := fence.Exec(t.Context(), db, "account 7", token, update, 0, token, 7)
		require.ErrorIs(t, err, fence.ErrUnfenced)
	}
	// A statement without the token is not fenced.
	for _, arg := range []any{int64(32), 33, "33", nil, []byte("33"), sql.Named("fence", 33)} {
		err := fence.Exec(t.Context(), db, "account 7", 33, update, 0, arg, 7)
		require.ErrorIs(t, err, fence.ErrUnfenced, "%T %v", arg, arg)
		require.ErrorContains(t, err, "token 33 is not among the statement's args")
	}
	require.Zero(t, books.asked)
}

func TestExecFindsTheTokenInANamedArg(t *testing.T) {
	db, _ := openBooks()
	defer db.Close()
	require.NoError(t, fence.Exec(t.Context(), db, "account 7", 33, update, 0, sql.Named("fence", int64(33)), 7))
}

func TestExecPassesOnTheErrorsOfTheDatabase(t *testing.T) {
	db, books := openBooks()
	defer db.Close()
	set := func() error { return fence.Exec(t.Context(), db, "account 7", 33, update, 0, int64(33), 7) }

	books.down = errors.New("the disk is full")
	err := set()
	require.ErrorIs(t, err, books.down)
	require.EqualError(t, err, `fence: "account 7": the disk is full`)

	books.down, books.mute = nil, errors.New("mute")
	err = set()
	require.ErrorContains(t, err, "the database does not report whether the row was written")
	require.NotErrorIs(t, err, fence.ErrStale)
}

func TestExecRefusesAWriterAfterAReaderAndALateReader(t *testing.T) {
	db, books := openBooks()
	defer db.Close()
	set := func(balance, token int64) error {
		return fence.Exec(t.Context(), db, "account 7", token, updateBesideReaders, balance, token, 7)
	}
	register := func(token int64) error {
		return fence.Exec(t.Context(), db, "account 7", token, registerRead, token, 7)
	}
	require.NoError(t, set(110, 33))
	require.NoError(t, register(33), "a reader's token may equal that of the writer before it")
	require.NoError(t, register(33))
	require.ErrorIs(t, set(120, 33), fence.ErrStale)

	require.NoError(t, register(40))
	require.NoError(t, register(39), "readers do not refuse each other")
	require.ErrorIs(t, set(130, 40), fence.ErrStale)
	require.EqualValues(t, 110, books.balance[7])

	require.NoError(t, set(140, 41))
	require.ErrorIs(t, register(40), fence.ErrStale)
	require.NoError(t, register(41))
	require.EqualValues(t, 140, books.balance[7])
}

// The statement for locks without readers does not protect them: the package says so.
func TestExecWithOneColumnAcceptsAWriterAfterAReader(t *testing.T) {
	db, books := openBooks()
	defer db.Close()
	require.NoError(t, fence.Exec(t.Context(), db, "account 7", 40, registerRead, int64(40), 7))
	require.NoError(t, fence.Exec(t.Context(), db, "account 7", 39, update, 0, int64(39), 7))
	require.Zero(t, books.balance[7])
}
