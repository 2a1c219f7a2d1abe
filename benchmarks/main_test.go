package main

import (
	"context"
	"flag"
	"fmt"
	"io"
	"os"
	"os/exec"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/redlock-go/redlock/internal/test/long"
)

// soon is the limit for what must not hang: no test compares a measured time with a
// limit below some seconds.
const soon = 10 * time.Second

var soak = flag.Bool("soak", false, "run the tests that are long or compare speeds")

// soakOnly skips a test that is long or compares speeds, unless -soak is given.
func soakOnly(t *testing.T) {
	t.Helper()
	if !*soak {
		t.Skip("it is long or compares speeds: make soak runs it")
	}
}

// notInShort skips a test that takes more than a few seconds, unless REDLOCK_LONG is set.
func notInShort(t *testing.T) {
	t.Helper()
	if !long.Tests() {
		t.Skip("make verify runs it")
	}
}

// testServers are the nodes of all tests; nil where redis-server is missing.
var testServers *servers

func TestMain(m *testing.M) { os.Exit(testMain(m)) }

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
	code := m.Run()
	if version, err := servers.version(); err == nil {
		fmt.Printf("servers: %d redis-server processes, redis %s\n", len(servers.addrs), version)
	}
	return code
}

func needServers(t *testing.T) *servers {
	t.Helper()
	if testServers == nil {
		t.Skip("SKIPPED: redis-server is not installed; these tests need it (Debian: apt-get install redis-server)")
	}
	return testServers
}

// tinyBench is a run of the least size over the tests' servers, which have
// admitted all numbers of nodes.
func tinyBench(t *testing.T) *bench {
	t.Helper()
	b := &bench{size: tiny, peers: contenders, servers: needServers(t), results: newResults(), progress: io.Discard}
	require.NoError(t, admitServers())
	return b
}

// admitServers lets the servers admit all numbers of nodes, once for all tests.
var admitServers = sync.OnceValue(func() error {
	b := &bench{peers: contenders, servers: testServers, progress: io.Discard}
	return b.admit(context.Background())
})

func TestBadFlagsAreRefused(t *testing.T) {
	for _, args := range [][]string{
		{"-peers", "nobody"}, {"-only", "pairs,nothing"}, {"-rounds", "-1"}, {"-round", "-1s"},
		{"-docs", "../docs"},
		{"-docs", "../docs", "-full", "-only", "pairs"}, {"-docs", "../docs", "-full", "-peers", "floor"},
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
