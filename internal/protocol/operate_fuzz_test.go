package protocol

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/redlock-go/redlock/internal/test/testreply"
)

// A reply to an InspectCall is understood, or becomes an error. It does no harm.
func FuzzInspect(f *testing.F) {
	testreply.Fuzz(f, func(t *testing.T, replies []any) {
		if found, err := ReadInspection(replies[0], nil); err != nil {
			require.Empty(t, found)
			require.NotContains(t, err.Error(), "%!")
		}
	})
}

// A reply that lists a semaphore's slots is understood, or becomes an error.
func FuzzInspectSlots(f *testing.F) {
	testreply.Fuzz(f, func(t *testing.T, replies []any) {
		var found Inspection
		err := found.AddSlots(replies[0], nil)
		if err != nil {
			require.NotContains(t, err.Error(), "%!")
		}
		for _, s := range found.Slots {
			require.Less(t, s.Number, MaxPermits)
			require.GreaterOrEqual(t, s.Number, 0)
		}
	})
}
