package main

import (
	"bytes"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/redlock-go/redlock/fence"
)

func TestOneMigratesAndTheOthersFindItDone(t *testing.T) {
	var out bytes.Buffer
	require.NoError(t, run(t.Context(), &out))
	assert.Equal(t, 3, strings.Count(out.String(), "brings the database to version"))
	assert.Equal(t, 3, strings.Count(out.String(), "finds version 3 and starts."))
	assert.Contains(t, out.String(), "The database is at version 3 after 3 steps.")
}

func TestAMigrationThatIsLateIsRefused(t *testing.T) {
	db := &database{}
	require.NoError(t, db.apply(7, 1))
	require.ErrorIs(t, db.apply(6, 2), fence.ErrStale)
	assert.Equal(t, 1, db.at())
}
