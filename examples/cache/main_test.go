package main

import (
	"fmt"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/redlock-go/redlock/examples/internal/demo"
	"github.com/redlock-go/redlock/fence"
)

func TestReadersShareEachEditionAndNoneChangesUnderThem(t *testing.T) {
	out := demo.Run(t, run)
	for edition := 1; edition <= editions; edition++ {
		assert.Regexp(t, fmt.Sprintf(`(?s)The builder has built edition %[1]d, alone\..*The builder reads edition %[1]d, beside other readers\.`, edition),
			out)
	}
	assert.Regexp(t, `12 readers in 3 processes read \d+ times\. In the end all of them held the lock together\.`, out)
}

func TestKeeperRefusesLateBuildersAndLateReaders(t *testing.T) {
	k := newKeeper(1)
	require.NoError(t, k.write(7, 1))
	edition, err := k.read(7)
	require.NoError(t, err)
	assert.Equal(t, 1, edition)
	require.ErrorIs(t, k.write(7, 2), fence.ErrStale, "by the builder before that reader")
	require.NoError(t, k.write(8, 2))
	_, err = k.read(7)
	require.ErrorIs(t, err, fence.ErrStale)
}
