package listing_test

import (
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/redlock-go/redlock/internal/listing"
)

// Long names make smaller batches: votes wait behind them. Each batch has one name at least.
func TestBatchesAreBoundedByNamesAndBytes(t *testing.T) {
	for length, want := range map[int]int{1: 50, 50: 41, 1000: 6, 10_000: 1, 100_000: 1} {
		names := slices.Repeat([]string{strings.Repeat("x", length)}, 200)
		all := listing.Batches(names)
		require.Len(t, all[0], want, "names of %d bytes", length)
		require.Equal(t, names, slices.Concat(all...))
	}
	require.Empty(t, listing.Batches(nil))
}
