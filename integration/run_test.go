package integration

import (
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/redlock-go/redlock/integration/cluster"
)

// addOne reads a number from a file, pauses, and writes back one more; and appends the
// token that it had to another file. It waits while the number equals the one in a third
// file, so that the test can let a node fail just then.
const addOne = `while [ "$(cat "$1")" = "$(cat "$1.stop")" ]; do sleep 0.02; done
n=$(cat "$1"); sleep 0.02; echo $((n + 1)) >"$1"; echo "$REDLOCK_TOKEN" >>"$1.tokens"`

// Fifty processes run under redlock run, each with a script that loses updates without a
// lock, while two of five masters fail and one of them comes back. Fifty clients that start at one
// instant keep a starved machine busy for longer than the default node timeout.
func TestFiftyConcurrentRunsLoseNoUpdateWhileNodesFail(t *testing.T) {
	needShell(t)
	t.Parallel()
	notInShort(t)
	const runs = 50
	nodes := cluster.Use(t, 5)
	file := filepath.Join(t.TempDir(), "number")
	require.NoError(t, os.WriteFile(file, []byte("0\n"), 0o600))
	stopAt := func(n int) {
		t.Helper()
		require.NoError(t, os.WriteFile(file+".next", fmt.Appendln(nil, n), 0o600))
		require.NoError(t, os.Rename(file+".next", file+".stop"))
	}
	stopAt(5)

	var all sync.WaitGroup
	failures := make(chan string, runs)
	for range runs {
		all.Go(func() {
			code, _, log := callTool(t, nodes.URLs(), "run", "number", "--ttl", "6s", "--node-timeout", "1500ms", "--", "sh", "-c", addOne, "sh", file)
			if code != 0 {
				failures <- fmt.Sprintf("exit code %d: %s", code, log)
			}
		})
	}
	for _, step := range []struct {
		at   int // the number
		next int
		act  func(testing.TB)
	}{
		{5, 12, nodes[0].Kill},
		{12, 20, nodes[3].Freeze},
		{20, 25, nodes[0].Start},
		{25, -1, nodes[3].Thaw},
	} {
		if !eventually(time.Minute, func() bool { return number(file) == step.at }) {
			failed, first := len(failures), ""
			if failed > 0 {
				first = <-failures
			}
			require.FailNow(t, "no progress", "at %d, not %d; %d runs failed %s", number(file), step.at, failed, first)
		}
		step.act(t)
		stopAt(step.next)
	}
	all.Wait()
	close(failures)
	for failure := range failures {
		assert.Fail(t, "a run failed", failure)
	}
	assert.Equal(t, runs, number(file))
	assertAscending(t, strings.Fields(textOf(file+".tokens")), runs)
}

// assertAscending expects so many tokens, each greater than the one before.
func assertAscending(t *testing.T, tokens []string, count int) {
	t.Helper()
	require.Len(t, tokens, count)
	last := int64(0)
	for i, text := range tokens {
		token, err := strconv.ParseInt(text, 10, 64)
		require.NoError(t, err)
		require.Greater(t, token, last, "token %d", i)
		last = token
	}
}

// A majority fails while a command runs that ignores SIGTERM: the command has ended before
// the next one begins.
func TestARunThatLosesItsQuorumIsOverBeforeTheNextOneBegins(t *testing.T) {
	needShell(t)
	t.Parallel()
	nodes := cluster.Use(t, 3)
	file := filepath.Join(t.TempDir(), "written")
	// SIGKILL comes more than a second before the lease ends. With the default it
	// comes at the end, and a busy machine could be late with it.
	args := []string{"run", "job", "--ttl", "6s", "--node-timeout", "1500ms", "--stop-before", "2s", "--grace", "300ms"}
	stubborn := tool(t, nodes.ProxyURLs(), append(args, "--", "sh", "-c",
		`trap '' TERM; while :; do echo first >>"$1"; sleep 0.01; done`, "sh", file)...)
	require.NoError(t, stubborn.Start())
	defer func() { _ = stubborn.Process.Kill() }()
	require.True(t, eventually(time.Minute, func() bool { return textOf(file) != "" }), "at work")

	// It is cut off from two of the masters; the second tool is not.
	nodes[:2].Cut()
	code, _, log := callTool(t, nodes.URLs(), append(args, "--", "sh", "-c", `echo second >>"$1"`, "sh", file)...)
	require.Zero(t, code, log)
	_ = stubborn.Wait()
	assert.Equal(t, 76, stubborn.ProcessState.ExitCode())
	assert.True(t, strings.HasSuffix(textOf(file), "first\nsecond\n"), "the first one wrote after the second had begun")
}

func needShell(t *testing.T) {
	t.Helper()
	if _, err := os.Stat("/bin/sh"); err != nil {
		t.Skip("needs a shell")
	}
}
