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
	id.read("# Server\r\nrun_id:abc\r\nredis_version:7.0.15\r\nrole:master\r\nredis_mode:standalone\r\nmaxmemory_policy:noeviction\r\nother:1\r\n")
	require.Equal(t, identity{runID: "abc", role: "master", evicts: "noeviction", major: 7}, id)
}

func TestClusterModeIsReadFromINFO(t *testing.T) {
	for info, want := range map[string]bool{
		"redis_mode:cluster\r\n":                       true,
		"server_mode:cluster\r\n":                      true,
		"cluster_enabled:1\r\n":                        true,
		"cluster_enabled:1\r\nredis_mode:standalone":   true,
		"server_mode:standalone\r\ncluster_enabled:0":  false,
		"redis_mode:sentinel\r\ncluster_enabled:0\r\n": false,
		"": false,
	} {
		var id identity
		id.read(info)
		require.Equal(t, want, id.cluster, info)
	}
}

func TestOneServerBehindTwoNodesHasOneVote(t *testing.T) {
	all := NewIdentities()
	register := func(index int, run string, want bool) {
		t.Helper()
		_, ok := all.register(index, run)
		require.Equal(t, want, ok)
	}
	register(0, "a", true)
	register(0, "a", true)
	register(1, "a", false)
	register(1, "", true)
	register(2, "", true) // servers that do not name their run cannot be compared
	register(0, "b", true)
	register(1, "a", true) // node 0 leads to another one now
	other, _ := all.register(2, "b")
	require.Zero(t, other)
}
