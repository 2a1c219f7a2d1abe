//go:build unix

package main

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/redlock-go/redlock"
	"github.com/redlock-go/redlock/internal/test/testclient"
	"github.com/redlock-go/redlock/redlocktest"
)

// startObserve starts redlock observe. A holder that announces nothing is seen after a node
// timeout: that is short here.
func startObserve(t *testing.T, nodes *redlocktest.Nodes, args ...string) *tool {
	t.Helper()
	return start(t, nodes, append([]string{"observe", "--node-timeout", "1s"}, args...)...)
}

// requireSoon waits for what a process sees, on a busy machine too.
func requireSoon(t *testing.T, p *tool, condition func() bool, what string) {
	t.Helper()
	require.Eventually(t, condition, time.Minute, 10*time.Millisecond, "%s: %s%s", what, &p.out, &p.log)
}

// awaitHolding waits until the last line that the tool has printed is as it should be, and returns it.
func awaitHolding(t *testing.T, p *tool, what string, is func(holding) bool) (h holding) {
	t.Helper()
	requireSoon(t, p, func() bool {
		whole, _, _ := cutLast(p.out.String(), "\n")
		_, last, _ := cutLast(whole, "\n")
		h = holding{}
		return last != "" && assert.NoError(t, json.Unmarshal([]byte(last), &h)) && is(h)
	}, what)
	assert.Less(t, time.Since(h.Time), time.Hour)
	assert.Equal(t, time.UTC, h.Time.Location())
	return h
}

// cutLast cuts a text around the last separator. Without one, all of it is after.
func cutLast(text, separator string) (before, after string, found bool) {
	i := strings.LastIndex(text, separator)
	if i < 0 {
		return "", text, false
	}
	return text[:i], text[i+len(separator):], true
}

func isNobody(h holding) bool { return h.Holder == "" && !h.Shared && h.Error == "" }

// endBySignal ends the tool by a signal, and checks that this is no failure.
func endBySignal(t *testing.T, p *tool, sig os.Signal) {
	t.Helper()
	require.NoError(t, p.cmd.Process.Signal(sig))
	r := p.end()
	require.Zero(t, r.code, r.log)
}

func TestObservePrintsWhoHoldsALockAtEachChange(t *testing.T) {
	t.Parallel()
	nodes := redlocktest.Start(t, 3)
	both := []*tool{startObserve(t, nodes, "job"), start(t, nodes, "watch", "job", "--log", "--node-timeout", "1s")}
	for _, p := range both {
		awaitHolding(t, p, "free", isNobody)
		require.Regexp(t, `(?m)^\{"time":"[^"]+Z","name":"job"\}$`, p.out.String())
	}
	lease := hold(t, nodes, "job")
	for _, p := range both {
		h := awaitHolding(t, p, "held", func(h holding) bool { return h.Holder != "" && h.Error == "" })
		assert.Equal(t, holding{Time: h.Time, Name: "job", Holder: "the holder", Owner: lease.Owner(), Since: lease.Since().UTC()}, h)
	}
	require.NoError(t, lease.Unlock(t.Context()))
	reader, err := testclient.Open(t, nodes.URLs()).RWMutex("job").RLock(t.Context())
	require.NoError(t, err)
	for _, p := range both {
		h := awaitHolding(t, p, "shared", func(h holding) bool { return h.Shared && h.Error == "" })
		assert.Equal(t, holding{Time: h.Time, Name: "job", Shared: true}, h)
	}
	require.NoError(t, reader.Unlock(t.Context()))
	for i, p := range both {
		awaitHolding(t, p, "free again", isNobody)
		endBySignal(t, p, []os.Signal{syscall.SIGINT, syscall.SIGTERM}[i])
	}
}

func TestObserveShowsTheTokenOfAHolderThatAnnouncesItself(t *testing.T) {
	t.Parallel()
	nodes := redlocktest.Start(t, 3)
	p := startObserve(t, nodes, "job", "--prefix", "app:")
	awaitHolding(t, p, "free", isNobody)
	lock := func(prefix string) *redlock.Lease {
		client := testclient.Open(t, nodes.URLs(), redlock.WithOwnerLabel(attack))
		lease, err := client.Mutex("job", redlock.WithPrefix(prefix), redlock.WithAnnounce()).Lock(t.Context())
		require.NoError(t, err)
		return lease
	}
	other, lease := lock("redlock:"), lock("app:")
	h := awaitHolding(t, p, "held, and with a token", func(h holding) bool { return h.Token > 0 })
	assert.Equal(t, lease.Token(), h.Token)
	assert.NotEqual(t, other.Owner(), lease.Owner())
	assert.Equal(t, strconv.Quote(lease.Owner()), h.Owner)
	requireHarmless(t, p.out.String())
	require.NoError(t, lease.Unlock(t.Context()))
	awaitHolding(t, p, "free again", isNobody)
}

func TestObserveSaysWhatTheOthersSayWithoutAQuorum(t *testing.T) {
	t.Parallel()
	nodes := redlocktest.Start(t, 3)
	lease := hold(t, nodes, "job", redlock.WithTTL(10*time.Minute))
	nodes.Stop(0)
	nodes.Stop(1)
	p := startObserve(t, nodes, "job")
	h := awaitHolding(t, p, "what the third node says", func(h holding) bool { return h.Error != "" && h.Holder != "" })
	assert.Equal(t, lease.Owner(), h.Owner)
	assert.Regexp(t, `^observe "job": .*quorum.*node 1`, h.Error)
	require.NoError(t, nodes.Start(0))
	require.NoError(t, nodes.Start(1))
	awaitHolding(t, p, "a quorum", func(h holding) bool { return h.Error == "" })
	endBySignal(t, p, syscall.SIGTERM)
}

// tellAll is a script that prints all that observe tells a command.
const tellAll = `printf '[%s|%s|%s|%s|%s|%s|%s]\n' "$REDLOCK_NAME" "$REDLOCK_HOLDER" "$REDLOCK_OWNER" "$REDLOCK_TOKEN" "$REDLOCK_SINCE" ` +
	`"$REDLOCK_SHARED" "$REDLOCK_ERROR"`

func TestObserveRunsACommandForEachHolder(t *testing.T) {
	t.Parallel()
	nodes := redlocktest.Start(t, 3)
	p := startObserve(t, nodes, "job", "--", "sh", "-c", tellAll+"; cat; exit 3") // cat: stdin is empty
	says := func(text string) {
		t.Helper()
		requireSoon(t, p, func() bool { return strings.Contains(p.out.String(), text+"\n") }, text)
	}
	says("[job||||||]")
	client := testclient.Open(t, nodes.URLs(), redlock.WithOwnerLabel("a\n\x00b"))
	lease, err := client.RWMutex("job", redlock.WithAnnounce()).Lock(t.Context())
	require.NoError(t, err)
	says(`[job|"a\n\x00b"|` + strconv.Quote(lease.Owner()) + fmt.Sprintf("|%d|", lease.Token()) + lease.Since().UTC().Format(time.RFC3339) + "||]")
	require.NoError(t, lease.Downgrade(t.Context()))
	says("[job|||||1|]")
	assert.Contains(t, p.log.String(), "redlock: sh failed (exit status 3); observe runs it again at the next change\n")
	nodes.Stop(0)
	nodes.Stop(1)
	requireSoon(t, p, func() bool {
		_, last, _ := cutLast(p.out.String(), "[job|")
		return strings.Contains(last, `|observe "job": `)
	}, "no quorum")
	endBySignal(t, p, syscall.SIGHUP)
}

func TestObserveRunsACommandOnceForManyChangesMeanwhile(t *testing.T) {
	t.Parallel()
	const changes = 20
	nodes := redlocktest.Start(t, 3)
	dir := t.TempDir()
	p := startObserve(t, nodes, "job", "--", "sh", "-c", `mkdir "$1/runs" || echo two at a time
echo "begin $REDLOCK_TOKEN"; while [ ! -e "$1/go" ]; do sleep 0.02; done; rmdir "$1/runs"; echo "end $REDLOCK_TOKEN"`, "sh", dir)
	requireSoon(t, p, func() bool { return strings.Contains(p.out.String(), "begin \n") }, "the first run")
	mutex := testclient.Open(t, nodes.URLs()).Mutex("job", redlock.WithAnnounce())
	for range changes {
		lease, err := mutex.Lock(t.Context())
		require.NoError(t, err)
		require.NoError(t, lease.Unlock(t.Context()))
	}
	lease, err := mutex.Lock(t.Context())
	require.NoError(t, err)
	require.Equal(t, "begin \n", p.out.String(), "the first run has not ended")
	require.NoError(t, os.WriteFile(filepath.Join(dir, "go"), nil, 0o600))
	last := fmt.Sprintf("end %d\n", lease.Token())
	requireSoon(t, p, func() bool { return strings.HasSuffix(p.out.String(), last) }, "the newest holder")
	assert.Less(t, strings.Count(p.out.String(), "begin"), changes/2)
	assert.NotContains(t, p.out.String()+p.log.String(), "two at a time")
	endBySignal(t, p, syscall.SIGTERM)
}

func TestASignalEndsObserveAndItsCommand(t *testing.T) {
	t.Parallel()
	nodes := redlocktest.Start(t, 1)
	for traps, last := range map[string]string{
		`trap 'echo stopped; exit 7' TERM`: "ready\nstopped\n",
		`trap '' TERM`:                     "ready\n", // SIGKILL ends it
	} {
		p := startObserve(t, nodes, "job", "--", "sh", "-c", traps+"; echo ready; while :; do sleep 0.02; done")
		requireSoon(t, p, func() bool { return p.out.String() != "" }, "at work")
		endBySignal(t, p, syscall.SIGTERM)
		assert.Equal(t, last, p.out.String())
		assert.NotContains(t, p.log.String(), "failed")
	}
}

func TestObserveEndsIfItsCommandCannotBeStarted(t *testing.T) {
	nodes := redlocktest.Start(t, 1)
	plain := filepath.Join(t.TempDir(), "plain")
	require.NoError(t, os.WriteFile(plain, []byte("echo"), 0o600))
	assert.Equal(t, codeNotExecutable, call(nodes, "observe", "job", "--", plain).code)
	require.NoError(t, os.Chmod(plain, 0o700))
	r := call(nodes, "observe", "job", "--", plain)
	assert.Equal(t, codeNotExecutable, r.code, "without #!")
	assert.Contains(t, r.log, "cannot be executed (a script must begin with #!)")
}

func TestRunAnnouncesItsLockIfItIsTold(t *testing.T) {
	t.Parallel()
	nodes := redlocktest.Start(t, 3)
	for _, c := range []struct {
		args  []string
		token bool
	}{
		{[]string{"job", "--announce", "--min-hold", "1ms"}, true},
		{[]string{"job", "other", "--announce"}, true},
		{[]string{"job"}, false},
	} {
		p := startObserve(t, nodes, "job")
		awaitHolding(t, p, "free", isNobody)
		job := start(t, nodes, append(append([]string{"run"}, c.args...), "--", "sh", "-c", `echo "$REDLOCK_TOKEN"; exec sleep 1000`)...)
		h := awaitHolding(t, p, "held", func(h holding) bool { return h.Holder != "" && (h.Token > 0 || !c.token) })
		if c.token {
			requireSoon(t, job, func() bool { return job.out.String() != "" }, "its token")
			assert.Equal(t, strings.TrimSpace(job.out.String()), strconv.FormatInt(h.Token, 10))
		} else {
			assert.Zero(t, h.Token)
		}
		require.NoError(t, job.cmd.Process.Signal(syscall.SIGTERM))
		job.end()
		awaitHolding(t, p, "free again", isNobody)
		endBySignal(t, p, syscall.SIGTERM)
	}
}
