//go:build unix

package main

import (
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/redlock-go/redlock/redlocktest"
)

func TestReadyAwaitsNodesThatMayNotVoteYet(t *testing.T) {
	t.Parallel()
	tryRun := func(nodes *redlocktest.Nodes, guard string, ready ...string) result {
		t.Helper()
		args := append([]string{"--restart-guard", guard, "run", "job", "--ttl", "1s", "--node-timeout", "490ms", "--no-wait"}, ready...)
		return start(t, nodes, append(args, "--", "true")...).end()
	}
	nodes := redlocktest.Start(t, 3)
	r := tryRun(nodes, "1h")
	assert.Equal(t, codeNoQuorum, r.code, "without --ready: %s", r.log)
	r = tryRun(nodes, "1h", "--ready", "2s")
	assert.Equal(t, codeNoQuorum, r.code)
	assert.Regexp(t, `redlock: no majority of the nodes votes after 2s \(--ready\), and the command is not run: `+
		`node 0 \(\S+\): quarantined: it does not vote for another .*; node 2 .*`+
		`; they vote in \S+: give --ready more time than the longest ttl of all clients, and than 20s\n$`, r.log)
	r = tryRun(redlocktest.Start(t, 3), "1s", "--ready", "15s")
	assert.Zero(t, r.code, r.log)
}

// A time that is over before any node has answered is no other failure.
func TestReadyOfNoTimeFindsNoMajority(t *testing.T) {
	r := start(t, redlocktest.Start(t, 3), "run", "job", "--no-wait", "--ready", "1ns", "--", "true").end()
	assert.Equal(t, codeNoQuorum, r.code)
	assert.Regexp(t, `^redlock: no majority of the nodes votes after 1ns \(--ready\), and the command is not run: .*redlock doctor says what to do\n$`, r.log)
}

func TestReadyNeverAwaitsAHolder(t *testing.T) {
	t.Parallel()
	nodes := redlocktest.Start(t, 3)
	hold(t, nodes, "job")
	for _, wait := range [][]string{{"--no-wait"}, {"--wait", "300ms"}} {
		began := time.Now()
		r := start(t, nodes, append(append([]string{"run", "job", "--ready", "1h"}, wait...), "--", "true")...).end()
		assert.Equal(t, codeHeld, r.code, "%s: %s", wait, r.log)
		assert.Less(t, time.Since(began), 20*time.Second, wait)
	}
}

func TestReadyNamesNodesThatDoNotAnswer(t *testing.T) {
	t.Parallel()
	nodes := redlocktest.Start(t, 3)
	nodes.Stop(0)
	nodes.Stop(1)
	r := start(t, nodes, "run", "job", "--no-wait", "--ready", "300ms", "--", "true").end()
	assert.Equal(t, codeNoQuorum, r.code)
	assert.Regexp(t, `redlock: no majority of the nodes votes after 300ms .*node 0 \(\S+\): down: cannot connect: .*node 1 .*; redlock doctor says what to do\n$`, r.log)
	p := start(t, nodes, "run", "job", "--ready", "1h", "--", "true")
	eventually(t, func() bool { return strings.Contains(p.log.String(), "node 1") }, "at work")
	require.NoError(t, p.cmd.Process.Signal(syscall.SIGTERM))
	r = p.end()
	assert.Equal(t, signalCode(syscall.SIGTERM), r.code)
	assert.Contains(t, r.log, "redlock: waiting until a majority of the nodes votes: ended by signal: terminated\n")
}

// Others may have reached the nodes, and their minimum hold may be over. Nodes that forgot show that nobody had a lock.
func TestReadyIsTooLateAfterHalfAMinimumHold(t *testing.T) {
	t.Parallel()
	for guard, want := range map[string]struct {
		code int
		log  string
	}{
		"0s": {codeNoQuorum, `more than half of --min-hold \(2s\): the command is not run, since another machine may have run it meanwhile\n$`},
		"1s": {0, `a node does not vote yet`}, // they forgot: each has another run after a start
	} {
		t.Run(guard, func(t *testing.T) {
			t.Parallel()
			nodes := redlocktest.Start(t, 3)
			for i := range 3 {
				nodes.Stop(i)
			}
			p := start(t, nodes, "--restart-guard", guard, "run", "job", "--no-wait", "--ready", "1m", "--ttl", "2s", "--min-hold", "2s", "--node-timeout", "900ms", "--", "true")
			eventually(t, func() bool { return strings.Contains(p.log.String(), "node 1") }, "at work")
			time.Sleep(1500 * time.Millisecond)
			for i := range 3 {
				require.NoError(t, nodes.Start(i))
			}
			r := p.end()
			assert.Equal(t, want.code, r.code, r.log)
			assert.Regexp(t, want.log, r.log)
		})
	}
}

// A label is text from others: it is shown as one line without escape sequences.
func TestLabelIsWhatOthersSee(t *testing.T) {
	nodes := redlocktest.Start(t, 3)
	file := filepath.Join(t.TempDir(), "text")
	requireShown := func(label string) {
		t.Helper()
		for _, view := range [][]string{{"inspect", "job"}, {"ls"}, {"top"}, {"run", "job", "--no-wait", "--", "true"}} {
			r := call(nodes, view...)
			assert.Contains(t, r.out+r.log, label, view)
			assert.NotContains(t, r.out+r.log, "\x1b", view)
		}
	}
	r := start(t, nodes, "run", "job", "--ttl", "1m", "--label", "a \x1b[2Jjob\nof \"vm\"", "--transfer", file, "--", "true").end()
	require.Zero(t, r.code, r.log)
	requireShown(`a \x1b[2Jjob\nof`)

	t.Setenv(labelEnv, "nightly-42")
	p := start(t, nodes, "resume", "--from", file, "--", "sh", "-c", "echo ready; exec sleep 20")
	eventually(t, func() bool { return p.out.String() == "ready\n" }, "at work")
	requireShown("nightly-42")
	r = start(t, nodes, "run", "job", "--label", strings.Repeat("x", 257), "--", "true").end()
	assert.Equal(t, codeUsage, r.code)
	assert.Contains(t, r.log, "--label, or REDLOCK_LABEL, has 257 bytes: at most 256 are possible")
}
