package main

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/redlock-go/redlock/examples/internal/demo"
	"github.com/redlock-go/redlock/fence"
)

func TestOneMigratesAndTheOthersFindItDone(t *testing.T) {
	out := demo.Run(t, run)
	assert.Equal(t, 3, strings.Count(out, "brings the database to version"))
	assert.Equal(t, 3, strings.Count(out, "finds version 3 and starts."))
	assert.Contains(t, out, "The database is at version 3 after 3 steps.")
}

func TestAMigrationThatIsLateIsRefused(t *testing.T) {
	db := &database{}
	require.NoError(t, db.apply(7, 1))
	require.ErrorIs(t, db.apply(6, 2), fence.ErrStale)
	assert.EqualValues(t, 1, db.version.Load())
}
