package pipe

import (
	"strconv"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestQueueKeepsChainedCallsTogetherAndReturnsTheLoadBefore(t *testing.T) {
	p, _ := dial(t, true)
	first, one := call("1")
	second, two := call("2")
	third, three := call("3")
	first.Then = second
	flush, load, err := p.Queue(first, 0, nil)
	require.NoError(t, err)
	require.True(t, flush)
	require.Zero(t, load)
	_, load, err = p.Queue(third, 0, nil)
	require.NoError(t, err)
	require.Equal(t, 2, load)
	p.Flush()
	for i, answer := range []box{one, two, three} {
		require.Equal(t, strconv.Itoa(i+1), string((<-answer).reply.([]byte)))
	}
}
