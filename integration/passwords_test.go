package integration

import (
	"fmt"
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

	"github.com/redlock-go/redlock"
	"github.com/redlock-go/redlock/integration/cluster"
)

// passwordsCommands are those of docs/passwords.md: one that adds the new password, two that take the old one away.
func passwordsCommands(t *testing.T) (add string, drop []string) {
	t.Helper()
	text, err := os.ReadFile("../docs/passwords.md")
	require.NoError(t, err)
	all := regexp.MustCompile(`(?m)^ *(redis-cli .*)$`).FindAllString(string(text), -1)
	require.Len(t, all, 3)
	return all[0], all[1:]
}

// at runs commands of the docs at a node.
func at(t *testing.T, n *cluster.Node, commands ...string) {
	t.Helper()
	for _, command := range commands {
		run := exec.CommandContext(t.Context(), "sh", "-c", command)
		run.Env = append(os.Environ(), "NODE=redis://"+n.Addr())
		out, err := run.CombinedOutput()
		require.NoError(t, err, "%s\n%s", command, out)
		require.NotContains(t, string(out), "ERR", command)
	}
}

// A program and a long redlock run read the password from a file, and go on with their locks while it is changed.
func TestThePasswordIsChangedWhileClientsLock(t *testing.T) {
	needShell(t)
	if _, err := exec.LookPath("redis-cli"); err != nil {
		t.Skip("no redis-cli on the PATH")
	}
	t.Parallel()
	nodes := cluster.Use(t, 3)
	old := restrict(t, nodes)
	file, stop := filepath.Join(t.TempDir(), "password"), filepath.Join(t.TempDir(), "stop")
	replace := func(password string) {
		t.Helper()
		require.NoError(t, os.WriteFile(file+".new", []byte(password+"\n"), 0o600))
		require.NoError(t, os.Rename(file+".new", file))
	}
	replace("secret")
	var named, bare []string
	for _, n := range nodes {
		named, bare = append(named, "redis://locks@"+n.Addr()+"?passwordfile="+file), append(bare, "redis://locks@"+n.Addr())
	}
	client := openClient(t, named, redlock.WithTTL(30*time.Second), redlock.WithNodeTimeout(nodeTimeout))
	lease, err := client.Mutex("mine").Lock(within(t, soon))
	require.NoError(t, err)
	run := tool(t, bare, "--restart-guard", "0", "run", "job", "--password-file", file, "--ttl", "30s", "--", "sh", "-c", `while [ ! -e "$0" ]; do sleep 0.05; done`, stop)
	var log strings.Builder
	run.Stdout, run.Stderr = &log, &log
	require.NoError(t, run.Start())
	defer func() { _ = run.Process.Kill() }()
	require.True(t, eventually(soon, func() bool { return nodes[0].Get(t, "redlock:job") != "" }), "at work: %s", &log)
	if arguments, err := os.ReadFile(fmt.Sprintf("/proc/%d/cmdline", run.Process.Pid)); err == nil {
		assert.NotContains(t, string(arguments), "secret")
	}

	add, drop := passwordsCommands(t)
	for _, n := range nodes {
		at(t, n, add)
	}
	replace("new-secret")
	for i, n := range nodes {
		before := client.Stats().Nodes[i].Connects
		at(t, n, drop...)
		require.True(t, eventually(soon, func() bool {
			clients, err := redis.String(n.Do(t, "CLIENT", "LIST"), nil)
			require.NoError(t, err)
			s := client.Stats().Nodes[i]
			return s.Connects > before && s.State == "up" && strings.Count(clients, "user=locks") >= 2
		}), "node %d: both are back: %+v", i, client.Stats().Nodes[i])
	}
	require.NoError(t, lease.Extend(t.Context()))
	code, _, refused := callTool(t, old, "--restart-guard", "0", "run", "other", "--no-wait", "--", "true")
	assert.Equal(t, 69, code, "the old password is refused")
	assert.NotContains(t, strings.ReplaceAll(refused, "locks:secret@", ""), "secret")
	require.NoError(t, os.WriteFile(stop, nil, 0o600))
	assert.NoError(t, run.Wait(), "redlock run kept its lock: %s", &log)
	assert.NotContains(t, log.String(), "secret")
}
