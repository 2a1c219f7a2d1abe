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
	n.Status.Report(Standing{State: Up})
	n.cfg.Majority.Settle()
	fail := func() { n.Status.Report(Standing{State: Down, Cause: errors.New("refused")}) }
	fail()
	require.Empty(t, n.log())
	n.Status.Report(Standing{State: Up})
	fail()
	require.Empty(t, n.log(), "not in a row")
	fail()
	fail()
	require.Equal(t, 1, strings.Count(n.log(), downLine))
	n.Status.Report(Standing{State: Up})
	require.Equal(t, 1, strings.Count(n.log(), upLine))

	n.now += logInterval - 1
	fail()
	fail()
	require.Equal(t, 1, strings.Count(n.log(), downLine), "too soon after the last line")
	n.now++
	fail()
	require.Equal(t, 2, strings.Count(n.log(), downLine), "a node that stays down is logged after the interval")
}

func TestUnfitNodeIsNotLoggedAsDownToo(t *testing.T) {
	n := newUnconnected()
	n.now = time.Hour
	for range 3 {
		n.Status.Report(Standing{State: Down, Cause: n.Status.Unfit("it is a replica")})
	}
	require.Equal(t, 1, strings.Count(n.log(), "the node does not vote: it is a replica"))
	require.NotContains(t, n.log(), downLine)
	n.Status.Report(Standing{State: Up})
	require.Equal(t, 1, strings.Count(n.log(), upLine))
}
