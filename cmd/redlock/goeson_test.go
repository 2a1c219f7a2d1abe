//go:build linux

package main

import (
	"os"
	"os/exec"
	"regexp"
	"strconv"
	"strings"
	"syscall"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/redlock-go/redlock/redlocktest"
)

func TestACommandThatMayNotBeSignalledGoesOnWithACodeOfItsOwn(t *testing.T) {
	t.Parallel()
	if _, err := exec.LookPath("setpriv"); err != nil || os.Getuid() != 0 {
		t.Skip("needs root, and setpriv of util-linux, to run a command as another user")
	}
	nodes := redlocktest.Start(t, 1)
	const other = `setpriv --reuid 65534 --clear-groups sh -c 'trap "" TERM; echo "pid:$$"; while :; do sleep 0.02; done'`
	for command, said := range map[string]string{
		"exec " + other:   "cannot signal the command (operation not permitted): it goes on WITHOUT the lock",
		other + " & wait": "the command gets SIGTERM",
	} {
		p := &tool{t: t, over: make(chan struct{})}
		// A root that lacks this capability signals its own processes only.
		p.cmd = exec.Command("setpriv", append(append([]string{"--bounding-set", "-kill", os.Args[0]}, nodesArgs(nodes)...),
			"run", "job", "--ttl", "2s", "--node-timeout", "900ms", "--", "sh", "-c", command)...)
		p.cmd.Env = append(os.Environ(), toolEnv+"=1", "GORACE=atexit_sleep_ms=0")
		p.cmd.Stdout, p.cmd.Stderr = &p.out, &p.log
		p.run()
		eventually(t, func() bool { return strings.HasSuffix(p.out.String(), "\n") }, "at work")
		pid, err := strconv.Atoi(regexp.MustCompile(`\d+`).FindString(p.out.String()))
		require.NoError(t, err)
		defer syscall.Kill(pid, syscall.SIGKILL)
		if strings.HasPrefix(command, "exec") { // in the other case the signal reaches the shell
			require.NoError(t, p.cmd.Process.Signal(syscall.SIGUSR1))
			eventually(t, func() bool {
				return strings.Contains(p.log.String(), "cannot send the command SIGUSR1: operation not permitted\n")
			}, "a signal that is not forwarded")
		}
		require.Zero(t, unlock(nodes, "--force", "job").code)
		r := p.end()
		assert.Equal(t, codeGoesOn, r.code, r.log)
		assert.Contains(t, r.log, said)
		assert.Contains(t, r.log, "processes of the command go on WITHOUT the lock: redlock may not signal them")
		assert.NoError(t, syscall.Kill(pid, 0), "it goes on")
	}
}
