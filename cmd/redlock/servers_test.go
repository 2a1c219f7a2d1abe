package main

import (
	"bytes"
	"os"
	"regexp"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

// serversPage is the page whose rows doctor names.
const serversPage = "../../docs/servers.md"

func TestServerProgramsAreToldApart(t *testing.T) {
	for _, c := range []struct {
		info map[string]string
		want serverFacts
	}{
		{map[string]string{"redis_version": "7.0.15"}, serverFacts{"Redis", "7.0.15", "Redis 7.0", tested}},
		{map[string]string{"redis_version": "6.2.16"}, serverFacts{"Redis", "6.2.16", "Redis 6.2", tested}},
		{map[string]string{"redis_version": "6.0.20"}, serverFacts{"Redis", "6.0.20", "Redis before 6.2", unsupported}},
		{map[string]string{"redis_version": "7.2.5"}, serverFacts{"Redis", "7.2.5", "Redis 7.2 and later", read}},
		{map[string]string{"redis_version": "10.0.1"}, serverFacts{"Redis", "10.0.1", "Redis 7.2 and later", read}},
		{map[string]string{"redis_version": "7.2.4", "valkey_version": "8.0.1"}, serverFacts{"Valkey", "8.0.1", "Valkey 8.0", tested}},
		{map[string]string{"redis_version": "7.2.4", "valkey_version": "9.1.0"}, serverFacts{"Valkey", "9.1.0", "Valkey, other versions", read}},
		{map[string]string{"redis_version": "6.3.4", "mvcc_depth": "0"}, serverFacts{"KeyDB", "6.3.4", "KeyDB", read}},
		{map[string]string{"redis_version": "7.4.0", "dragonfly_version": "df-v1.40.1"}, serverFacts{"Dragonfly", "df-v1.40.1", "Dragonfly", unsupported}},
		{map[string]string{"redis_version": "7.4.3", "garnet_version": "1.0.48"}, serverFacts{"Garnet", "1.0.48", "Garnet", unsupported}},
		{map[string]string{"redis_version": "4.0.0", "kvrocks_version": "2.12.0"}, serverFacts{"Kvrocks", "2.12.0", "Kvrocks", unsupported}},
		{map[string]string{"redis_version": "8.2.0", "upstash_version": "1.10.5"}, serverFacts{"Upstash", "1.10.5", "Upstash", unsupported}},
		{map[string]string{"redis_version": "7.0.7", "os": "Amazon ElastiCache"}, serverFacts{"ElastiCache", "7.0.7", "ElastiCache, cluster mode disabled", read}},
		{map[string]string{"redis_version": "7.0.7", "os": "Amazon ElastiCache", "redis_mode": "cluster"}, serverFacts{"ElastiCache", "7.0.7", clusterModeRow, unsupported}},
		{map[string]string{"redis_version": "7.0.7", "os": "Amazon MemoryDB", "cluster_enabled": "1"}, serverFacts{"MemoryDB", "7.0.7", clusterModeRow, unsupported}},
		{map[string]string{"redis_version": "7.2.4", "valkey_version": "8.0.1", "server_mode": "cluster"}, serverFacts{"Valkey", "8.0.1", clusterModeRow, unsupported}},
		{map[string]string{"role": "master"}, serverFacts{"", "", "", notKnown}}, // as the embedded nodes of tests
		{nil, serverFacts{"", "", "", notKnown}},
	} {
		assert.Equal(t, c.want, serverOf(c.info))
		if c.want.Row != "" {
			assertRow(t, c.want)
		}
	}
}

// headings are those under which docs/servers.md has the rows of each kind.
var headings = map[support]string{tested: "## Tested", read: "## Not tested, works by its documentation", unsupported: "## Does not work"}

// assertRow expects that the page has the row, and under the heading of its kind.
func assertRow(t *testing.T, s serverFacts) {
	t.Helper()
	page, err := os.ReadFile(serversPage)
	require.NoError(t, err)
	section := regexp.MustCompile(`(?s)\n` + headings[s.Support] + `\n.*?(\n## |$)`).FindString(string(page))
	assert.Contains(t, section, "\n| **"+s.Row+"** |", "%s", headings[s.Support])
}

func TestDoctorPrintsTheServersAndTheirRows(t *testing.T) {
	x := healthy(3)
	x.Nodes[2].Server = serverOf(map[string]string{"redis_version": "7.2.4", "valkey_version": "9.1.0"})
	x.judge()
	var out bytes.Buffer
	x.write(&out, false)
	assert.Contains(t, out.String(), "Redis 7.0.15: tested (\"Redis 7.0\" in docs/servers.md)\n"+
		"Valkey 9.1.0: not tested, should work by its documentation (\"Valkey, other versions\" in docs/servers.md)\n")
	assert.Contains(t, out.String(), "NOTE  Valkey 9.1.0 at node 2: the project's tests have not run on it")
}
