package integration

import (
	"bufio"
	"bytes"
	"context"
	"fmt"
	"io"
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

// Several tests need clients in processes of their own. Such a process is the
// test binary again: it runs one of the jobs instead of the tests, reads lines
// from its parent and answers with lines. It ends when its input does.

// workerEnv names the job that a process runs.
const workerEnv = "REDLOCK_TEST_WORKER"

// jobs are what a worker process can do. say writes a line to the parent.
var jobs = map[string]func(args []string, lines <-chan string, say func(format string, args ...any)) error{
	"tokens":    countTokens,
	"queue":     waitInQueue,
	"pairs":     stepJob(changePair),
	"permits":   stepJob(usePermits),
	"transfers": stepJob(makeTransfer),
	"cron":      runCron,
	"changes":   makeChanges,
	"browsers":  readStreams,
	"candidate": beCandidate,
	"followers": beFollowers,

	"counter":  chaosJob(openCounter),
	"register": chaosJob(openRegister),
}

// runJob is the main function of a worker process.
func runJob(name string) int {
	lines := make(chan string)
	go func() { // ends with the input; the process ends soon after
		defer close(lines)
		for in := bufio.NewScanner(os.Stdin); in.Scan(); {
			lines <- in.Text()
		}
	}()
	say := func(format string, args ...any) { fmt.Printf(format+"\n", args...) }
	if err := jobs[name](os.Args[1:], lines, say); err != nil {
		say("failed: %v", err)
		return 1
	}
	return 0
}

// untilInputEnds returns a context that ends with the input of a job that works until then.
func untilInputEnds(lines <-chan string) (ctx context.Context, cancel context.CancelFunc) {
	ctx, cancel = context.WithCancel(context.Background())
	go func() { // ends with the input
		for range lines {
		}
		cancel()
	}()
	return ctx, cancel
}

// worker is such a process, as its parent sees it.
type worker struct {
	cmd   *exec.Cmd
	input io.WriteCloser
	lines chan string // its output; closed when it ends
}

// startWorker starts a process that ends with the test.
func startWorker(t *testing.T, job string, args ...string) *worker {
	t.Helper()
	cmd := exec.Command(os.Args[0], args...)
	// The race detector lets a process that ends wait for a second.
	cmd.Env = append(os.Environ(), workerEnv+"="+job, "GORACE=atexit_sleep_ms=0")
	cmd.Stderr = os.Stderr
	input, err := cmd.StdinPipe()
	require.NoError(t, err)
	output, err := cmd.StdoutPipe()
	require.NoError(t, err)
	require.NoError(t, cmd.Start())
	w := &worker{cmd: cmd, input: input, lines: make(chan string, 1<<16)}
	go func() { // ends with the process
		defer close(w.lines)
		for out := bufio.NewScanner(output); out.Scan(); {
			w.lines <- out.Text()
		}
	}()
	t.Cleanup(func() {
		_ = w.input.Close()
		kill := time.AfterFunc(20*time.Second, func() { _ = cmd.Process.Kill() })
		defer kill.Stop()
		for range w.lines {
		}
		_ = cmd.Wait()
	})
	return w
}

// say sends the worker a line.
func (w *worker) say(t *testing.T, line string) {
	t.Helper()
	_, err := io.WriteString(w.input, line+"\n")
	require.NoError(t, err)
}

// finish ends the worker's input and expects that it succeeds. It returns the worker's last
// line.
func (w *worker) finish(t *testing.T) string {
	t.Helper()
	require.NoError(t, w.input.Close())
	last := ""
	for line := range w.lines {
		require.False(t, strings.HasPrefix(line, "failed"), line)
		last = line
	}
	return last
}

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
