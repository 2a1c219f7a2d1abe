//go:build linux

package main

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/redlock-go/redlock/redlocktest"
)

// ownNamespace are unshare's flags for a command that is process 1 of a namespace of its own.
var ownNamespace = []string{"--user", "--map-root-user", "--pid", "--fork", "--kill-child", "--mount-proc"}

func needNamespaces(t *testing.T) {
	t.Helper()
	if text, err := exec.Command("unshare", slices.Concat(ownNamespace, []string{"true"})...).CombinedOutput(); err != nil {
		t.Skipf("needs namespaces for processes: %v %s", err, text)
	}
}

// inContainer runs a command as process 1 of a namespace of its own.
func inContainer(t *testing.T, args ...string) *tool {
	t.Helper()
	needNamespaces(t)
	line := slices.Concat(ownNamespace, args)
	p := &tool{t: t, over: make(chan struct{})}
	p.cmd = exec.Command("unshare", line...)
	p.cmd.Env = append(os.Environ(), toolEnv+"=1", "GORACE=atexit_sleep_ms=0")
	p.cmd.Stdout, p.cmd.Stderr = &p.out, &p.log
	p.run()
	return p
}

func TestProcess1ReapsOrphans(t *testing.T) {
	nodes := redlocktest.Start(t, 1)
	args := append(append([]string{os.Args[0]}, nodesArgs(nodes)...), "run", "job", "--", "sh", "-c",
		`for i in 1 2 3; do (sleep 0.1 &); done; sleep 0.2; i=0
		while grep -qs '^State:.Z' /proc/[0-9]*/status && [ $i -lt 50 ]; do sleep 0.1; i=$((i+1)); done
		[ $i -lt 50 ] && exit 7`)
	r := inContainer(t, args...).end()
	assert.Equal(t, 7, r.code, "no zombie is left, and the code is the command's: %s", r.log)
}

// endsEarly is a command that ends at SIGTERM before its child does.
const endsEarly = `(trap 'sleep 0.2; exit' TERM; while :; do sleep 0.01; done) & trap 'exit' TERM; touch "$1"; while :; do sleep 0.01; done`

func TestProcess1EndsWithTheLastProcessOfTheCommand(t *testing.T) {
	t.Parallel()
	nodes := redlocktest.Start(t, 1)
	file := filepath.Join(t.TempDir(), "ready")
	p := inContainer(t, append(append([]string{os.Args[0]}, nodesArgs(nodes)...), "run", "job", "--grace", "5m", "--", "sh", "-c", endsEarly, "sh", file)...)
	eventually(t, func() bool { _, err := os.Stat(file); return err == nil }, "at work")
	require.Zero(t, unlock(nodes, "--force", "job").code)
	assert.Equal(t, codeLost, p.end().code, "the grace is longer than this test waits")
}

func TestZombiesThatNobodyReapsDoNotDelayTheEnd(t *testing.T) {
	t.Parallel()
	nodes := redlocktest.Start(t, 1)
	file := filepath.Join(t.TempDir(), "ready")
	line := os.Args[0] + " " + strings.Join(nodesArgs(nodes), " ") + ` run job --grace 5m -- sh -c "$0" sh "$1"`
	inContainer(t, "sh", "-c", "("+line+`; echo "code:$?" >"$1.code") & exec sleep 300`, endsEarly, file) // sleep reaps nothing
	eventually(t, func() bool { _, err := os.Stat(file); return err == nil }, "at work")
	require.Zero(t, unlock(nodes, "--force", "job").code)
	eventually(t, func() bool { return textOf(file+".code") == "code:76\n" }, "the end")
}

func TestStateOfAProcessInAGroup(t *testing.T) {
	for line, state := range map[string]byte{
		"12 (sh) S 1 7 7 0":          'S',
		"12 (sh) Z 1 7 7 0":          'Z',
		"12 (sh) S 1 8 7 0":          0,
		"12 (a) Z 1 7 (b) R 1 7 7 0": 'R',
		"12 (sh":                     0,
	} {
		assert.Equal(t, state, stateIn(7, []byte(line)), line)
	}
}

// descendants returns a process and those that it started, as a control group has them.
func descendants(pid int) []int {
	all := []int{pid}
	threads, _ := os.ReadDir(fmt.Sprintf("/proc/%d/task", pid))
	for _, thread := range threads {
		text, _ := os.ReadFile(fmt.Sprintf("/proc/%d/task/%s/children", pid, thread.Name()))
		for _, child := range strings.Fields(string(text)) {
			n, _ := strconv.Atoi(child)
			all = append(all, descendants(n)...)
		}
	}
	return all
}

// A broadcast between the two starts would otherwise end the witness, and never reach the command.
func TestTheWitnessStartsBehindTheCommand(t *testing.T) {
	t.Setenv(unitEnv, "0123456789abcdef")
	j := newJobs()
	assert.Nil(t, j.witness)
	j.terminal = -1
	j.begin(0)
	assert.NotNil(t, j.witness)
	j.end()
}

// redlock may receive another signal ahead of the one that has ended the witness: the command lacks that one.
func TestAWitnessSawTheSignalThatEndedIt(t *testing.T) {
	t.Setenv(unitEnv, "0123456789abcdef")
	w := newWitness()
	defer w.end()
	require.NoError(t, w.cmd.Process.Signal(syscall.SIGTERM))
	assert.True(t, w.saw(syscall.SIGTERM))
	assert.False(t, w.saw(syscall.SIGUSR1))
}

func TestASignalToAWholeUnitOfSystemdReachesTheCommandOnce(t *testing.T) {
	nodes := redlocktest.Start(t, 1)
	t.Setenv(unitEnv, "0123456789abcdef")
	p, file := startTrapping(t, nodes, `trap 'echo TERM >>"$1"' TERM; trap 'echo USR1 >>"$1"' USR1; trap 'exit 7' USR2`, `while :; do sleep 0.01; done`)
	want := "ready\n"
	for _, whole := range []bool{true, true, false, true} {
		to := []int{p.cmd.Process.Pid}
		if whole {
			to = descendants(p.cmd.Process.Pid)
			require.Greater(t, len(to), 2)
		}
		for _, pid := range to { // systemd begins with the main process
			_ = syscall.Kill(pid, syscall.SIGTERM)
		}
		want += "TERM\n"
		eventually(t, func() bool { return len(textOf(file)) >= len(want) }, "it arrives")
		// What redlock forwards comes in the order of its signals.
		require.NoError(t, p.cmd.Process.Signal(syscall.SIGUSR1))
		want += "USR1\n"
		eventually(t, func() bool { return strings.HasSuffix(textOf(file), "USR1\n") }, "the next one arrives")
		assert.Equal(t, want, textOf(file))
	}
	require.NoError(t, p.cmd.Process.Signal(syscall.SIGUSR2))
	assert.Equal(t, 7, p.end().code)
}

// hidingProc starts redlock where /proc shows it no process of another user.
const hidingProc = `mount -t proc -o hidepid=invisible,gid=65533 proc /proc &&
	exec setpriv --bounding-set -kill,-sys_ptrace "$0" "$@"`

func TestACommandThatMayNotBeSignalledGoesOnWithACodeOfItsOwn(t *testing.T) {
	if _, err := exec.LookPath("setpriv"); err != nil || os.Getuid() != 0 {
		t.Skip("needs root, and setpriv of util-linux, to run a command as another user")
	}
	const (
		other         = `setpriv --reuid 65534 --clear-groups sh -c 'trap "" TERM; echo "pid:$$"; while :; do sleep 0.02; done'`
		refusedAtOnce = "cannot signal the command (operation not permitted): it goes on WITHOUT the lock"
		asked         = "the command gets SIGTERM"
		refused       = "processes of the command go on WITHOUT the lock: redlock may not signal them"
		unending      = "processes of the command go on WITHOUT the lock, 2s after SIGKILL: they run as another user"
	)
	// A root that lacks this capability signals its own processes only.
	plain := []string{"setpriv", "--bounding-set", "-kill"}
	for name, c := range map[string]struct {
		around       []string
		command      string
		atLoss, last string
	}{
		"neither signal reaches a process":   {plain, "exec " + other, refusedAtOnce, refused},
		"SIGTERM reaches the shell":          {plain, other + " & wait", asked, refused},
		"SIGKILL reaches the shell":          {plain, "trap '' TERM; " + other + " & wait", asked, unending},
		"/proc hides what no signal reaches": {[]string{"unshare", "--mount", "sh", "-c", hidingProc}, other + " & wait", asked, refused},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			if c.around[0] == "unshare" && exec.Command("unshare", append(c.around[1:], "true")...).Run() != nil {
				t.Skip("needs namespaces for mounts")
			}
			nodes := redlocktest.Start(t, 1)
			line := slices.Concat(c.around, []string{os.Args[0]}, nodesArgs(nodes),
				[]string{"run", "job", "--ttl", "2s", "--node-timeout", "900ms", "--", "sh", "-c", c.command})
			p := &tool{t: t, over: make(chan struct{})}
			p.cmd = exec.Command(line[0], line[1:]...)
			p.cmd.Env = append(os.Environ(), toolEnv+"=1", "GORACE=atexit_sleep_ms=0")
			p.cmd.Stdout, p.cmd.Stderr = &p.out, &p.log
			p.run()
			eventually(t, func() bool { return strings.HasSuffix(p.out.String(), "\n") }, "at work")
			pid, err := strconv.Atoi(regexp.MustCompile(`\d+`).FindString(p.out.String()))
			require.NoError(t, err)
			defer syscall.Kill(pid, syscall.SIGKILL)
			leader, err := syscall.Getpgid(pid)
			require.NoError(t, err)
			if leader == pid { // else the signal reaches the shell
				require.NoError(t, p.cmd.Process.Signal(syscall.SIGUSR1))
				eventually(t, func() bool {
					return strings.Contains(p.log.String(), "cannot send the command SIGUSR1: operation not permitted\n")
				}, "a signal that is not forwarded")
			}
			require.Zero(t, unlock(nodes, "--force", "job").code)
			r := p.end()
			assert.Equal(t, codeGoesOn, r.code, r.log)
			assert.Contains(t, r.log, c.atLoss)
			assert.Contains(t, r.log, c.last)
			assert.NoError(t, syscall.Kill(pid, 0), "it goes on")
			if leader != pid {
				assert.Equal(t, syscall.ESRCH, syscall.Kill(leader, 0), "the signal has ended the shell")
			}
		})
	}
}
