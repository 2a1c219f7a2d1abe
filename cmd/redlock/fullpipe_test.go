//go:build unix

package main

import (
	"os"
	"path/filepath"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/redlock-go/redlock/redlocktest"
)

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
