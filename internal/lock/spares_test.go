package lock

import (
	"reflect"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestWhatIsUsedAgainIsAsNew(t *testing.T) {
	var s spares
	s.attempts.Put(&Attempt{Waits: true, set: setArgs{"key"}, plain: []plainVote{{holder: "other", count: 7}}})
	a := s.attempt()
	for i := range a.plain { // none, if the pool has dropped it
		require.Zero(t, a.plain[i])
	}
	a.plain = nil
	require.True(t, reflect.ValueOf(a).Elem().IsZero())

	s.releases.Put(&release{ticket: "ticket", lasts: 1, restsUntil: 2})
	require.True(t, reflect.ValueOf(s.release()).Elem().IsZero())
}
