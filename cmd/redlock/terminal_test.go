//go:build linux

package main

import (
	"io"
	"os"
	"os/exec"
	"strings"
	"sync"
	"syscall"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/redlock-go/redlock/redlocktest"
)

// screen is the output of a terminal. It may be read while the tool writes.
type screen struct {
	mu   sync.Mutex
	text strings.Builder
}

func (s *screen) Write(b []byte) (int, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.text.Write(b)
}

func (s *screen) String() string {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.text.String()
}

// onTerminal runs the tool on a terminal of its own; the returned writer is the keyboard.
func onTerminal(t *testing.T, nodes *redlocktest.Nodes, args string) (*exec.Cmd, io.Writer, *screen) {
	t.Helper()
	script, err := exec.LookPath("script")
	if err != nil {
		t.Skip("needs script, of util-linux, to make a terminal")
	}
	// A shell between the terminal and the tool would receive Ctrl-C too.
	line := "exec " + os.Args[0] + " " + strings.Join(nodesArgs(nodes), " ") + " " + args
	cmd := exec.Command(script, "-qec", line, "/dev/null")
	cmd.Env = append(os.Environ(), toolEnv+"=1", "GORACE=atexit_sleep_ms=0", "TERM=xterm", "SHELL=/bin/sh")
	typed, err := cmd.StdinPipe()
	require.NoError(t, err)
	out := &screen{}
	cmd.Stdout = out
	require.NoError(t, cmd.Start())
	t.Cleanup(func() { _ = cmd.Process.Kill() })
	return cmd, typed, out
}

func TestCommandReadsFromTheTerminal(t *testing.T) {
	nodes := redlocktest.Start(t, 1)
	cmd, typed, out := onTerminal(t, nodes, `run job -- sh -c 'read word; echo got:$word'`)
	_, err := io.WriteString(typed, "hello\n")
	require.NoError(t, err)
	require.NoError(t, cmd.Wait(), out)
	assert.Contains(t, out.String(), "got:hello")
}

func TestOnATerminalCtrlCReachesTheCommand(t *testing.T) {
	unignore(t, syscall.SIGINT)
	nodes := redlocktest.Start(t, 1)
	cmd, typed, out := onTerminal(t, nodes, `run job -- sh -c 'trap "echo caught; exit 7" INT; echo ready; for i in $(seq 1000); do sleep 0.01; done'`)
	eventually(t, func() bool { return strings.Contains(out.String(), "ready") }, "at work")
	_, err := io.WriteString(typed, "\x03")
	require.NoError(t, err)
	_ = cmd.Wait()
	assert.Equal(t, 7, cmd.ProcessState.ExitCode(), out)
	assert.Contains(t, out.String(), "caught")
}

func TestColoursAreForTerminals(t *testing.T) {
	nodes := redlocktest.Start(t, 1)
	assert.NotContains(t, call(nodes, "inspect", "job").out, "\x1b")
	cmd, _, out := onTerminal(t, nodes, "inspect job")
	require.NoError(t, cmd.Wait(), out)
	assert.Contains(t, out.String(), "\x1b[32mfree")
}

func TestWatchReplacesTheScreenAndRestoresIt(t *testing.T) {
	nodes := redlocktest.Start(t, 1)
	cmd, typed, out := onTerminal(t, nodes, "inspect --watch --every 100ms job")
	eventually(t, func() bool { return strings.Count(out.String(), "job") > 2 }, "three looks")
	_, err := io.WriteString(typed, "\x03")
	require.NoError(t, err)
	require.NoError(t, cmd.Wait(), out)
	assert.Contains(t, out.String(), "\x1b[?1049h")
	assert.Regexp(t, `\d{4}-\d\d-\d\d \d\d:\d\d:\d\d`, out.String(), "when it looked")
	assert.Regexp(t, `\x1b\[\?1049l\s*$`, out.String())
}
