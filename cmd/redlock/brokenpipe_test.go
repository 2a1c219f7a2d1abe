//go:build unix

package main

import (
	"os"
	"os/exec"
	"path/filepath"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/redlock-go/redlock/redlocktest"
)

// startWithoutReader starts the tool with a pipe at stderr from which nothing reads any more, as under
// "2>&1 | head -1", or with a logger that has ended.
func startWithoutReader(t *testing.T, nodes *redlocktest.Nodes, args ...string) *tool {
	t.Helper()
	reader, writer, err := os.Pipe()
	require.NoError(t, err)
	require.NoError(t, reader.Close())
	return startWithStderr(t, nodes, writer, args)
}

// startWithStderr starts the tool with this end of a pipe at stderr, and closes it in this process.
func startWithStderr(t *testing.T, nodes *redlocktest.Nodes, writer *os.File, args []string) *tool {
	t.Helper()
	defer writer.Close()
	p := &tool{t: t, over: make(chan struct{})}
	p.cmd = exec.Command(os.Args[0], append(nodesArgs(nodes), args...)...)
	p.cmd.Env = append(os.Environ(), toolEnv+"=1", "GORACE=atexit_sleep_ms=0")
	p.cmd.Stderr = writer
	p.run()
	return p
}

func TestTheLockAndTheCommandSurviveABrokenPipeAtStderr(t *testing.T) {
	t.Parallel()
	nodes := redlocktest.Start(t, 3)
	file := filepath.Join(t.TempDir(), "written")
	p := startWithoutReader(t, nodes, "-v", "run", "job", "--ttl", "2s", "--node-timeout", "900ms", "--", "sh", "-c",
		`trap 'echo stopped >>"$1"; exit 9' TERM; echo ready >>"$1"; while [ ! -s "$1.go" ]; do sleep 0.01; done; echo done >>"$1"`, "sh", file)
	eventually(t, func() bool { return textOf(file) == "ready\n" }, "at work")
	nodes.Stop(2) // which is logged
	time.Sleep(3 * time.Second)
	assert.Equal(t, codeHeld, call(nodes, "run", "job", "--no-wait", "--", "true").code, "it is renewed still")
	require.NoError(t, os.WriteFile(file+".go", []byte("go"), 0o600))
	assert.Zero(t, p.end().code)
	assert.Equal(t, "ready\ndone\n", textOf(file))
	assert.Zero(t, call(nodes, "run", "job", "--no-wait", "--", "true").code, "it was released")
}

// A command that finds its pipe broken must end, as it would without redlock.
func TestTheCommandDoesNotIgnoreSIGPIPE(t *testing.T) {
	nodes := redlocktest.Start(t, 1)
	p := startWithoutReader(t, nodes, "run", "job", "--", "sh", "-c", "kill -PIPE $$; exit 3")
	assert.Equal(t, codeSignal+int(syscall.SIGPIPE), p.end().code)
	assert.Zero(t, call(nodes, "run", "job", "--no-wait", "--", "true").code, "it was released")
}

// startWithFullPipe starts the tool with a pipe at stderr that is full, and whose reader does not read.
func startWithFullPipe(t *testing.T, nodes *redlocktest.Nodes, args ...string) *tool {
	t.Helper()
	reader, writer, err := os.Pipe()
	require.NoError(t, err)
	t.Cleanup(func() { _ = reader.Close() })
	raw, err := writer.SyscallConn()
	require.NoError(t, err)
	require.NoError(t, raw.Control(func(fd uintptr) {
		for _, size := range []int{4096, 1} {
			for err = nil; err == nil; {
				_, err = syscall.Write(int(fd), make([]byte, size)) // it does not block in this process
			}
		}
	}))
	require.ErrorIs(t, err, syscall.EAGAIN)
	return startWithStderr(t, nodes, writer, args)
}

func TestRunRenewsAndEndsThoughNothingReadsStderr(t *testing.T) {
	t.Parallel()
	nodes := redlocktest.Start(t, 3)
	file := filepath.Join(t.TempDir(), "written")
	p := startWithFullPipe(t, nodes, "-v", "run", "job", "--ttl", "2s", "--node-timeout", "900ms", "--", "sh", "-c",
		`echo ready >>"$1"; while [ ! -s "$1.go" ]; do sleep 0.01; done; echo done >>"$1"`, "sh", file)
	eventually(t, func() bool { return textOf(file) == "ready\n" }, "at work")
	nodes.Stop(2) // which is logged
	time.Sleep(3 * time.Second)
	assert.Equal(t, codeHeld, call(nodes, "run", "job", "--no-wait", "--", "true").code, "it is renewed still")
	require.NoError(t, os.WriteFile(file+".go", []byte("go"), 0o600))
	assert.Zero(t, p.end().code)
	assert.Zero(t, call(nodes, "run", "job", "--no-wait", "--", "true").code, "it was released")
}

func TestTheCommandIsStoppedThoughNothingReadsStderr(t *testing.T) {
	t.Parallel()
	nodes := redlocktest.Start(t, 3)
	file := filepath.Join(t.TempDir(), "written")
	p := startWithFullPipe(t, nodes, "run", "job", "--ttl", "2s", "--node-timeout", "900ms", "--", "sh", "-c",
		`exec 2>/dev/null; trap 'echo stopped >>"$1"; exit 9' TERM; echo ready >>"$1"; while :; do sleep 0.01; done`, "sh", file)
	eventually(t, func() bool { return textOf(file) == "ready\n" }, "at work")
	require.Zero(t, unlock(nodes, "--force", "job").code)
	assert.Equal(t, codeLost, p.end().code)
	assert.Equal(t, "ready\nstopped\n", textOf(file))
}

func TestRunThatWaitsGoesOnThoughNothingReadsStderr(t *testing.T) {
	t.Parallel()
	nodes := redlocktest.Start(t, 3)
	lease := hold(t, nodes, "job")
	p := startWithFullPipe(t, nodes, "run", "job", "--", "sh", "-c", "exit 3")
	time.Sleep(2 * time.Second) // it says what it waits for
	require.NoError(t, lease.Unlock(t.Context()))
	assert.Equal(t, 3, p.end().code)
}
