package lock

import (
	"reflect"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestWhatIsGivenBackIsAsNew(t *testing.T) {
	e := new(Engine)
	a := &Attempt{lock: &Lock{engine: e}, Waits: true, set: setArgs{"key"}, plain: []plainVote{{holder: "other", count: 7}}}
	a.Owner = "owner"
	a.GiveBack()
	require.Equal(t, []plainVote{{}}, a.plain)
	a.plain = nil
	require.True(t, reflect.ValueOf(a).Elem().IsZero())

	b := &release{lock: &Lock{engine: e}, ticket: "ticket", lasts: 1, restsUntil: 2}
	b.Owner = "owner"
	b.GiveBack()
	require.True(t, reflect.ValueOf(b).Elem().IsZero())
}
