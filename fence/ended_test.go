package fence_test

import (
	"context"
	"errors"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/redlock-go/redlock/fence"
)

// A context of a lease that is lost ends with a cause that is redlock.ErrLost.
func TestErrorOfAnEndedContextIsItsCause(t *testing.T) {
	errLost := errors.New("the lease is lost")
	ended, cancel := context.WithCancelCause(t.Context())
	cancel(errLost)
	conn := dial(t, startServer(t))
	db, books := openBooks()
	defer db.Close()
	for name, call := range map[string]func(context.Context) error{
		"Set":          func(ctx context.Context) error { return fence.Set(ctx, conn, "leader", 33, "alice") },
		"Get":          func(ctx context.Context) error { _, err := fence.Get(ctx, conn, "leader", 33); return err },
		"GetForUpdate": func(ctx context.Context) error { _, err := fence.GetForUpdate(ctx, conn, "leader", 33); return err },
		"Exec": func(ctx context.Context) error {
			return fence.Exec(ctx, db, "account 7", 33, update, 0, int64(33), 7)
		},
	} {
		err := call(ended)
		require.ErrorIs(t, err, errLost, name)
		require.ErrorIs(t, err, context.Canceled, name)
		require.ErrorContains(t, err, "the lease is lost", name)

		plain, cancel := context.WithCancel(t.Context())
		cancel()
		require.ErrorIs(t, call(plain), context.Canceled, name)
	}

	// The database reports the end of a statement that was under way in words of its own.
	running, cancel := context.WithCancelCause(t.Context())
	books.down, books.meanwhile = errors.New("canceling statement due to user request"), func() { cancel(errLost) }
	err := fence.Exec(running, db, "account 7", 33, update, 0, int64(33), 7)
	require.ErrorIs(t, err, errLost)
	require.ErrorIs(t, err, books.down)
}
