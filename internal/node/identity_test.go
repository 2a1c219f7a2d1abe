package node

import (
	"errors"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestEachHazardOfANodeIsLogged(t *testing.T) {
	require.Len(t, hazards(identity{evicts: "allkeys-lru"}, nil), 2)
	require.Len(t, hazards(identity{runID: "run", evicts: "allkeys-lru"}, nil), 1)
	require.Len(t, hazards(identity{}, errors.New("refused")), 1)
	require.Empty(t, hazards(identity{runID: "run", evicts: "noeviction"}, nil))
}

func TestIdentityIsReadFromINFO(t *testing.T) {
	var id identity
	id.read("# Server\r\nrun_id:abc\r\nredis_version:7.0.15\r\nrole:master\r\nmaxmemory_policy:noeviction\r\nother:1\r\n")
	require.Equal(t, identity{runID: "abc", role: "master", evicts: "noeviction", major: 7}, id)
}

func TestOneServerBehindTwoNodesHasOneVote(t *testing.T) {
	all := NewIdentities()
	claim := func(index int, run string, wanted bool) {
		t.Helper()
		_, ok := all.claim(index, run)
		require.Equal(t, wanted, ok)
	}
	claim(0, "a", true)
	claim(0, "a", true)
	claim(1, "a", false)
	claim(1, "", true)
	claim(2, "", true) // servers that do not name their run cannot be compared
	claim(0, "b", true)
	claim(1, "a", true) // node 0 gave it up
	other, _ := all.claim(2, "b")
	require.Zero(t, other)
}
