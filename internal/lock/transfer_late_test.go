package lock

import (
	"testing"

	"github.com/stretchr/testify/require"
)

// The nodes that keep the lease are settled: the others are told to drop its keys, also one that answers just then.
func TestAnswerThatComesAfterTheNodesAreSettledIsNotInTheText(t *testing.T) {
	h := new(Transfer)
	h.add(keeper{1, "a"})
	h.settled = true
	h.add(keeper{2, "b"})
	require.Equal(t, []string{"a"}, h.Records())
}
