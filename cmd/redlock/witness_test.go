//go:build linux

package main

import (
	"fmt"
	"os"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/redlock-go/redlock/redlocktest"
)

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
