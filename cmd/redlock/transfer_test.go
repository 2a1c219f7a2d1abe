//go:build unix

package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/redlock-go/redlock"
	"github.com/redlock-go/redlock/redlocktest"
)

// transferred runs a command that transfers the lock "job", and returns the file with the text.
func transferred(t *testing.T, nodes *redlocktest.Nodes, flags ...string) (file string) {
	t.Helper()
	file = filepath.Join(t.TempDir(), "text")
	args := append([]string{"run", "job", "--ttl", "60s", "--node-timeout", "4s", "--transfer", file}, flags...)
	r := start(t, nodes, append(args, "--", "sh", "-c", "echo $REDLOCK_TOKEN")...).end()
	require.Zero(t, r.code, r.log)
	require.Equal(t, "1\n", r.out)
	require.Empty(t, r.log)
	return file
}

// requireFree waits until no node has the key of "job".
func requireFree(t *testing.T, nodes *redlocktest.Nodes) {
	t.Helper()
	for i := range nodes.URLs() {
		eventually(t, func() bool { _, held := nodes.Get(i, jobKey); return !held }, "released everywhere")
	}
}

func TestRunHandsTheLockOffAndResumeGoesOnWithIt(t *testing.T) {
	t.Parallel()
	nodes := redlocktest.Start(t, 3)
	file := transferred(t, nodes)
	info, err := os.Stat(file)
	require.NoError(t, err)
	assert.Equal(t, os.FileMode(0o600), info.Mode().Perm())
	left, err := os.ReadDir(filepath.Dir(file))
	require.NoError(t, err)
	assert.Len(t, left, 1, "no other file is left")
	assert.Equal(t, codeHeld, call(nodes, "run", "job", "--no-wait", "--", "true").code, "nobody gets it in between")

	r := start(t, nodes, "resume", "--from", file, "--transfer", file+"2", "--", "sh", "-c", "echo $REDLOCK_NAME $REDLOCK_TOKEN").end()
	require.Zero(t, r.code, r.log)
	assert.Regexp(t, `^job [2-9]\n$`, r.out, "the token is greater")
	assert.NoFileExists(t, file)
	assert.Equal(t, codeHeld, call(nodes, "run", "job", "--no-wait", "--", "true").code, "it was transferred again")

	again := textOf(file + "2")
	p := startOn(t, nodes, again, "resume", "--", "sh", "-c", "cat; echo $REDLOCK_TOKEN")
	r = p.end()
	assert.Zero(t, r.code, r.log)
	assert.Regexp(t, `^[3-9]\n$`, r.out, "the text came from stdin, of which nothing is left")
	requireFree(t, nodes)
	r = startOn(t, nodes, again, "resume", "--", "true").end()
	assert.Equal(t, codeLost, r.code, "one text gives one lease")
	assert.Contains(t, r.log, `redlock: the command is not run: the lease of "job" is lost`)
	assert.NotContains(t, r.log, strings.TrimSpace(again), "the text is never shown")
	requireFree(t, nodes)
}

// startOn is start with a text at stdin.
func startOn(t *testing.T, nodes *redlocktest.Nodes, text string, args ...string) *tool {
	t.Helper()
	file := filepath.Join(t.TempDir(), "stdin")
	require.NoError(t, os.WriteFile(file, []byte(text), 0o600))
	in, err := os.Open(file)
	require.NoError(t, err)
	t.Cleanup(func() { _ = in.Close() })
	return startWith(t, nodes, in, args...)
}

func TestACommandThatFailsHandsNothingOff(t *testing.T) {
	t.Parallel()
	nodes := redlocktest.Start(t, 3)
	dir := t.TempDir()
	r := start(t, nodes, "run", "job", "--transfer", filepath.Join(dir, "text"), "--", "sh", "-c", "exit 3").end()
	assert.Equal(t, 3, r.code, r.log)
	requireFree(t, nodes)
	left, err := os.ReadDir(dir)
	require.NoError(t, err)
	assert.Empty(t, left)
}

func TestALockThatCannotBeTransferredIsReleased(t *testing.T) {
	t.Parallel()
	nodes := redlocktest.Start(t, 3)
	file := filepath.Join(t.TempDir(), "text")
	p, work := startJob(t, nodes, `while [ ! -s "$1.go" ]; do sleep 0.01; done`, "--transfer", file)
	nodes.Stop(0)
	nodes.Stop(1)
	require.NoError(t, os.WriteFile(work+".go", []byte("go"), 0o600))
	r := p.end()
	assert.Equal(t, codeNoQuorum, r.code, r.log)
	assert.Contains(t, r.log, `the command has succeeded, but its lock could not be transferred, and is released: transfer "job": no quorum`)
	assert.NoFileExists(t, file)
}

func TestResumeRefusesABadTextBeforeItAsksTheNodes(t *testing.T) {
	nodes := redlocktest.Start(t, 1)
	file := transferred(t, nodes)
	text := textOf(file)
	ran := filepath.Join(t.TempDir(), "ran")
	refused := func(why string, flags ...string) {
		t.Helper()
		r := call(nodes, append(append([]string{"resume"}, flags...), "--", "touch", ran)...)
		assert.Equal(t, codeConfig, r.code, r.log)
		assert.Contains(t, r.log, why)
		assert.NotContains(t, r.log, strings.TrimSpace(text))
	}
	require.NoError(t, os.Chmod(file, 0o640))
	refused("must have mode 0600", "--from", file)
	require.NoError(t, os.Chmod(file, 0o600))
	refused("no such file", "--from", file+"2")
	refused(`with the prefix "redlock:"`, "--from", file, "--prefix", "other:")
	require.NoError(t, os.WriteFile(file, []byte(text[:len(text)/2]), 0o600))
	refused("it is damaged", "--from", file)
	require.NoError(t, os.WriteFile(file, []byte(text), 0o600))
	other := redlocktest.Start(t, 1)
	r := call(other, "resume", "--from", file, "--", "touch", ran)
	assert.Equal(t, codeConfig, r.code, r.log)
	assert.Contains(t, r.log, "another cluster")
	assert.NoFileExists(t, ran)
	assert.Zero(t, call(nodes, "resume", "--from", file, "--", "touch", ran).code, "the text is as good as before")
	assert.FileExists(t, ran)
}

func TestResumeDeletesTheTextThatItResumedAndNothingElse(t *testing.T) {
	t.Parallel()
	nodes := redlocktest.Start(t, 3)
	file := transferred(t, nodes)
	link := filepath.Join(t.TempDir(), "link")
	require.NoError(t, os.Symlink(file, link))
	r := start(t, nodes, "resume", "--from", link, "--transfer", file+"2", "--", "true").end()
	require.Zero(t, r.code, r.log)
	assert.NoFileExists(t, file, "the text is deleted, wherever the link leads")
	_, err := os.Lstat(link)
	require.NoError(t, err, "the link is not")

	// While resume asked the nodes, another text was put in the place of the one that it has read.
	require.NoError(t, os.WriteFile(file, []byte("a newer text\n"), 0o600))
	removeText(link, textOf(file+"2"))
	assert.Equal(t, "a newer text\n", textOf(file))
	removeText(link, "a newer text\n")
	assert.NoFileExists(t, file)
}

func TestTransferFlagsThatDoNotFitAreRefusedBeforeTheLockIsTaken(t *testing.T) {
	nodes := redlocktest.Start(t, 1)
	dir := t.TempDir()
	file := filepath.Join(dir, "text")
	for _, args := range [][]string{
		{"run", "a", "b", "--transfer", file, "--", "true"},
		{"run", "a", "--read", "--transfer", file, "--", "true"},
		{"run", "a", "--min-hold", "1s", "--transfer", file, "--", "true"},
		{"run", "a", "--transfer", "", "--", "true"},
		{"run", "a", "--transfer", dir, "--", "true"},
		{"run", "a", "--transfer", filepath.Join(dir, "none", "text"), "--", "true"},
		{"resume"},
		{"resume", "true"},
		{"resume", "a", "--", "true"},
		{"resume", "--stop-before", "9s", "--", "true"},
	} {
		r := call(nodes, args...)
		assert.Equal(t, codeUsage, r.code, "%q: %s", args, r.log)
	}
	assert.Empty(t, nodes.Keys(0))
}

// A lock that a program transferred, with a library's default settings.
func TestResumeTakesTheTextOfAProgram(t *testing.T) {
	nodes := redlocktest.Start(t, 3)
	lease := hold(t, nodes, "job", redlock.WithTTL(time.Minute))
	text, err := lease.Transfer(t.Context())
	require.NoError(t, err)
	r := startOn(t, nodes, text, "resume", "--", "true").end()
	assert.Zero(t, r.code, r.log)
	requireFree(t, nodes)
}
