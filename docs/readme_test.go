package docs_test

import (
	"context"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/gomodule/redigo/redis"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/redlock-go/redlock/internal/test/long"
)

// The README is one screen for a newcomer, and a page of links for everybody else.
const (
	maxReadmeLines = 140
	firstScreen    = 60 // lines, with the first program
)

func TestTheReadmeIsShort(t *testing.T) {
	lines := strings.Split(strings.TrimSuffix(read(t, "README.md"), "\n"), "\n")
	require.Greater(t, len(lines), firstScreen)
	assert.LessOrEqual(t, len(lines), maxReadmeLines, "move text to docs/")
	screen := strings.Join(lines[:firstScreen], "\n")
	for _, part := range []string{
		"## What others leave to you", "Go 1.25 or later", "BSD-3-Clause", "go get github.com/redlock-go/redlock", "package main\n",
		"redis-server --port", "At the first start of the masters every lock waits ten seconds", "## Is it safe?",
	} {
		assert.Contains(t, screen, part)
	}
	_, readOn, _ := strings.Cut(screen, "**Read on**")
	readOn, _, _ = strings.Cut(readOn, "\n")
	assert.Len(t, link.FindAllString(readOn, -1), 5, "five links follow the first program: %s", readOn)
}

// readmeFigures are the sentences of the README's numbers, each with its cell of docs/benchmarks.md or of its targets.csv.
var readmeFigures = map[string]string{
	`(?m)^- A process makes (\S+) times as many locks and releases as redsync on redigo`: `(?m)^\| redsync-redigo \| ([^ |]+)x \|`,
	`(?m)^- It makes (\S+) times as many as rueidislock`:                                 `(?m)^\| rueidislock \| ([^ |]+)x \|`,
	`(?m)^- While 1000 callers wait .* master runs (\S+) commands a second`:              `(?m)^commands per second while 1000 wait,[^,]+,([^,]+),`,
}

func TestTheReadmesNumbersAreThoseOfTheBenchmarks(t *testing.T) {
	readme, report := read(t, "README.md"), read(t, "docs/benchmarks.md")+read(t, "docs/benchmarks/targets.csv")
	for sentence, cell := range readmeFigures {
		shown := regexp.MustCompile(sentence).FindStringSubmatch(readme)
		measured := regexp.MustCompile(cell).FindStringSubmatch(report)
		require.NotNil(t, shown, "README.md has no sentence %s", sentence)
		require.NotNil(t, measured, "the benchmarks have no cell %s", cell)
		assert.Equal(t, measured[1], shown[1], shown[0])
	}
	_, section, _ := strings.Cut(readme, "\n## Numbers\n")
	section, _, _ = strings.Cut(section, "\n## ")
	assert.Equal(t, len(readmeFigures), strings.Count(section, "\n- "), "each number has a test")
}

// readmePorts are the ports in the README, which belong to other servers where the tests run.
var readmePorts = []string{"6379", "6380", "6381"}

// TestTheReadmesFirstProgramGetsALock does what a newcomer does: it saves the program, starts the servers, and runs
// it. The module comes from this tree instead of the network.
func TestTheReadmesFirstProgramGetsALock(t *testing.T) {
	if !long.Tests() {
		t.Skip("make test runs it")
	}
	if _, err := exec.LookPath("redis-server"); err != nil {
		t.Skip("no redis-server on the PATH")
	}
	tree, err := filepath.Abs(root)
	require.NoError(t, err)
	readme := read(t, "README.md")
	program, steps := snippet.FindStringSubmatch(readme)[2], page{"README.md", readme}.commands()[:3]
	require.Regexp(t, `^go mod init \S+ && go get github.com/redlock-go/redlock@\S+$`, steps[0])
	require.Regexp(t, `^for port in 6379 6380 6381; do redis-server `, steps[1])
	require.Equal(t, "go run .", steps[2])
	initialize, _, _ := strings.Cut(steps[0], " && ")
	for i, port := range freePorts(t, len(readmePorts)) {
		program = strings.ReplaceAll(program, readmePorts[i], port)
		steps[1] = strings.ReplaceAll(steps[1], readmePorts[i], port)
		t.Cleanup(func() { shutDown(t, port) })
	}
	dir := t.TempDir()
	in := func(line string) string { return shell(t, "cd '"+dir+"' && "+line) }
	require.NoError(t, os.WriteFile(filepath.Join(dir, "main.go"), []byte(program), 0o600))
	require.NoError(t, os.WriteFile(filepath.Join(dir, "go.sum"), []byte(read(t, "go.sum")), 0o600))
	in(initialize)
	in("go mod edit -require=github.com/redlock-go/redlock@v0.0.0 -replace=github.com/redlock-go/redlock='" + tree + "'")
	in(steps[1])
	in("GOFLAGS=-mod=mod go build -o first .") // go run, in two steps: so a program that waits for ever can be ended
	for range 2 {                              // the second run does not wait for a guard
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		out, err := exec.CommandContext(ctx, filepath.Join(dir, "first")).CombinedOutput()
		cancel()
		require.NoError(t, err, "%s", out)
		assert.Regexp(t, `(?m) paying, with token \d+$`, string(out))
	}
}

// freePorts returns ports on which nobody listens.
func freePorts(t *testing.T, n int) (ports []string) {
	t.Helper()
	for range n {
		listener, err := net.Listen("tcp", "localhost:0")
		require.NoError(t, err)
		defer listener.Close() // only when all are chosen: so they differ
		ports = append(ports, fmt.Sprint(listener.Addr().(*net.TCPAddr).Port))
	}
	return ports
}

// shutDown ends a server that the test started.
func shutDown(t *testing.T, port string) {
	server, err := redis.Dial("tcp", "localhost:"+port, redis.DialConnectTimeout(time.Second))
	if err != nil {
		return // it never started
	}
	defer server.Close()
	_, _ = server.Do("SHUTDOWN", "NOSAVE") // the answer is the end of the connection
}
