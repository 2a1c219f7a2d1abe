package integration

import (
	"bytes"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// buildTool compiles the command line tool, once for all tests.
var buildTool = sync.OnceValues(func() (string, error) {
	program := filepath.Join(toolDir, "redlock")
	if runtime.GOOS == "windows" {
		program += ".exe"
	}
	build := exec.Command("go", "build", "-o", program, ".")
	build.Dir = filepath.Join("..", "cmd", "redlock")
	out, err := build.CombinedOutput()
	if err != nil {
		_, _ = os.Stderr.Write(out)
	}
	return program, err
})

// toolDir is where it is; TestMain makes and removes it.
var toolDir string

// tool is a command of the tool with these nodes.
func tool(t testing.TB, urls []string, args ...string) *exec.Cmd {
	t.Helper()
	program, err := buildTool()
	require.NoError(t, err)
	cmd := exec.Command(program, args...)
	cmd.Env = append(os.Environ(), "REDLOCK_NODES="+strings.Join(urls, ","))
	return cmd
}

// callTool runs it and returns its exit code and what it wrote.
func callTool(t testing.TB, urls []string, args ...string) (code int, out, log string) {
	t.Helper()
	cmd := tool(t, urls, args...)
	var stdout, stderr bytes.Buffer
	cmd.Stdout, cmd.Stderr = &stdout, &stderr
	kill := time.AfterFunc(2*time.Minute, func() { _ = cmd.Process.Kill() })
	defer kill.Stop()
	require.NoError(t, cmd.Start())
	_ = cmd.Wait()
	return cmd.ProcessState.ExitCode(), stdout.String(), stderr.String()
}
