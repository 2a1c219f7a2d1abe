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

	"github.com/redlock-go/redlock/integration/cluster"
)

// Worker processes add to one number in one file under the lock, on five real servers,
// while one master is killed and one is frozen.
func TestCounterLosesNothingWhileOneMasterIsKilledAndOneFrozen(t *testing.T) {
	const workers = 6
	rounds := 150
	if testing.Short() {
		rounds = 100
	}
	nodes := cluster.Use(t, 5)
	file := filepath.Join(t.TempDir(), "number")
	out, err := os.Create(filepath.Join(t.TempDir(), "output"))
	require.NoError(t, err)
	defer out.Close()
	counter := exec.CommandContext(t.Context(), buildCounter(t),
		"-workers", strconv.Itoa(workers), "-rounds", strconv.Itoa(rounds),
		"-urls", strings.Join(nodes.URLs(), ","), "-file", file, "-ttl", "10s")
	counter.Stdout, counter.Stderr = out, out
	require.NoError(t, counter.Start())
	finished := make(chan error, 1)
	go func() { finished <- counter.Wait() }()

	atWork := func(share int) {
		t.Helper()
		total := workers * rounds
		require.True(t, eventually(time.Minute, func() bool { return number(file) >= total*share/100 }), textOf(out.Name()))
		require.Less(t, number(file), total, "the workers were done before it could go wrong")
	}
	atWork(25)
	nodes[0].Kill(t)
	atWork(40)
	nodes[3].Freeze(t)
	var frozenAt int
	eventually(soon, func() bool { frozenAt = number(file); return frozenAt > 0 })

	select {
	case err := <-finished:
		require.NoError(t, err, "%s", textOf(out.Name()))
	case <-time.After(2 * time.Minute):
		require.FailNow(t, "the workers do not finish", "%s", textOf(out.Name()))
	}
	t.Logf("%d of %d steps were done with a master killed and another one frozen\n%s",
		workers*rounds-frozenAt, workers*rounds, textOf(out.Name()))
	assert.Equal(t, workers*rounds, number(file))
	assert.Contains(t, textOf(out.Name()), strconv.Itoa(workers*rounds))
	nodes.Thaw(t)
	assertNoKeys(t, nodes[1:3])
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
