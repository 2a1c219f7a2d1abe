package node

import (
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

const (
	downLine = "a node is down"
	upLine   = "a node is up"
)

func TestNodeIsLoggedAsDownFromTheSecondFailureOn(t *testing.T) {
	n := newUnconnected()
	n.now = time.Hour
	n.Status.ReportUp(false)
	n.cfg.Majority.Begin(false)
	fail := func() { n.Status.ReportDown(errors.New("refused")) }
	fail()
	require.Empty(t, n.log())
	n.Status.ReportUp(false)
	fail()
	require.Empty(t, n.log(), "not in a row")
	fail()
	fail()
	require.Equal(t, 1, strings.Count(n.log(), downLine))
	n.Status.ReportUp(false)
	require.Equal(t, 1, strings.Count(n.log(), upLine))

	n.now += downLogInterval - 1
	fail()
	fail()
	require.Equal(t, 1, strings.Count(n.log(), downLine), "too soon after the last line")
	n.now++
	fail()
	require.Equal(t, 2, strings.Count(n.log(), downLine), "a node that stays down is logged after the interval")
	n.Status.ReportUp(true)
	require.Equal(t, 1, strings.Count(n.log(), upLine), "quietly")
}

func TestUnfitNodeIsNotLoggedAsDownToo(t *testing.T) {
	n := newUnconnected()
	n.now = time.Hour
	for range 3 {
		n.Status.ReportDown(n.Status.Unfit("it is a replica"))
	}
	require.Equal(t, 1, strings.Count(n.log(), "the node does not vote: it is a replica"))
	require.NotContains(t, n.log(), downLine)
	n.Status.ReportUp(false)
	require.Equal(t, 1, strings.Count(n.log(), upLine))
}
