//go:build unix

package main

import (
	"os"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/redlock-go/redlock/redlocktest"
)

func TestRunTakesSeveralNamesAtOnce(t *testing.T) {
	t.Parallel()
	nodes := redlocktest.Start(t, 3)
	r := start(t, nodes, "run", "b", "a", "--", "sh", "-c", `echo "$REDLOCK_NAME|$REDLOCK_NAMES"`).end()
	assert.Zero(t, r.code, r.log)
	assert.Equal(t, "a, b|a\nb\n", r.out)

	nested := append([]string{os.Args[0]}, append(nodesArgs(nodes), "run", "c", "b", "--", "true")...)
	r = start(t, nodes, append([]string{"run", "a", "b", "--"}, nested...)...).end()
	assert.Equal(t, codeUsage, r.code)
	assert.Contains(t, r.log, `under the lock "b"`)

	p, file := startJob(t, nodes, `while [ ! -s "$1.go" ]; do sleep 0.01; done`)
	r = start(t, nodes, "run", "other", "job", "--no-wait", "--", "true").end()
	assert.Equal(t, codeHeld, r.code, "job is held")
	assert.Zero(t, start(t, nodes, "run", "other", "--no-wait", "--", "true").end().code)
	require.NoError(t, os.WriteFile(file+".go", []byte("go"), 0o600))
	assert.Zero(t, p.end().code)

	assert.Equal(t, codeUsage, start(t, nodes, "run", "--read", "a", "b", "--", "true").end().code)
}

// A run that waits prints the name that is held. It leaves no trace of the others when it gives up.
func TestRunSaysWhichOfSeveralNamesItWaitsFor(t *testing.T) {
	nodes := redlocktest.Start(t, 3)
	hold(t, nodes, "b")
	hold(t, nodes, "c")
	text := waitOnce(t, nodes, &runFlags{}, "a", "b", "c")
	assert.Regexp(t, `waiting for "b": the holder holds it, [01] in the wait queue`, text, "0: it has not joined the queue yet")
	assert.Zero(t, call(nodes, "run", "a", "--no-wait", "--", "true").code, "nothing of the run is left")
}

func TestErrorOfARunHasTheNamesInOrder(t *testing.T) {
	nodes := redlocktest.Start(t, 3)
	hold(t, nodes, "b")
	r := call(nodes, "run", "c", "b", "a", "--no-wait", "--", "true")
	assert.Equal(t, codeHeld, r.code)
	assert.Contains(t, r.log, `"a, b, c": held by "`)
}
