package main

import (
	"fmt"
	"io"
	"os"
	"os/exec"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// testServers are the nodes of all tests; nil where redis-server is missing.
var testServers *servers

func TestMain(m *testing.M) {
	if !serveForeign() { // the tests' program is the server of a foreign peer too
		os.Exit(testMain(m))
	}
}

func testMain(m *testing.M) int {
	if _, err := exec.LookPath("redis-server"); err != nil {
		return m.Run() // the tests skip, and say why
	}
	servers, err := startServers(maxNodes)
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	defer servers.stop()
	testServers = servers
	return m.Run()
}

func needServers(t *testing.T) *servers {
	t.Helper()
	if testServers == nil {
		t.Skip("SKIPPED: redis-server is not installed; the benchmarks' tests need it (Debian: apt-get install redis-server)")
	}
	return testServers
}

// tinyBench is a run of the least size over the tests' servers, which have
// admitted all numbers of nodes.
func tinyBench(t *testing.T) *bench {
	t.Helper()
	b := &bench{size: tiny, peers: contenders, servers: needServers(t), results: newResults(), progress: io.Discard}
	require.NoError(t, b.admit(t.Context()))
	return b
}

func TestBadFlagsAreRefused(t *testing.T) {
	for _, args := range [][]string{
		{"-peers", "nobody"}, {"-only", "pairs,nothing"}, {"-profile", "nobody"}, {"-rounds", "-1"}, {"-round", "-1s"},
		{"-docs", "../docs"}, {"-docs", "../docs", "-full", "-only", "pairs"}, {"-docs", "../docs", "-full", "-peers", "floor"},
	} {
		_, err := parse(args)
		assert.Error(t, err, args)
	}
	c, err := parse([]string{"-only", "wan,pairs", "-peers", "floor,redlock", "-full"})
	require.NoError(t, err)
	assert.Equal(t, full, c.bench.size)
	assert.Len(t, c.bench.peers, 2)
	require.Len(t, c.bench.workloads, 2)
	assert.Equal(t, "pairs", c.bench.workloads[0].name, "the order is that of the workloads")
}
