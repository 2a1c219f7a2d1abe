//go:build linux

package main

import (
	"os"
	"os/exec"
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
