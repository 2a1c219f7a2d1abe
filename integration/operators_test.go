package integration

import (
	"os"
	"os/exec"
	"regexp"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

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
	// One of them lists quarantines: so there is one, of a run that is over.
	commands = append([]string{`redis-cli -u "$NODE" SET redlock::guard:of-another-run 1 PX 60000`}, commands...)
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
