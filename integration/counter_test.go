package integration

import (
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/redlock-go/redlock"
	"github.com/redlock-go/redlock/integration/cluster"
	"github.com/redlock-go/redlock/internal/test/long"
)

// Worker processes add to one number in one file under the lock, on five real servers,
// while one master is killed and one is frozen.
func TestCounterLosesNothingWhileOneMasterIsKilledAndOneFrozen(t *testing.T) {
	const workers = 6
	rounds := 150
	if !long.Tests() {
		rounds = 100
	}
	nodes := cluster.Use(t, 5)
	file := filepath.Join(t.TempDir(), "number")
	out, err := os.Create(filepath.Join(t.TempDir(), "output"))
	require.NoError(t, err)
	defer out.Close()
	counter := exec.CommandContext(t.Context(), buildCounter(t),
		"-workers", strconv.Itoa(workers), "-rounds", strconv.Itoa(rounds),
		"-file", file, "-ttl", "10s")
	counter.Env = append(os.Environ(), "REDLOCK_NODES="+strings.Join(nodes.URLs(), ","))
	counter.Stdout, counter.Stderr = out, out
	require.NoError(t, counter.Start())
	finished := make(chan error, 1)
	go func() { finished <- counter.Wait() }()

	total := workers * rounds
	pacer := openClient(t, nodes.URLs()).Mutex("counter:" + filepath.Base(file))
	failAt(t, pacer, file, total/4, func() { nodes[0].Kill(t) })
	frozenAt := failAt(t, pacer, file, total*2/5, func() { nodes[3].Freeze(t) })
	require.Less(t, frozenAt, total*3/5, "most workers' steps were done before it went wrong")

	select {
	case err := <-finished:
		require.NoError(t, err, "%s", textOf(out.Name()))
	case <-time.After(2 * time.Minute):
		require.FailNow(t, "the workers do not finish", "%s", textOf(out.Name()))
	}
	t.Logf("%d of %d steps were done with a master killed and another one frozen\n%s",
		total-frozenAt, total, textOf(out.Name()))
	assert.Equal(t, total, number(file))
	assert.Contains(t, textOf(out.Name()), strconv.Itoa(total))
	nodes.Thaw(t)
	assertNoKeys(t, nodes[1:3])
}

// failAt calls fail when at least n steps are done, and returns how many were. To look, it takes the
// workers' lock. The queue is fair, so the workers get a few steps further between two looks, however slow
// this process is. They go on while fail begins, and wait for its end.
func failAt(t *testing.T, pacer *redlock.Mutex, file string, n int, fail func()) int {
	t.Helper()
	ctx := within(t, time.Minute)
	take := func() *redlock.Lease {
		lease, err := pacer.Lock(ctx)
		require.NoError(t, err)
		return lease
	}
	lease, done := take(), number(file)
	for ; done < n; done = number(file) {
		require.NoError(t, lease.Unlock(ctx))
		lease = take()
	}
	failed := make(chan struct{})
	go func() { defer close(failed); fail() }()
	require.NoError(t, lease.Unlock(ctx))
	lease = take()
	<-failed
	require.NoError(t, lease.Unlock(ctx))
	return done
}

// buildCounter compiles the example and returns the program's path.
func buildCounter(t *testing.T) string {
	t.Helper()
	program := filepath.Join(t.TempDir(), "counter")
	if runtime.GOOS == "windows" {
		program += ".exe"
	}
	build := exec.Command("go", "build", "-o", program, "./examples/counter")
	build.Dir = ".."
	out, err := build.CombinedOutput()
	require.NoError(t, err, "%s", out)
	return program
}

// number reads the counter's file; 0 where it is not there, or being written.
func number(file string) int {
	n, err := strconv.Atoi(strings.TrimSpace(textOf(file)))
	if err != nil {
		return 0
	}
	return n
}

func textOf(file string) string {
	text, err := os.ReadFile(file)
	if err != nil {
		return ""
	}
	return string(text)
}
