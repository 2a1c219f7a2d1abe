package main

import (
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/redlock-go/redlock/examples/internal/demo"
	"github.com/redlock-go/redlock/fence"
)

func TestTransfersKeepTheSum(t *testing.T) {
	out := demo.Run(t, run)
	assert.Contains(t, out, "45 transfers between 4 accounts by 9 workers. The sum was 400 before, and is 400 now.")
}

func TestBankRefusesAHolderOfOneAccountThatIsLate(t *testing.T) {
	b := newBank([]string{"a", "b", "c"}, 100)
	_, _, err := b.balances("b", "a", 7)
	require.NoError(t, err)
	require.NoError(t, b.set("b", 90, "c", 110, 8), "another transfer has b by now")
	require.ErrorIs(t, b.set("b", 50, "a", 150, 7), fence.ErrStale)
	assert.EqualValues(t, 300, b.sum(), "a has not changed either")
}
