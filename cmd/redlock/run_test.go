//go:build unix

package main

import (
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"regexp"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/redlock-go/redlock/internal/overview"
	"github.com/redlock-go/redlock/internal/test/testclient"
	"github.com/redlock-go/redlock/redlocktest"
)

const (
	jobKey  = "redlock:job"
	unitEnv = "INVOCATION_ID" // systemd sets it in each unit
)

// startJob starts a script under the lock "job", and returns when it runs. $1 is a file for
// the script to write to, which begins with "ready".
func startJob(t *testing.T, nodes *redlocktest.Nodes, script string, flags ...string) (p *tool, file string) {
	t.Helper()
	return startTrapping(t, nodes, "", script, flags...)
}

// startTrapping is startJob for a script that sets traps: a signal before that would end it.
func startTrapping(t *testing.T, nodes *redlocktest.Nodes, traps, script string, flags ...string) (p *tool, file string) {
	t.Helper()
	file = filepath.Join(t.TempDir(), "written")
	args := append([]string{"run", "job"}, flags...)
	p = start(t, nodes, append(args, "--", "sh", "-c", traps+"\n"+`echo ready >>"$1"; `+script, "sh", file)...)
	eventually(t, func() bool { return textOf(file) != "" }, "at work")
	return p, file
}

func TestRunSetsNameOwnerAndTokenAndReleases(t *testing.T) {
	nodes := redlocktest.Start(t, 3)
	tokens := []string{}
	for range 2 {
		r := start(t, nodes, "run", "job", "--", "sh", "-c", "echo $REDLOCK_NAME $REDLOCK_OWNER $REDLOCK_TOKEN").end()
		require.Zero(t, r.code, r.log)
		require.Empty(t, r.log)
		words := strings.Fields(r.out)
		require.Len(t, words, 3)
		assert.Equal(t, "job", words[0])
		assert.Contains(t, words[1], "@")
		tokens = append(tokens, words[2])
		for i := range 3 {
			eventually(t, func() bool { _, held := nodes.Get(i, jobKey); return !held }, "released everywhere")
		}
	}
	assert.Equal(t, []string{"1", "2"}, tokens)
}

func TestTheExitCodeIsTheCommandsOwn(t *testing.T) {
	nodes := redlocktest.Start(t, 1)
	for script, code := range map[string]int{"exit 0": 0, "exit 3": 3, "kill -9 $$": 137, "kill -15 $$": 143} {
		assert.Equal(t, code, start(t, nodes, "run", "job", "--", "sh", "-c", script).end().code, script)
	}
}

func TestCommandThatCannotBeRunIsAnErrorBeforeTheWait(t *testing.T) {
	nodes := redlocktest.Start(t, 1)
	hold(t, nodes, "job")
	plain := filepath.Join(t.TempDir(), "plain")
	require.NoError(t, os.WriteFile(plain, []byte("echo"), 0o600))
	assert.Equal(t, codeNotFound, start(t, nodes, "run", "job", "--", "there-is-no-such-command").end().code)
	assert.Equal(t, codeNotFound, start(t, nodes, "run", "job", "--", "./nothing").end().code)
	assert.Equal(t, codeNotExecutable, start(t, nodes, "run", "job", "--", plain).end().code)
	require.NoError(t, os.Chmod(plain, 0o700))
	assert.Equal(t, codeNotExecutable, start(t, nodes, "run", "other", "--", plain).end().code, "without #!")
	eventually(t, func() bool { _, held := nodes.Get(0, "redlock:other"); return !held }, "released")
}

func TestAHeldLockHasAnExitCodeOfItsOwn(t *testing.T) {
	t.Parallel()
	nodes := redlocktest.Start(t, 3)
	lease := hold(t, nodes, "job")
	ran := filepath.Join(t.TempDir(), "ran")
	r := start(t, nodes, "run", "job", "--no-wait", "--", "touch", ran).end()
	assert.Equal(t, codeHeld, r.code)
	assert.Contains(t, r.log, "the holder")
	r = start(t, nodes, "run", "job", "--wait", "3s", "--", "touch", ran).end()
	assert.Equal(t, codeHeld, r.code)
	assert.Contains(t, r.log, "the time of --wait is over")
	r = start(t, nodes, "run", "job", "--no-wait", "--quiet", "--", "touch", ran).end()
	assert.Equal(t, result{code: codeHeld}, r)
	assert.NoFileExists(t, ran)

	silent := start(t, nodes, "run", "job", "--quiet", "--", "true")
	waiting := start(t, nodes, "run", "job", "--", "touch", ran)
	eventually(t, func() bool { return strings.Contains(call(nodes, "inspect", "--json", "job").out, `"waiting":2`) }, "in the queue")
	eventually(t, func() bool { return waiting.log.String() != "" }, "what it waits for")
	require.NoError(t, lease.Unlock(t.Context()))
	r = waiting.end()
	assert.Zero(t, r.code, "by default it waits")
	assert.Regexp(t, `^redlock: waiting for "job": the holder holds it, [12] in the wait queue\n$`, r.log, "a cron job's mail shows for what it waited")
	assert.FileExists(t, ran)
	assert.Equal(t, result{}, silent.end())
}

func TestACommandIsNotStoppedForALeaseThatIsYoung(t *testing.T) {
	t.Parallel()
	nodes := redlocktest.Start(t, 3)
	lease := hold(t, nodes, "job")
	watch := testclient.Open(t, nodes.URLs())
	waiting := start(t, nodes, "run", "job", "--ttl", "10s", "--stop-before", "4500ms", "--", "true")
	eventually(t, func() bool {
		s, err := watch.Inspect(t.Context(), "job")
		return err == nil && len(s.Queue) == 1
	}, "in the queue")
	require.NoError(t, lease.Unlock(t.Context())) // the release executes the parked attempt
	r := waiting.end()
	assert.Zero(t, r.code, r.log)
}

func TestTooFewNodesHaveAnExitCodeOfTheirOwn(t *testing.T) {
	t.Parallel()
	nodes := redlocktest.Start(t, 3)
	nodes.Stop(0)
	nodes.Stop(1)
	assert.Equal(t, codeNoQuorum, start(t, nodes, "run", "job", "--no-wait", "--", "true").end().code)
	r := start(t, nodes, "run", "job", "--wait", "3s", "--", "true").end()
	assert.Equal(t, codeNoQuorum, r.code)
	assert.Contains(t, r.log, "node 1")
}

// writer is a script that ignores SIGTERM and writes, as its child does, until it is
// killed.
const writer = `trap '' TERM; (while :; do date +child >>"$1"; sleep 0.02; done) & while :; do date +self >>"$1"; sleep 0.02; done`

func TestAQuorumLostInMidRunEndsACommandThatIgnoresSIGTERM(t *testing.T) {
	t.Parallel()
	nodes := redlocktest.Start(t, 3)
	file := filepath.Join(t.TempDir(), "written")
	p := start(t, nodes, "run", "job", "--ttl", "6s", "--node-timeout", "2900ms", "--", "sh", "-c", writer, "sh", file)
	eventually(t, func() bool { return strings.Contains(textOf(file), "self") }, "at work")
	nodes.Stop(0)
	nodes.Stop(2)
	r := p.end()
	assert.Equal(t, codeLost, r.code, r.log)
	ends := regexp.MustCompile(`could not be renewed, and ends in (\S+): the command gets SIGTERM, and in 1.8s SIGKILL`).FindStringSubmatch(r.log)
	require.NotNil(t, ends, r.log)
	left, err := time.ParseDuration(ends[1])
	require.NoError(t, err)
	assert.LessOrEqual(t, left, 1800*time.Millisecond)
	assert.Positive(t, left, "SIGTERM comes before the end")
	assertStill(t, file)
}

func TestALossEndsWhatTheCommandLeavesBehind(t *testing.T) {
	t.Parallel()
	nodes := redlocktest.Start(t, 1)
	file := filepath.Join(t.TempDir(), "written")
	p := start(t, nodes, "run", "job", "--ttl", "2s", "--node-timeout", "900ms", "--", "sh", "-c",
		`(trap '' TERM; while :; do date >>"$1"; sleep 0.02; done) & wait`, "sh", file)
	eventually(t, func() bool { return textOf(file) != "" }, "at work")
	nodes.Stop(0)
	assert.Equal(t, codeLost, p.end().code)
	assertStill(t, file)
}

func TestACommandThatEndsWellAfterALossHasTheCodeOfTheLoss(t *testing.T) {
	t.Parallel()
	nodes := redlocktest.Start(t, 3)
	file := filepath.Join(t.TempDir(), "written")
	p := start(t, nodes, "run", "job", "--ttl", "2s", "--node-timeout", "900ms", "--grace", "10s", "--", "sh", "-c",
		`trap 'echo bye >>"$1"; exit 0' TERM; echo ready >>"$1"; while :; do sleep 0.01; done`, "sh", file)
	eventually(t, func() bool { return strings.Contains(textOf(file), "ready") }, "at work")
	for i := range 3 {
		nodes.Wipe(i)
	}
	r := p.end()
	assert.Equal(t, codeLost, r.code, r.log)
	// The shell may print before redlock does, which signals first.
	assert.Regexp(t, `(?m)^redlock: the lock "job" was lost: its keys were deleted or replaced.*`+
		`: the command gets SIGTERM, and in 10s SIGKILL\n`, r.log)
	assert.Equal(t, 1, strings.Count(r.log, "redlock: "), "one line, beside the shell's own: %s", r.log)
	assert.LessOrEqual(t, len(strings.Fields(r.log)), 40)
	assert.Equal(t, "ready\nbye\n", textOf(file))
}

func TestALossThatShowsAtTheReleaseHasTheSameCode(t *testing.T) {
	t.Parallel()
	nodes := redlocktest.Start(t, 3)
	p, file := startJob(t, nodes, `while [ ! -s "$1.go" ]; do sleep 0.01; done`, "--ttl", "60s")
	for i := range 3 { // run did not wait for the last node's grant
		eventually(t, func() bool { _, held := nodes.Get(i, jobKey); return held }, "held everywhere")
	}
	for i := range 3 {
		nodes.Wipe(i)
	}
	require.NoError(t, os.WriteFile(file+".go", []byte("go"), 0o600))
	r := p.end()
	assert.Equal(t, codeLost, r.code, r.log)
	assert.Contains(t, r.log, "somebody else may have held it meanwhile: its keys were deleted or replaced")
}

func TestALossEndsACommandThatIsStopped(t *testing.T) {
	t.Parallel()
	nodes := redlocktest.Start(t, 1)
	p, file := startTrapping(t, nodes, `trap 'echo bye >>"$1"; exit' TERM`, `kill -STOP $$; while :; do sleep 0.01; done`, "--ttl", "2s", "--node-timeout", "900ms", "--grace", "1m")
	nodes.Stop(0)
	assert.Equal(t, codeLost, p.end().code)
	assert.Equal(t, "ready\nbye\n", textOf(file), "it handled SIGTERM, and was not killed at the end of the grace")
}

func TestWithoutStopBeforeTheCommandIsStoppedAtTheEndOfValidity(t *testing.T) {
	t.Parallel()
	nodes := redlocktest.Start(t, 1)
	p, _ := startJob(t, nodes, "sleep 60", "--ttl", "2s", "--node-timeout", "900ms", "--stop-before", "0")
	nodes.Stop(0)
	r := p.end()
	assert.Equal(t, codeLost, r.code)
	assert.Regexp(t, `was lost|ends in 0s`, r.log)
	assert.Equal(t, 1, strings.Count(r.log, "SIGTERM"), r.log)
	assert.NotContains(t, r.log, "a lease", "the library's lines about it are for -v")
}

// unignore lets the tools that a test starts, and their commands, receive a signal that this
// process ignores since its start, as under nohup and in shells' background jobs. It must
// not call signal.Ignored first: that returns false once a listener of this process has
// stopped, though the kernel ignores the signal again from then on.
func unignore(t *testing.T, sig os.Signal) {
	listener := make(chan os.Signal, 1)
	signal.Notify(listener, sig)
	t.Cleanup(func() { signal.Stop(listener) })
}

func TestEverySignalReachesTheCommandOnce(t *testing.T) {
	bash, err := exec.LookPath("bash")
	if err != nil {
		t.Skip("needs bash, whose trap knows all signals")
	}
	nodes := redlocktest.Start(t, 1)
	for _, sig := range []syscall.Signal{syscall.SIGINT, syscall.SIGHUP, syscall.SIGQUIT} {
		unignore(t, sig)
	}
	forRedlock := []syscall.Signal{syscall.SIGCHLD, syscall.SIGURG, syscall.SIGPIPE, syscall.SIGKILL, syscall.SIGSTOP,
		syscall.SIGTSTP, syscall.SIGTTIN, syscall.SIGTTOU, syscall.SIGCONT}
	last := syscall.Signal(31)
	if runtime.GOOS == "linux" {
		last = 64
	}
	var all []string
	for sig := syscall.Signal(1); sig <= last; sig++ {
		if slices.Contains(forRedlock, sig) {
			require.NotContains(t, forwarded(), sig)
		} else if sig < 32 && sig != syscall.SIGPROF || sig > 34 { // Go, and C libraries, keep the others for themselves
			all = append(all, strconv.Itoa(int(sig)))
		}
	}
	file := filepath.Join(t.TempDir(), "got")
	p := start(t, nodes, "run", "job", "--", bash, "-c", `for n in `+strings.Join(all, " ")+`; do trap "echo $n >>$1" $n; done
		trap "exit 7" TERM; touch "$1"; while :; do sleep 0.01; done`, "bash", file)
	eventually(t, func() bool { _, err := os.Stat(file); return err == nil }, "ready")
	all = slices.DeleteFunc(all, func(n string) bool { return n == "15" })
	for i, n := range all {
		number, _ := strconv.Atoi(n)
		require.NoError(t, p.cmd.Process.Signal(syscall.Signal(number)))
		eventually(t, func() bool { return len(strings.Fields(textOf(file))) > i }, "signal "+n)
	}
	require.NoError(t, p.cmd.Process.Signal(syscall.SIGTERM))
	assert.Equal(t, 7, p.end().code)
	assert.Equal(t, all, strings.Fields(textOf(file)))
}

// As shells, supervisors and timeout(1) send it: to redlock and what stands beside it, also in a unit of systemd.
func TestASignalToRedlocksGroupReachesTheCommandOnce(t *testing.T) {
	t.Run("plain", func(t *testing.T) { t.Setenv(unitEnv, ""); signalGroup(t) })
	t.Run("unit", func(t *testing.T) { t.Setenv(unitEnv, "0123456789abcdef"); signalGroup(t) })
}

func signalGroup(t *testing.T) {
	t.Helper()
	nodes := redlocktest.Start(t, 1)
	file := filepath.Join(t.TempDir(), "got")
	p := &tool{t: t, over: make(chan struct{})}
	p.cmd = exec.Command(os.Args[0], append(nodesArgs(nodes), "run", "job", "--", "sh", "-c",
		`trap 'echo TERM >>"$1"' TERM; trap 'echo USR1 >>"$1"' USR1; trap 'exit 7' USR2; touch "$1"; while :; do sleep 0.01; done`, "sh", file)...)
	p.cmd.Env = append(os.Environ(), toolEnv+"=1", "GORACE=atexit_sleep_ms=0")
	p.cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	p.run()
	eventually(t, func() bool { _, err := os.Stat(file); return err == nil }, "at work")
	want := ""
	for _, sig := range []syscall.Signal{syscall.SIGTERM, syscall.SIGUSR1, syscall.SIGTERM, syscall.SIGUSR1} {
		want += map[syscall.Signal]string{syscall.SIGTERM: "TERM\n", syscall.SIGUSR1: "USR1\n"}[sig]
		require.NoError(t, syscall.Kill(-p.cmd.Process.Pid, sig))
		eventually(t, func() bool { return len(textOf(file)) >= len(want) }, "each arrives")
		assert.Equal(t, want, textOf(file))
	}
	require.NoError(t, p.cmd.Process.Signal(syscall.SIGUSR2))
	assert.Equal(t, 7, p.end().code)
}

func TestASignalThatEndsContinuesACommandThatIsStopped(t *testing.T) {
	nodes := redlocktest.Start(t, 1)
	asking := []syscall.Signal{syscall.SIGTERM, syscall.SIGINT, syscall.SIGHUP, syscall.SIGQUIT, syscall.SIGALRM, syscall.SIGABRT}
	for _, sig := range asking {
		unignore(t, sig)
	}
	for _, sig := range asking {
		p, _ := startTrapping(t, nodes, `trap "exit 7" TERM INT HUP QUIT ALRM ABRT`, `kill -STOP $$; while :; do sleep 0.01; done`)
		require.NoError(t, p.cmd.Process.Signal(sig))
		assert.Equal(t, 7, p.end().code, sig)
	}
}

func TestSignalEndsTheWait(t *testing.T) {
	nodes := redlocktest.Start(t, 1)
	lease := hold(t, nodes, "job")
	shown := func() string { return call(nodes, "inspect", "--json", "job").out }
	unignore(t, syscall.SIGHUP)
	for _, sig := range []syscall.Signal{syscall.SIGTERM, syscall.SIGHUP, syscall.SIGALRM, syscall.SIGUSR1, syscall.SIGXCPU} {
		p := start(t, nodes, "run", "job", "--", "true")
		eventually(t, func() bool { return strings.Contains(shown(), `"waiting":1`) }, "in the queue")
		require.NoError(t, p.cmd.Process.Signal(syscall.SIGWINCH)) // a window that changes its size ends nothing
		assert.Contains(t, shown(), `"waiting":1`)
		require.NoError(t, p.cmd.Process.Signal(sig))
		assert.Equal(t, signalCode(sig), p.end().code)
		assert.Contains(t, shown(), `"waiters":[]`)
	}
	assert.True(t, lease.Valid())
}

func TestTheLockOfAToolThatWasKilledEndsWithItsTTL(t *testing.T) {
	t.Parallel()
	nodes := redlocktest.Start(t, 3)
	file := filepath.Join(t.TempDir(), "written")
	p := start(t, nodes, "run", "job", "--ttl", "4s", "--node-timeout", "1900ms", "--", "sh", "-c",
		`trap 'echo asked >>"$1"; exit' TERM; echo ready >>"$1"; for i in $(seq 500); do sleep 0.01; done`, "sh", file)
	eventually(t, func() bool { return strings.Contains(textOf(file), "ready") }, "at work")
	require.NoError(t, p.cmd.Process.Kill())
	p.end()
	assert.Equal(t, codeHeld, start(t, nodes, "run", "job", "--ttl", "4s", "--node-timeout", "1900ms", "--no-wait", "--", "true").end().code, "still held")
	assert.Zero(t, start(t, nodes, "run", "job", "--ttl", "4s", "--node-timeout", "1900ms", "--wait", "15s", "--", "true").end().code)
	if runtime.GOOS == "linux" {
		assert.Contains(t, textOf(file), "asked", "the kernel sent SIGTERM")
	}
}

func TestAToolThatWasStoppedForTooLongEndsItsCommand(t *testing.T) {
	t.Parallel()
	nodes := redlocktest.Start(t, 3)
	p, _ := startJob(t, nodes, "sleep 60", "--ttl", "2s", "--node-timeout", "900ms")
	require.NoError(t, p.cmd.Process.Signal(syscall.SIGSTOP))
	time.Sleep(2200 * time.Millisecond)
	require.NoError(t, p.cmd.Process.Signal(syscall.SIGCONT))
	assert.Equal(t, codeLost, p.end().code)
}

func TestUnconfirmedReleaseIsPrinted(t *testing.T) {
	t.Parallel()
	nodes := redlocktest.Start(t, 3)
	p, file := startJob(t, nodes, `while [ ! -s "$1.go" ]; do sleep 0.01; done`)
	nodes.Stop(0)
	nodes.Stop(1)
	require.NoError(t, os.WriteFile(file+".go", []byte("go"), 0o600))
	r := p.end()
	assert.Zero(t, r.code, "the command did well, under the lock")
	assert.Contains(t, r.log, "the release was not confirmed by a majority, so the lock may stay held for up to 10s")
}

// assertStill expects that no process writes to the file any more.
func assertStill(t *testing.T, file string) {
	t.Helper()
	before := textOf(file)
	time.Sleep(200 * time.Millisecond)
	assert.Equal(t, len(before), len(textOf(file)), "somebody still writes")
}

func textOf(file string) string {
	text, _ := os.ReadFile(file)
	return string(text)
}

// Cron sends each line that a job prints as a mail.
func TestQuietSaysNothingWhileLocksAreAvailable(t *testing.T) {
	t.Parallel()
	nodes := redlocktest.Start(t, 3)
	nodes.Stop(1)
	loud := start(t, nodes, "run", "loud", "--", "sleep", "1")
	assert.Equal(t, result{}, start(t, nodes, "run", "silent", "-q", "--", "sleep", "1").end())
	r := loud.end()
	assert.Zero(t, r.code)
	assert.Contains(t, r.log, "a node is down; locks go on while a majority votes")

	nodes.Stop(2)
	r = start(t, nodes, "run", "silent", "-q", "--wait", "1s", "--", "true").end()
	assert.Equal(t, codeNoQuorum, r.code)
	assert.Contains(t, r.log, "no quorum")
}

func TestRunTakesSeveralNamesAtOnce(t *testing.T) {
	t.Parallel()
	nodes := redlocktest.Start(t, 3)
	r := start(t, nodes, "run", "b", "a", "--", "sh", "-c", `echo "$REDLOCK_NAME|$REDLOCK_NAMES"`).end()
	assert.Zero(t, r.code, r.log)
	assert.Equal(t, "a, b|a\nb\n", r.out)

	nested := append([]string{os.Args[0]}, append(nodesArgs(nodes), "run", "c", "b", "--", "true")...)
	r = start(t, nodes, append([]string{"run", "a", "b", "--"}, nested...)...).end()
	assert.Equal(t, codeUsage, r.code)
	assert.Contains(t, r.log, `under the lock "b"`)

	p, file := startJob(t, nodes, `while [ ! -s "$1.go" ]; do sleep 0.01; done`)
	r = start(t, nodes, "run", "other", "job", "--no-wait", "--", "true").end()
	assert.Equal(t, codeHeld, r.code, "job is held")
	assert.Zero(t, start(t, nodes, "run", "other", "--no-wait", "--", "true").end().code)
	require.NoError(t, os.WriteFile(file+".go", []byte("go"), 0o600))
	assert.Zero(t, p.end().code)

	assert.Equal(t, codeUsage, start(t, nodes, "run", "--read", "a", "b", "--", "true").end().code)
}

// A run that waits prints the name that is held. It leaves no trace of the others when it gives up.
func TestRunSaysWhichOfSeveralNamesItWaitsFor(t *testing.T) {
	nodes := redlocktest.Start(t, 3)
	hold(t, nodes, "b")
	hold(t, nodes, "c")
	text := waitOnce(t, nodes, &runFlags{}, "a", "b", "c")
	assert.Regexp(t, `waiting for "b": the holder holds it, [01] in the wait queue`, text, "0: it has not joined the queue yet")
	assert.Zero(t, call(nodes, "run", "a", "--no-wait", "--", "true").code, "nothing of the run is left")
}

func TestErrorOfARunHasTheNamesInOrder(t *testing.T) {
	nodes := redlocktest.Start(t, 3)
	hold(t, nodes, "b")
	r := call(nodes, "run", "c", "b", "a", "--no-wait", "--", "true")
	assert.Equal(t, codeHeld, r.code)
	assert.Contains(t, r.log, `"a, b, c": held by "`)
}

// A command with --min-hold ends at once, and its lock rests.
func TestMinHoldKeepsTheLockTakenWhenTheCommandHasEnded(t *testing.T) {
	t.Parallel()
	nodes := redlocktest.Start(t, 3)
	began := time.Now()
	r := start(t, nodes, "run", "job", "--ttl", "10m", "--min-hold", "10m", "--", "sh", "-c", "echo $REDLOCK_OWNER; exit 3").end()
	require.Equal(t, 3, r.code, r.log)
	require.Less(t, time.Since(began), 5*time.Minute)
	v := inspectJSON(t, nodes, "job")
	assert.Equal(t, overview.Resting, v.State)
	assert.Equal(t, r.out, v.Holders[0].Owner+"\n")
	assert.InDelta(t, 600, *v.Holders[0].Remaining, 120)
	assert.Contains(t, call(nodes, "inspect", "job").out, "job: resting after ")

	next := start(t, nodes, "run", "job", "--no-wait", "--", "true").end()
	assert.Equal(t, codeHeld, next.code)
	assert.Contains(t, next.log, "resting after its lease of")
	assert.Contains(t, unlock(nodes, "--force", "job").out, "job: broken. It rested after ")
	assert.Zero(t, start(t, nodes, "run", "job", "--no-wait", "--", "true").end().code)
}

func TestMinHoldIsForOneNameAndAtMostTheTTL(t *testing.T) {
	nodes := redlocktest.Start(t, 1)
	for _, flags := range [][]string{{"--min-hold", "-1s", "a"}, {"--min-hold", "11s", "a"}, {"--min-hold", "1s", "--read", "a"}, {"--min-hold", "1s", "a", "b"}} {
		r := start(t, nodes, append(append([]string{"run"}, flags...), "--", "true")...).end()
		assert.Equal(t, codeUsage, r.code, r.log)
		assert.Contains(t, r.log, "--min-hold")
	}
}
