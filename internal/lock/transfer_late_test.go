package lock

import (
	"testing"

	"github.com/stretchr/testify/require"
)

// The nodes that keep the lease are settled: the others are told to drop its keys, also one that answers just then.
func TestReadingThatComesAfterTheNodesAreSettledIsNotInTheText(t *testing.T) {
	h := new(Transfer)
	h.add(Reading{node: 1})
	h.settled = true
	h.add(Reading{node: 2})
	require.Equal(t, []Reading{{node: 1}}, h.Readings())
}
