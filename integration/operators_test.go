package integration

import (
	"os"
	"os/exec"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/gomodule/redigo/redis"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/redlock-go/redlock"
	"github.com/redlock-go/redlock/integration/cluster"
)

// The commands of docs/operations.md, run at a real server.

// operatorsCommands are the redis-cli lines of the docs, continuation lines joined.
func operatorsCommands(t *testing.T) []string {
	t.Helper()
	text, err := os.ReadFile("../docs/operations.md")
	require.NoError(t, err)
	var commands []string
	for _, block := range regexp.MustCompile("(?s)```sh\n(.*?)```").FindAllStringSubmatch(string(text), -1) {
		for line := range strings.Lines(strings.ReplaceAll(block[1], "\\\n", " ")) {
			if line = strings.TrimSpace(line); strings.HasPrefix(line, "redis-cli ") {
				commands = append(commands, line)
			}
		}
	}
	return commands
}

func TestEveryRedisCommandOfTheDocsWorks(t *testing.T) {
	t.Parallel()
	if _, err := exec.LookPath("redis-cli"); err != nil {
		t.Skip("no redis-cli on the PATH")
	}
	nodes := cluster.Use(t, 1)
	client := openGuarded(t, nodes.URLs())
	lease, err := client.Mutex("invoice-42").Lock(within(t, soon))
	require.NoError(t, err)
	defer lease.Unlock(t.Context())

	commands := operatorsCommands(t)
	require.NotEmpty(t, commands)
	for _, command := range commands {
		run := exec.CommandContext(t.Context(), "sh", "-c", command)
		run.Env = append(os.Environ(), "NODE="+nodes.URLs()[0])
		out, err := run.CombinedOutput()
		assert.NoError(t, err, "%s\n%s", command, out)
		assert.NotContains(t, string(out), "ERR", command)
		assert.NotEmpty(t, strings.TrimSpace(string(out)), command)
	}
	assert.False(t, admitted(t, nodes[0]), "a change of N begins with taking the records away")
}

// words of an ACL rule, as ACL SETUSER takes them.
func rightsInTheDocs(t *testing.T) []any {
	t.Helper()
	for _, command := range operatorsCommands(t) {
		if _, rights, ok := strings.Cut(command, " ACL SETUSER "); ok {
			return words(strings.ReplaceAll(rights, "'", ""))
		}
	}
	t.Fatal("docs/operations.md has no ACL SETUSER")
	return nil
}

func TestTheRightsInTheDocsAreEnough(t *testing.T) {
	t.Parallel()
	notInShort(t)
	nodes := cluster.Use(t, 3)
	rights := rightsInTheDocs(t)
	var urls []string
	for _, n := range nodes {
		n.Do(t, "ACL", append([]any{"SETUSER"}, rights...)...)
		n.Do(t, "ACL", "LOG", "RESET")
		t.Cleanup(func() { n.Do(t, "ACL", "DELUSER", rights[0]) })
		urls = append(urls, "redis://locks:secret@"+n.Addr())
	}
	for _, fencing := range []bool{true, false} {
		a, b := openGuarded(t, urls, redlock.WithFencing(fencing)), openGuarded(t, urls, redlock.WithFencing(fencing))
		everything(t, a, b, nodes)
	}
	for _, n := range nodes {
		log, err := redis.Values(n.Do(t, "ACL", "LOG"), nil)
		require.NoError(t, err)
		assert.Empty(t, log, "refused commands, keys or channels")
	}
}

// everything uses each script and command once: a renewal that restores keys, a wait and a
// hand-over, broken connections, a record that is refilled from others.
func everything(t *testing.T, a, b *redlock.Client, nodes cluster.Nodes) {
	t.Helper()
	ctx := within(t, 3*soon)
	lease, err := a.Mutex("name").Lock(ctx)
	require.NoError(t, err)
	require.True(t, eventually(soon, func() bool { return len(allKeys(t, nodes)) == len(nodes) }))
	nodes[0].Do(t, "DEL", prefix+"name")
	require.NoError(t, lease.Extend(ctx))
	next := make(chan error, 1)
	go func() {
		lease, err := b.Mutex("name").Lock(ctx)
		if err == nil {
			err = lease.Unlock(ctx)
		}
		next <- err
	}()
	require.True(t, eventually(soon, func() bool {
		status, err := a.Inspect(ctx, "name")
		return err == nil && len(status.Queue) == 1
	}))
	require.NoError(t, lease.Unlock(ctx))
	require.NoError(t, <-next)
	nodes[1].Do(t, "FLUSHALL")
	for _, n := range nodes[1:] {
		n.Do(t, "CLIENT", "KILL", "TYPE", "normal", "SKIPME", "yes")
	}
	require.True(t, eventually(soon, func() bool { return admitted(t, nodes[1]) }))
	require.NoError(t, a.Ping(ctx))
}

// The README has the same rights, in groups.
func TestTheReadmeHasTheSameRights(t *testing.T) {
	text, err := os.ReadFile("../README.md")
	require.NoError(t, err)
	_, section, _ := strings.Cut(string(text), "### Permissions")
	_, block, _ := strings.Cut(section, "```\n")
	block, _, _ = strings.Cut(block, "```")
	allowed := strings.Fields(block)
	var rights []string
	for _, word := range rightsInTheDocs(t) {
		if strings.HasPrefix(word.(string), "+") {
			rights = append(rights, word.(string))
		}
	}
	slices.Sort(allowed)
	slices.Sort(rights)
	assert.Equal(t, allowed, rights)
}
