//go:build linux

package main

import (
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/redlock-go/redlock/redlocktest"
)

// ownNamespace are unshare's flags for a command that is process 1 of a namespace of its own.
var ownNamespace = []string{"--user", "--map-root-user", "--pid", "--fork", "--kill-child", "--mount-proc"}

func needNamespaces(t *testing.T) {
	t.Helper()
	if text, err := exec.Command("unshare", slices.Concat(ownNamespace, []string{"true"})...).CombinedOutput(); err != nil {
		t.Skipf("needs namespaces for processes: %v %s", err, text)
	}
}

// inContainer runs a command as process 1 of a namespace of its own.
func inContainer(t *testing.T, args ...string) *tool {
	t.Helper()
	needNamespaces(t)
	line := slices.Concat(ownNamespace, args)
	p := &tool{t: t, over: make(chan struct{})}
	p.cmd = exec.Command("unshare", line...)
	p.cmd.Env = append(os.Environ(), toolEnv+"=1", "GORACE=atexit_sleep_ms=0")
	p.cmd.Stdout, p.cmd.Stderr = &p.out, &p.log
	p.run()
	return p
}

func TestProcess1ReapsOrphans(t *testing.T) {
	nodes := redlocktest.Start(t, 1)
	args := append(append([]string{os.Args[0]}, nodesArgs(nodes)...), "run", "job", "--", "sh", "-c",
		`for i in 1 2 3; do (sleep 0.1 &); done; sleep 0.2; i=0
		while grep -qs '^State:.Z' /proc/[0-9]*/status && [ $i -lt 50 ]; do sleep 0.1; i=$((i+1)); done
		[ $i -lt 50 ] && exit 7`)
	r := inContainer(t, args...).end()
	assert.Equal(t, 7, r.code, "no zombie is left, and the code is the command's: %s", r.log)
}

// endsEarly is a command that ends at SIGTERM before its child does.
const endsEarly = `(trap 'sleep 0.2; exit' TERM; while :; do sleep 0.01; done) & trap 'exit' TERM; touch "$1"; while :; do sleep 0.01; done`

func TestProcess1EndsWithTheLastProcessOfTheCommand(t *testing.T) {
	t.Parallel()
	nodes := redlocktest.Start(t, 1)
	file := filepath.Join(t.TempDir(), "ready")
	p := inContainer(t, append(append([]string{os.Args[0]}, nodesArgs(nodes)...), "run", "job", "--grace", "5m", "--", "sh", "-c", endsEarly, "sh", file)...)
	eventually(t, func() bool { _, err := os.Stat(file); return err == nil }, "at work")
	require.Zero(t, unlock(nodes, "--force", "job").code)
	assert.Equal(t, codeLost, p.end().code, "the grace is longer than this test waits")
}

func TestZombiesThatNobodyReapsDoNotDelayTheEnd(t *testing.T) {
	t.Parallel()
	nodes := redlocktest.Start(t, 1)
	file := filepath.Join(t.TempDir(), "ready")
	line := os.Args[0] + " " + strings.Join(nodesArgs(nodes), " ") + ` run job --grace 5m -- sh -c "$0" sh "$1"`
	inContainer(t, "sh", "-c", "("+line+`; echo "code:$?" >"$1.code") & exec sleep 300`, endsEarly, file) // sleep reaps nothing
	eventually(t, func() bool { _, err := os.Stat(file); return err == nil }, "at work")
	require.Zero(t, unlock(nodes, "--force", "job").code)
	eventually(t, func() bool { return textOf(file+".code") == "code:76\n" }, "the end")
}

func TestStateOfAProcessInAGroup(t *testing.T) {
	for line, state := range map[string]byte{
		"12 (sh) S 1 7 7 0":          'S',
		"12 (sh) Z 1 7 7 0":          'Z',
		"12 (sh) S 1 8 7 0":          0,
		"12 (a) Z 1 7 (b) R 1 7 7 0": 'R',
		"12 (sh":                     0,
	} {
		assert.Equal(t, state, stateIn(7, []byte(line)), line)
	}
}
