package lock

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/redlock-go/redlock/internal/testreply"
)

// A reply to Inspect is understood, or becomes the node's error. It does no harm.
func FuzzInspect(f *testing.F) {
	for _, reply := range testreply.Samples() {
		f.Add(testreply.Plant(reply))
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		replies := testreply.Grow(data)
		if len(replies) == 0 {
			return
		}
		if found, err := ReadInspection(replies[0], nil); err != nil {
			require.Empty(t, found)
			require.NotContains(t, err.Error(), "%!")
		}
	})
}

// A reply that lists a semaphore's slots is understood, or becomes the node's error.
func FuzzInspectSlots(f *testing.F) {
	for _, reply := range testreply.Samples() {
		f.Add(testreply.Plant(reply))
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		replies := testreply.Grow(data)
		if len(replies) == 0 {
			return
		}
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
