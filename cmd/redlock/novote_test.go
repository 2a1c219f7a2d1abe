package main

import (
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/redlock-go/redlock"
	"github.com/redlock-go/redlock/internal/test/testclient"
	"github.com/redlock-go/redlock/redlocktest"
)

func TestInspectSaysThatANodeDoesNotVote(t *testing.T) {
	nodes := redlocktest.Start(t, 3)
	var out, log strings.Builder
	assert.Zero(t, execute([]string{"--nodes", strings.Join(nodes.URLs(), ","), "inspect", "job"}, &out, &log))
	assert.Equal(t, 3, strings.Count(out.String(), ": it does not vote for another "), "%s", out.String())
	assert.NotContains(t, call(nodes, "inspect", "job").out, "it does not vote")
}

// oneNodeWaits starts three nodes. The last one has lost its memory, and waits before it votes.
func oneNodeWaits(t *testing.T) *redlocktest.Nodes {
	nodes := redlocktest.Start(t, 3)
	client := testclient.Open(t, nodes.URLs(), redlock.WithTTL(200*time.Millisecond), redlock.WithNodeTimeout(90*time.Millisecond), redlock.WithRestartGuard(200*time.Millisecond))
	defer client.Close()
	votes := func(n redlock.NodeStats) bool { return n.State == "up" }
	eventually(t, func() bool {
		all := client.Stats().Nodes
		return votes(all[0]) && votes(all[1]) && votes(all[2])
	}, "all vote")
	nodes.Stop(2)
	nodes.Wipe(2)
	require.NoError(t, nodes.Start(2))
	return nodes
}

func TestToolSaysInAShortLineThatANodeDoesNotVoteYet(t *testing.T) {
	for _, c := range []struct {
		args  string
		lines string // a pattern of all that is logged
	}{
		{"ls", `^level=WARN msg="redlock: a node does not vote yet" client=\w+ node="node 2 \(\S+\)" wait=\S+\n$`},
		{"inspect job --json", `^level=WARN msg="redlock: a node does not vote yet" client=\w+ node="node 2 \(\S+\)" wait=\S+\n$`},
		{"inspect job", `^$`},
		{"inspect job -v", `it votes once every lease that it may have forgotten has ended`},
	} {
		nodes := oneNodeWaits(t) // for each: on a busy machine its wait is over before all commands have run
		var out, log lockedBuffer
		args := append([]string{"--nodes", strings.Join(nodes.URLs(), ",")}, strings.Fields(c.args)...)
		assert.Zero(t, execute(args, &out, &log), c.args)
		assert.Regexp(t, c.lines, log.String(), c.args)
		if strings.HasPrefix(c.args, "inspect job") && !strings.Contains(c.args, "--json") {
			assert.Contains(t, out.String(), ": it does not vote for another ", c.args)
		}
	}
}

// These clients have the default ttl of 10 s, and take no lock.
func TestCommandsThatOnlyReadPutNoTTLOnRecord(t *testing.T) {
	t.Parallel()
	nodes := redlocktest.Start(t, 3)
	urls := strings.Join(nodes.URLs(), ",")
	tool := func(args ...string) {
		var out, log lockedBuffer
		require.Zero(t, execute(append([]string{"--nodes", urls}, args...), &out, &log), "%v: %s", args, log.String())
	}
	tool("run", "job", "--ttl", "2s", "--node-timeout", "900ms", "--", "true")
	for _, args := range []string{"ls", "inspect job", "top", "ask job", "doctor --for 0s"} {
		tool(strings.Fields(args)...)
		var report lockedBuffer
		execute([]string{"--nodes", urls, "doctor", "--for", "0s", "--json"}, &report, &report)
		assert.Contains(t, report.String(), `"longest_ttl_s": 2`, args)
		assert.NotContains(t, report.String(), `"longest_ttl_s": 10`, args)
	}
}
