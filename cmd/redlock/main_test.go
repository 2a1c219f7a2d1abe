package main

import (
	"bytes"
	"fmt"
	"os"
	"os/exec"
	"runtime"
	"runtime/debug"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/redlock-go/redlock"
	"github.com/redlock-go/redlock/internal/test/testclient"
	"github.com/redlock-go/redlock/redlocktest"
)

// toolEnv makes the test binary run as the tool, so that the race detector watches the tool
// also as a process of its own.
const toolEnv = "REDLOCK_TEST_TOOL"

func TestMain(m *testing.M) {
	if os.Getenv(toolEnv) != "" {
		os.Exit(execute(os.Args[1:], os.Stdout, os.Stderr))
	}
	os.Unsetenv(nodesEnv)
	goleak.VerifyTestMain(m)
}

// result is the exit code and the output of one call of the tool.
type result struct {
	code     int
	out, log string
}

// call runs the tool in this process.
func call(nodes *redlocktest.Nodes, args ...string) result {
	return toolSays(append(nodesArgs(nodes), args...)...)
}

// toolSays runs the tool with these arguments alone.
func toolSays(args ...string) result {
	var out bytes.Buffer
	var log lockedBuffer
	code := execute(args, &out, &log)
	return result{code, out.String(), log.String()}
}

// unlock calls redlock unlock, which waits for a node timeout when it has broken a lock.
func unlock(nodes *redlocktest.Nodes, args ...string) result {
	return call(nodes, append([]string{"unlock", "--node-timeout", "1s"}, args...)...)
}

// nodesArgs returns the flags for embedded nodes, which never lose their memory. A busy machine may keep them
// waiting: the node timeout is the longest that the default ttl of 10 s allows. A test that gives a shorter ttl gives a
// shorter node timeout behind it.
func nodesArgs(nodes *redlocktest.Nodes) []string {
	return []string{"--nodes", strings.Join(nodes.URLs(), ","), "--restart-guard", "0", "--node-timeout", "4900ms"}
}

// tool is the tool as a process.
type tool struct {
	t    *testing.T
	cmd  *exec.Cmd
	out  lockedBuffer
	log  lockedBuffer
	over chan struct{}
}

// start runs the tool as a process that ends with the test.
func start(t *testing.T, nodes *redlocktest.Nodes, args ...string) *tool {
	t.Helper()
	return startWith(t, nodes, nil, args...)
}

// startWith is start with a file at stdin.
func startWith(t *testing.T, nodes *redlocktest.Nodes, in *os.File, args ...string) *tool {
	t.Helper()
	p := &tool{t: t, over: make(chan struct{})}
	p.cmd = exec.Command(os.Args[0], append(nodesArgs(nodes), args...)...)
	p.cmd.Env = append(os.Environ(), toolEnv+"=1", "GORACE=atexit_sleep_ms=0")
	p.cmd.Stdout, p.cmd.Stderr = &p.out, &p.log
	if in != nil {
		p.cmd.Stdin = in
	}
	p.run()
	return p
}

// run starts the process.
func (p *tool) run() {
	p.t.Helper()
	p.cmd.WaitDelay = 100 * time.Millisecond // a command that outlives the tool may keep the pipes open
	require.NoError(p.t, p.cmd.Start())
	go func() {
		_ = p.cmd.Wait()
		close(p.over)
	}()
	p.t.Cleanup(func() {
		_ = p.cmd.Process.Kill()
		<-p.over
	})
}

// end waits until the tool has ended.
func (p *tool) end() result {
	p.t.Helper()
	select {
	case <-p.over:
	case <-time.After(20 * time.Second):
		// Which process waits, and which signals it ignores or has not taken yet.
		processes, _ := exec.Command("ps", "axo", "pid,ppid,pgid,stat,pending,blocked,ignored,caught,args").CombinedOutput()
		_ = p.cmd.Process.Kill()
		<-p.over // its output may be read now
		require.FailNow(p.t, "the tool does not end", "%s\npid %d of\n%s", &p.log, p.cmd.Process.Pid, processes)
	}
	return result{p.cmd.ProcessState.ExitCode(), p.out.String(), p.log.String()}
}

// hold takes a lock, at all nodes, until the test is over or the lease is released.
func hold(t *testing.T, nodes *redlocktest.Nodes, name string, opts ...redlock.ClientOption) *redlock.Lease {
	t.Helper()
	client := testclient.Open(t, nodes.URLs(), append([]redlock.ClientOption{redlock.WithOwnerLabel("the holder")}, opts...)...)
	lease, err := client.Mutex(name).Lock(t.Context())
	require.NoError(t, err)
	for i := range nodes.URLs() { // the verdict does not wait for the last node
		eventually(t, func() bool { owner, _ := nodes.Get(i, "redlock:"+name); return owner == lease.Owner() }, "held everywhere")
	}
	return lease
}

// awaitFree waits until no node has a key: the verdict of a release does not wait for the last node.
func awaitFree(t *testing.T, nodes *redlocktest.Nodes, key string) {
	t.Helper()
	for i := range nodes.URLs() {
		eventually(t, func() bool { _, has := nodes.Get(i, key); return !has }, "free everywhere")
	}
}

// waitOnce waits for locks that are held, as redlock run does, until its first message, and returns that.
func waitOnce(t *testing.T, nodes *redlocktest.Nodes, flags *runFlags, names ...string) string {
	t.Helper()
	client := testclient.Open(t, nodes.URLs())
	defer client.Close() // as run does before it ends: it waits until the nodes have nothing of the waiter
	log := &interruptingLog{signals: make(chan os.Signal, 1)}
	runner := &runner{flags: flags, signals: log.signals, log: log}
	_, err := runner.acquire(client, names, true)
	require.ErrorContains(t, err, fmt.Sprintf("waiting for %q: ended by signal: interrupt", strings.Join(names, ", ")))
	return log.text
}

// interruptingLog ends the waiting at the first message.
type interruptingLog struct {
	text    string
	signals chan os.Signal
}

func (l *interruptingLog) Write(text []byte) (int, error) {
	l.text += string(text)
	select {
	case l.signals <- os.Interrupt:
	default:
	}
	return len(text), nil
}

// eventually waits for a change that another process makes.
func eventually(t *testing.T, condition func() bool, what string) {
	t.Helper()
	require.Eventually(t, condition, 10*time.Second, 5*time.Millisecond, what)
}

// lockedBuffer is what a command and its client's logger write to. At a terminal, the system sees to that.
type lockedBuffer struct {
	mu   sync.Mutex // protects text
	text bytes.Buffer
}

func (b *lockedBuffer) Write(p []byte) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.text.Write(p)
}

func (b *lockedBuffer) String() string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.text.String()
}

func TestVersionIsThatOfTheBuild(t *testing.T) {
	var out, log strings.Builder
	assert.Zero(t, execute([]string{"--version"}, &out, &log))
	assert.Regexp(t, `^redlock \S+ .*`+runtime.Version()+`\n$`, out.String())
	flag := out.String()
	out.Reset()
	assert.Zero(t, execute([]string{"version"}, &out, &log))
	assert.Equal(t, flag, out.String(), "redlock version prints the same")
	assert.Equal(t, codeUsage, execute([]string{"version", "1"}, &out, &log))
	assert.Equal(t, "v1.2.3 commit 0123456789ab (modified) go1.26", versionOf(&debug.BuildInfo{
		GoVersion: "go1.26", Main: debug.Module{Version: "v1.2.3"},
		Settings: []debug.BuildSetting{{Key: "vcs.revision", Value: "0123456789abcdef"}, {Key: "vcs.modified", Value: "true"}},
	}))
	assert.Equal(t, "(devel) go1.26", versionOf(&debug.BuildInfo{GoVersion: "go1.26"}))
}

// GODEBUG=fips140=only ends a process that uses an algorithm beside those of FIPS 140-3.
func TestToolWorksUnderStrictFIPS(t *testing.T) {
	nodes := redlocktest.Start(t, 3)
	t.Setenv("GODEBUG", "fips140=only")
	for _, args := range [][]string{
		{"run", "job", "--", "true"}, {"run", "--read", "job", "--", "true"}, {"run", "--permits", "2", "job", "--", "true"},
		{"run", "job", "other", "--", "true"}, {"inspect", "job"}, {"ls"}, {"doctor"}, {"bench", "--for", "100ms"},
	} {
		r := start(t, nodes, args...).end()
		require.Zero(t, r.code, "%v: %s%s", args, r.out, r.log)
	}
}
