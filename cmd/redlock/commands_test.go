package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/redlock-go/redlock"
	"github.com/redlock-go/redlock/internal/overview"
	"github.com/redlock-go/redlock/internal/test/testclient"
	"github.com/redlock-go/redlock/redlocktest"
)

func TestInspectShowsHolderNodesAndQueue(t *testing.T) {
	nodes := redlocktest.Start(t, 3)
	lease := hold(t, nodes, "job")
	nodes.Stop(1)
	r := call(nodes, "inspect", "job", "other")
	require.Zero(t, r.code, r.log)
	assert.Regexp(t, `job: held by the holder for \d+s, at 2 of 3 nodes, for another`, r.out)
	assert.Contains(t, r.out, "since    "+lease.Since().Format(time.DateTime)+", by the holder's clock")
	assert.Contains(t, r.out, lease.Owner())
	assert.Contains(t, r.out, "token    1 (the greatest so far)")
	assert.Regexp(t, `node 1 .* \? .*connect`, r.out)
	assert.Contains(t, r.out, "other: free")
}

func TestInspectJSONShowsHolderNodesAndQueue(t *testing.T) {
	nodes := redlocktest.Start(t, 3)
	lease := hold(t, nodes, "job", redlock.WithTTL(10*time.Minute)) // it is not renewed within the test
	waiting := start(t, nodes, "run", "job", "--", "true")
	defer waiting.cmd.Process.Kill()
	var v overview.LockJSON
	eventually(t, func() bool {
		v = inspectJSON(t, nodes, "job")
		return len(v.Waiters) == 1
	}, "in the queue")
	assert.Equal(t, "job", v.Name)
	assert.Equal(t, overview.Held, v.State)
	assert.EqualValues(t, 2, v.Token, "a refused attempt counts too: it is above the holder's token")
	require.Len(t, v.Holders, 1)
	h := v.Holders[0]
	assert.InDelta(t, 600, *h.Remaining, 60)
	h.Remaining = nil
	assert.Equal(t, overview.HolderJSON{Holder: "the holder", Owner: lease.Owner(), Since: lease.Since().UTC(), Token: 2, Nodes: 3, Holds: true}, h)
	assert.Equal(t, overview.SaysHolder, v.Nodes[2].Vote)
	assert.Equal(t, lease.Owner(), v.Nodes[2].Holders[0].Owner)
}

// inspectJSON returns what redlock inspect shows of a lock, or of a semaphore.
func inspectJSON(t *testing.T, nodes *redlocktest.Nodes, name string) (v overview.LockJSON) {
	t.Helper()
	require.NoError(t, json.Unmarshal([]byte(call(nodes, "inspect", "--json", name).out), &v))
	return v
}

func TestInspectShowsSplitVotesAndMissingQuorums(t *testing.T) {
	nodes := redlocktest.Start(t, 3)
	hold(t, nodes, "job", redlock.WithTTL(20*time.Second))
	nodes.Wipe(0)
	nodes.Wipe(1)
	r := call(nodes, "inspect", "job")
	assert.Zero(t, r.code, r.log)
	assert.Contains(t, r.out, "the votes are split")
	assert.Equal(t, overview.Split, inspectJSON(t, nodes, "job").State)
	nodes.Stop(0)
	nodes.Stop(1)
	r = call(nodes, "inspect", "job", "other")
	assert.Equal(t, codeNoQuorum, r.code)
	assert.Contains(t, r.out, "too few masters answer: the holder is unknown")
	assert.Contains(t, r.log, "fewer nodes than a majority answer")
}

func TestUnlockBreaksALockOnlyByForceAndPrintsTheHolder(t *testing.T) {
	nodes := redlocktest.Start(t, 3)
	lease := hold(t, nodes, "job")
	assert.Equal(t, codeUsage, unlock(nodes, "job").code)
	require.True(t, lease.Valid())
	r := unlock(nodes, "--force", "job")
	require.Zero(t, r.code, r.log)
	assert.Contains(t, r.out, "held by the holder ("+shortOwner(lease.Owner())+") for another ")
	assert.Contains(t, call(nodes, "inspect", "job").out, "job: free")
	raised, err := strconv.ParseInt(regexp.MustCompile(`The token (\d+) is greater`).FindStringSubmatch(r.out)[1], 10, 64)
	require.NoError(t, err)
	assert.Greater(t, raised, lease.Token())
	next := hold(t, nodes, "job")
	assert.Greater(t, next.Token(), raised)
	require.NoError(t, next.Unlock(t.Context()))
	awaitFree(t, nodes, "redlock:job")
	r = unlock(nodes, "--force", "job")
	assert.Equal(t, codeFree, r.code, r.log)
	nodes.Stop(0)
	nodes.Stop(1)
	r = unlock(nodes, "--force", "job")
	assert.Equal(t, codeNoQuorum, r.code)
	assert.Empty(t, r.out, "nothing was broken")
}

func TestBenchMeasuresAndLeavesNothing(t *testing.T) {
	nodes := redlocktest.Start(t, 3)
	r := call(nodes, "bench", "--for", "300ms")
	require.Zero(t, r.code, r.log)
	assert.Regexp(t, `(?m)^Lock +\d+ `, r.out)
	assert.Regexp(t, `(?m)^Unlock +\d+ `, r.out)
	assert.Regexp(t, `(?m)^node 2 \(.*\) +\d+ `, r.out)
	assert.Contains(t, r.out, "█")
	for i := range 3 {
		for _, key := range nodes.Keys(i) {
			assert.True(t, strings.HasPrefix(key, "redlock::record"), key)
		}
	}
}

func TestTheHistogramCountsEveryTimeOnce(t *testing.T) {
	times := []time.Duration{time.Microsecond, 100 * time.Microsecond, 101 * time.Microsecond, 3 * time.Millisecond}
	var b strings.Builder
	writeHistogram(&b, false, times)
	lines := strings.Split(strings.TrimSpace(b.String()), "\n")
	require.Len(t, lines, 9)
	assert.Regexp(t, `≤ 10µs +█+ 1$`, lines[0])
	assert.Regexp(t, `≤ 100µs +█+ 1$`, lines[3])
	assert.Regexp(t, `≤ 200µs +█+ 1$`, lines[4])
	assert.Regexp(t, `≤ 5ms +█+ 1$`, lines[8])
	assert.Equal(t, []string{"x", "4", "1µs", "100µs", "3ms", "3ms", "3ms"}, profile("x", times))
}

func TestWrongCommandLinesAreErrors(t *testing.T) {
	for args, want := range map[string]struct {
		code int
		text string
	}{
		"":                                  {0, ""},
		"nonsense":                          {codeUsage, "unknown command"},
		"run":                               {codeUsage, "redlock run NAME -- COMMAND"},
		"run job":                           {codeUsage, "write --"},
		"run job ls":                        {codeUsage, "write -- between"},
		"run job --":                        {codeUsage, "no command"},
		"run job --nonsense -- ls":          {codeUsage, "unknown flag"},
		"run job --wait 0s -- ls":           {codeUsage, "--no-wait"},
		"run job --wait 1s --no-wait -- ls": {codeUsage, "exclude each other"},
		"run job --grace -1s -- ls":         {codeUsage, "must not be negative"},
		"run job --stop-before 6s -- ls":    {codeUsage, "at most half of the ttl"},
		"run job --ttl 1ms -- ls":           {codeConfig, "WithTTL"},
		"run redlock:: --prefix= -- ls":     {codeConfig, "reserved"},
		"run job --read --announce -- ls":   {codeUsage, "--announce is for a holder that is alone"},
		"run a --announce --permits 2 -- b": {codeUsage, "--announce is for a holder that is alone"},
		"observe":                           {codeUsage, "observe needs a lock's name"},
		"observe -- ls":                     {codeUsage, "observe needs a lock's name"},
		"observe job ls":                    {codeUsage, "write -- before a command"},
		"observe job --":                    {codeUsage, "no command"},
		"observe a b -- ls":                 {codeUsage, "not 2"},
		"observe redlock:: --prefix=":       {codeConfig, "reserved"},
		"observe job -- no-such-command":    {codeNotFound, "command not found"},
		"watch job":                         {codeUsage, "give either --http ADDR or --log"},
		"watch job --http localhost:0":      {codeUsage, "redlock watch NAME --log"},
		"watch a b --log":                   {codeUsage, "at most 1 arg"},
		"inspect":                           {codeUsage, "requires at least 1 arg"},
		"inspect x --every 1ms":             {codeUsage, "at least 100ms"},
		"unlock":                            {codeUsage, "accepts 1 arg"},
		"doctor x":                          {codeUsage, "unknown command"},
		"doctor --ttl 0s":                   {codeUsage, "must be above 0"},
		"bench --for 0s":                    {codeUsage, "must be above 0"},
		"bench --ttl -1s":                   {codeUsage, "--ttl -1s"},
		"run job --ttl -1s -- ls":           {codeUsage, "--ttl -1s: it must be above 0"},
		"resume --ttl 0s -- ls":             {codeUsage, "--ttl 0s: it must be above 0"},
		"run a a -- ls":                     {codeUsage, `"a" is given twice`},
		"doctor --clock-rate NaN":           {codeUsage, "--clock-rate NaN"},
		"doctor --clock-rate -1":            {codeUsage, "--clock-rate -1"},
		"doctor --clock-offset -1s":         {codeUsage, "--clock-offset -1s"},
		"doctor --slow -1s":                 {codeUsage, "--slow -1s"},
		"completion bash2":                  {codeUsage, `"bash2"`},
		"completion":                        {0, ""},
	} {
		r := call(redlocktest.Start(t, 1), strings.Fields(args)...)
		assert.Equal(t, want.code, r.code, args)
		assert.Contains(t, r.log, want.text, args)
	}
}

func TestAnEmptyNameIsAWrongCommandLine(t *testing.T) {
	nodes := redlocktest.Start(t, 1)
	for _, args := range [][]string{{"run", "", "--", "ls"}, {"run", "a", "", "--", "ls"}, {"inspect", "a", ""}, {"unlock", "--force", ""}, {"ask", ""}, {"observe", ""}, {"watch", "", "--log"}} {
		r := call(nodes, args...)
		assert.Equal(t, codeUsage, r.code, "%q", args)
		assert.Contains(t, r.log, "name is empty", "%q", args)
	}
}

// brokenDisk fails like a full disk.
type brokenDisk struct{}

func (brokenDisk) Write([]byte) (int, error) { return 0, errors.New("no space left on device") }

func TestOutputThatCannotBeWrittenIsAFailure(t *testing.T) {
	nodes := redlocktest.Start(t, 3)
	hold(t, nodes, "job")
	for _, args := range []string{"inspect job", "inspect --json job", "ls", "ls --json", "doctor --for 0s --timeout 9s", "doctor --json --for 0s",
		"ask job", "observe other", "watch other --log", "bench --for 10ms", "completion bash", "run --help", "unlock --force job --node-timeout 1s"} {
		var log strings.Builder
		code := execute(append(nodesArgs(nodes), strings.Fields(args)...), brokenDisk{}, &log)
		assert.Equal(t, codeDanger, code, args)
		assert.Contains(t, log.String(), "no space left on device", args)
		assert.NotContains(t, log.String(), "Try redlock --help", args)
	}
}

func TestNodesComeFromFlagsOrTheEnvironment(t *testing.T) {
	nodes := redlocktest.Start(t, 3)
	urls := nodes.URLs()
	alone := func(args ...string) result {
		var out, log strings.Builder
		code := execute(append(args, "--restart-guard", "0", "inspect", "job", "--json"), &out, &log)
		return result{code, out.String(), log.String()}
	}
	r := alone()
	assert.Equal(t, codeConfig, r.code)
	assert.Contains(t, r.log, "no nodes: give --nodes or set REDLOCK_NODES")
	r = alone("--nodes", urls[0]+","+urls[1], "--nodes", urls[2])
	assert.Contains(t, r.out, "node 2")
	t.Setenv(nodesEnv, " "+urls[0]+" , "+urls[1]+"\n")
	r = alone()
	assert.Contains(t, r.out, "node 1")
	assert.NotContains(t, r.out, "node 2")
	r = alone("--nodes", urls[2])
	assert.NotContains(t, r.out, "node 1", "flags go before the environment")
	t.Setenv(nodesEnv, strings.ReplaceAll(urls[0]+","+urls[1], "redis://", "valkey://"))
	r = alone()
	assert.Contains(t, r.out, "node 1")
	r = alone("--nodes", urls[0]+","+strings.TrimPrefix(urls[1], "redis://"))
	assert.Equal(t, codeConfig, r.code)
	assert.Contains(t, r.log, "--nodes: URL 2 of 2 is bad: it must look like redis://host:port")
	t.Setenv(nodesEnv, "'redis://a,redis://b'")
	assert.Contains(t, alone().log, "REDLOCK_NODES: URL 1 of 2 is bad: it begins or ends with a quote")
	t.Setenv(nodesEnv, "redis://a,redis://b\r")
	assert.Contains(t, alone().log, "REDLOCK_NODES: URL 2 of 2 is bad: it has a carriage return")
}

func TestPasswordsAreNeverPrinted(t *testing.T) {
	nodes := redlocktest.Start(t, 1)
	host := strings.TrimPrefix(nodes.URLs()[0], "redis://")
	for _, urls := range []string{
		"redis://:hunter2@" + host, "redis://me:hunter2@" + host + ",redis://:hunter2@127.0.0.1:1",
		"redis://:hunter2@host:99999", "redis://:hunter2%zz@host", "redis://:/hunter2@host", "nonsense://:hunter2@host",
		"redis://hunter2@" + host, "redis://hunter2:@" + host, "hunter2://me:pw@host", "me:hunter2@host",
	} {
		for _, command := range []string{"inspect job", "inspect --json job", "doctor --for 0s", "doctor --json --for 0s", "run job --no-wait -- true", "unlock --force job"} {
			var out, log strings.Builder
			code := execute(append([]string{"--nodes", urls, "-v"}, strings.Fields(command)...), &out, &log)
			assert.NotZero(t, code, urls)
			assert.NotContains(t, out.String()+log.String(), "hunter2")
		}
	}
}

func TestHelpHasExamplesAndExitCodesForEveryCommand(t *testing.T) {
	for _, command := range newRoot().Commands() {
		var out strings.Builder
		require.Zero(t, execute([]string{command.Name(), "--help"}, &out, os.Stderr))
		assert.Contains(t, out.String(), "Exit codes:\n")
		if command.Name() != "help" && command.Name() != "completion" {
			assert.Contains(t, out.String(), "Examples:\n  redlock "+command.Name())
		}
	}
}

func TestShellsAreHelpedToComplete(t *testing.T) {
	for _, shell := range []string{"bash", "zsh", "fish", "powershell"} {
		var out strings.Builder
		require.Zero(t, execute([]string{"completion", shell}, &out, os.Stderr))
		assert.Contains(t, out.String(), "redlock")
	}
	var out strings.Builder
	require.Zero(t, execute([]string{"__complete", "doc"}, &out, io.Discard))
	assert.Contains(t, out.String(), "doctor\tExamine the nodes")
}

// keys are the sorted names of an object's fields.
func keys(object any) []string {
	var names []string
	for name := range object.(map[string]any) {
		names = append(names, name)
	}
	slices.Sort(names)
	return names
}

func TestBenchEndsWithoutAQuorum(t *testing.T) {
	t.Parallel()
	nodes := redlocktest.Start(t, 3)
	during := start(t, nodes, "bench", "--for", "2s", "--pause", "0s")
	eventually(t, func() bool { return strings.Contains(during.log.String(), "Writing") && len(nodes.Keys(0)) > 0 }, "at work")
	nodes.Stop(0)
	nodes.Stop(1)
	before := start(t, nodes, "bench")
	r := before.end()
	assert.Equal(t, codeNoQuorum, r.code)
	assert.Contains(t, r.log, "no quorum")
	r = during.end()
	assert.Equal(t, codeNoQuorum, r.code, r.log)
}

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

func TestAskReachesAHolderThatWantsToBeTold(t *testing.T) {
	nodes := redlocktest.Start(t, 3)
	lease := hold(t, nodes, "job", redlock.WithWanted(), redlock.WithOwnerLabel("the exporter"))
	v := call(nodes, "inspect", "--json", "job")
	assert.Contains(t, v.out, `"notifiable":true`)
	r := call(nodes, "ask", "job")
	require.Zero(t, r.code, r.log)
	assert.Equal(t, `job: asked the exporter (`+shortOwner(lease.Owner())+").\n", r.out)
	<-lease.Wanted()
	require.True(t, lease.Valid())
}

func TestAskSaysWhoIsNotAsked(t *testing.T) {
	nodes := redlocktest.Start(t, 3)
	r := call(nodes, "ask", "job")
	require.Zero(t, r.code, r.log)
	assert.Equal(t, "job: nobody holds it.\n", r.out)

	lease := hold(t, nodes, "job")
	r = call(nodes, "ask", "job")
	require.Zero(t, r.code, r.log)
	assert.Contains(t, r.out, "job: nobody was asked. It is held by the holder ("+shortOwner(lease.Owner())+") for another ")
	assert.Contains(t, call(nodes, "inspect", "--json", "job").out, `"notifiable":false`)

	assert.Equal(t, codeUsage, call(nodes, "ask").code)
	assert.Equal(t, codeUsage, call(nodes, "ask", "").code)
	nodes.Stop(0)
	nodes.Stop(1)
	r = call(nodes, "ask", "job")
	assert.Equal(t, codeNoQuorum, r.code)
	assert.Empty(t, r.out)
}

func TestTooLongNamesAreRefused(t *testing.T) {
	nodes := redlocktest.Start(t, 3)
	long := strings.Repeat("x", 5000)
	for _, args := range [][]string{
		{"run", long, "--", "true"},
		{"run", "a", long, "--", "true"},
		{"run", long, "--read", "--", "true"},
		{"run", long, "--permits", "2", "--", "true"},
		{"inspect", long},
		{"observe", long},
		{"unlock", "--force", long},
	} {
		r := call(nodes, args...)
		assert.Equal(t, codeConfig, r.code, args[0])
		assert.Contains(t, r.log, "is too long: with the prefix it has 5008 bytes, and may have 4096")
		assert.Less(t, len(r.log), 2000)
	}
}

func TestLossNamesItsReason(t *testing.T) {
	for want, err := range map[string]error{
		`by servers that lost memory, or by server clocks set forward`: &redlock.LostError{Reason: redlock.LostRevoked},
		`the lock is held by "x\x1b[2J" now`:                           &redlock.LostError{Reason: redlock.LostRevoked, Holder: "x\x1b[2J"},
		`it could not be renewed: no quorum`:                           &redlock.LostError{Reason: redlock.LostNoQuorum, Cause: redlock.ErrNoQuorum},
		`the machine was suspended`:                                    &redlock.LostError{Reason: redlock.LostExpired},
		`max hold`:                                                     &redlock.LostError{Reason: redlock.LostMaxHold},
		`something else`:                                               errors.New("something else"),
	} {
		assert.Contains(t, lossOf(fmt.Errorf("unlock: %w", err), false), want)
	}
}
