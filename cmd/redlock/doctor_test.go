package main

import (
	"bytes"
	"errors"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/gomodule/redigo/redis"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/redlock-go/redlock/redlocktest"
)

func TestDoctorReportsClocksThatWereSetSinceItsLastLook(t *testing.T) {
	for name, c := range map[string]struct {
		gains []float64 // of the nodes' clocks on this machine's, in milliseconds
		want  []string
		what  string
	}{
		"none was set":     {[]float64{20, -30, 0}, nil, ""},
		"one, forward":     {[]float64{0, 3_600_000, 0}, []string{"warning clock-stepped"}, "its clock was set forward by 1h0m since doctor's last look, 10m0s ago"},
		"one, back":        {[]float64{0, -5_000, 0}, []string{"warning clock-stepped"}, "its clock was set back by 5s since doctor's last look, 10m0s ago"},
		"this machine's":   {[]float64{-5_000, -5_000, -5_000}, []string{"note own-clock-stepped"}, "this machine's clock was set forward by 5s"},
		"one is not known": {[]float64{0, 5_000}, []string{"warning clock-stepped"}, "set forward by 5s"},
	} {
		x := healthy(3)
		now := time.Now()
		last := &lastLook{now.Add(-10 * time.Minute), map[string]float64{}}
		for i, gain := range c.gains {
			x.Nodes[i].Clock.Offset = 100
			last.Offsets[x.Nodes[i].Node] = 100 - gain
		}
		x.judgeSteps(last, now)
		require.Equal(t, c.want, x.codes(), name)
		if c.want != nil {
			assert.Contains(t, x.Findings[0].What, c.what, name)
		}
	}
	x := healthy(3)
	x.judgeSteps(nil, time.Now())
	assert.Empty(t, x.Findings, "the first look")
}

func TestDoctorKeepsItsLastLook(t *testing.T) {
	nodes := redlocktest.Start(t, 3)
	file := filepath.Join(t.TempDir(), "clocks")
	doctor := func() result { return call(nodes, "doctor", "--for", "0s", "--last", file) }
	assert.NotContains(t, doctor().out, "stepped")
	assert.NotContains(t, doctor().out, "last look")
	last, err := readLastLook(file)
	require.NoError(t, err)
	require.Len(t, last.Offsets, 3)
	for node := range last.Offsets {
		last.Offsets[node] -= 60_000
		break
	}
	require.NoError(t, last.write(file))
	assert.Regexp(t, `WARNING  node \d \(.*\): its clock was set forward by 1m0s since doctor's last look`, doctor().out)
	assert.NotContains(t, doctor().out, "last look", "it was told once")

	nodes.Stop(1)
	doctor()
	last, err = readLastLook(file)
	require.NoError(t, err)
	require.Len(t, last.Offsets, 3, "a node that does not answer keeps what is known of it")

	require.NoError(t, os.WriteFile(file, []byte("no look"), 0o600))
	r := doctor()
	assert.Equal(t, codeDanger, r.code)
	assert.Contains(t, r.log, "is no file that doctor has written; remove it, or name another one")
}

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

func TestATrialShowsWhatTheUserLacks(t *testing.T) {
	zscore := &trial{forReaders, "+zscore", "~redlock::*", "ZSCORE", nil}
	set := &trial{forReaders, pxat, "~redlock:*", "SET", nil}
	publish := &trial{forWakeUps, "+publish", "&redlock::wake:*", "PUBLISH", nil}
	for _, c := range []struct {
		trial *trial
		err   error
		want  string
	}{
		{zscore, nil, ""},
		{zscore, redis.ErrNil, ""},
		{zscore, redis.Error("NOPERM this user has no permissions to run the 'zscore' command"), "+zscore"},
		{zscore, redis.Error("NOPERM this user has no permissions to run the 'zscore' command or its subcommand"), "+zscore"},
		{zscore, redis.Error("NOPERM User keys has no permissions to run the 'zscore' command"), "+zscore"},
		{zscore, redis.Error("NOPERM this user has no permissions to access one of the keys used as arguments"), "~redlock::*"},
		{zscore, redis.Error("NOPERM No permissions to access a key"), "~redlock::*"},
		{zscore, redis.Error("ERR unknown command 'ZSCORE', with args beginning with: "), ""},
		{zscore, redis.Error("WRONGTYPE Operation against a key holding the wrong kind of value"), ""},
		{zscore, redis.Error("READONLY You can't write against a read only replica."), ""},
		{publish, redis.Error("NOPERM this user has no permissions to access one of the channels used as arguments"), "&redlock::wake:*"},
		{set, redis.Error("ERR syntax error"), pxat},
		{set, redis.Error("NOPERM this user has no permissions to run the 'set' command"), ""},
		{set, errors.New("EOF"), ""},
	} {
		assert.Equal(t, c.want, c.trial.missing(c.err), "%s: %v", c.trial.command, c.err)
	}
}

func TestFindingsSayWhichLocksLackARight(t *testing.T) {
	x := healthy(1)
	x.Nodes[0].lacks = map[purpose][]string{forReaders: {"+zscore", "+pexpireat"}}
	x.judgeRights(x.Nodes[0])
	require.Len(t, x.Findings, 1)
	assert.Equal(t, "locks for readers do not work there; mutexes do: missing are +zscore +pexpireat", x.Findings[0].What)
	assert.Contains(t, x.Findings[0].Remedy, "grant +zscore +pexpireat to every user of a name that has readers")

	x = healthy(1)
	x.Nodes[0].lacks = map[purpose][]string{forMutexes: {"+zadd"}, forReaders: {pxat}}
	x.judgeRights(x.Nodes[0])
	require.Len(t, x.Findings, 2)
	assert.Equal(t, "locks do not work there: the user lacks +zadd", x.Findings[0].What)
	assert.NotContains(t, x.Findings[1].What, "mutexes do")
	assert.True(t, strings.HasPrefix(x.Findings[1].Remedy, "use Redis 6.2"))
}

// A person who reads "the user lacks +pexpire" would grant it, in vain.
func TestRenamedCommandIsNoMissingRight(t *testing.T) {
	renamed := redis.Error("ERR unknown command 'X', with args beginning with: ")
	for _, c := range []struct {
		fault func(f *nodeFacts)
		code  string
		what  string
		fit   bool
	}{
		{func(f *nodeFacts) {
			f.unknown = map[purpose][]string{forMutexes: {"PEXPIRE", "EVALSHA"}, forSets: {"EXISTS"}}
		},
			"danger unknown-command", "it does not know EVALSHA, EXISTS, PEXPIRE: renamed there, or disabled", false},
		{func(f *nodeFacts) { f.unknown = map[purpose][]string{forLists: {"SCAN"}, forReaders: {"ZSCORE"}} },
			"warning unknown-command", "it does not know SCAN, ZSCORE: renamed there, or disabled", true},
		{func(f *nodeFacts) { f.infoErr = renamed }, "warning no-info", "it does not answer INFO", true},
		{func(f *nodeFacts) { f.killErr = renamed }, "warning no-kill", "close its own old connections", true},
	} {
		x := healthy(3)
		c.fault(x.Nodes[1])
		x.judge()
		require.Equal(t, []string{c.code}, x.codes())
		assert.Contains(t, x.Findings[0].What, c.what)
		assert.Contains(t, x.Findings[0].Remedy, "rename-command")
		assert.NotContains(t, x.Findings[0].Remedy, "grant")
		assert.Equal(t, c.fit, x.fit(x.Nodes[1]))
	}
}

// refusing answers one command after the other with its error.
type refusing struct {
	redis.Conn
	errs []error
}

func (*refusing) Send(string, ...any) error { return nil }
func (*refusing) Flush() error              { return nil }
func (*refusing) DoWithTimeout(time.Duration, string, ...any) (any, error) {
	return nil, errors.New("not asked")
}
func (r *refusing) ReceiveWithTimeout(time.Duration) (any, error) {
	err := r.errs[0]
	r.errs = r.errs[1:]
	return nil, err
}

func TestDoctorRecordsCommandsThatTheServerDoesNotKnow(t *testing.T) {
	trials := trialsOf("")
	r := &refusing{}
	for i := range trials {
		var err error
		if trials[i].command == "ZSCORE" || trials[i].command == "EVALSHA" {
			err = redis.Error("ERR unknown command '" + trials[i].command + "', with args beginning with: ")
		}
		r.errs = append(r.errs, err)
	}
	x := healthy(3)
	require.NoError(t, x.Nodes[1].try(&asker{conn: r}, trials))
	x.judge()
	require.Equal(t, []string{"danger unknown-command"}, x.codes())
	assert.Contains(t, x.Findings[0].What, "ZSCORE: renamed there, or disabled")
}

// Without a prefix a lock's key may be any. A user with the patterns of its own locks lacks nothing.
func TestNarrowPatternsAreEnoughForLocksWithoutAPrefix(t *testing.T) {
	for prefix, want := range map[string]string{"": "note narrow-keys", "redlock:": "danger no-rights"} {
		trials := trialsOf(prefix)
		r := &refusing{}
		for i := range trials {
			var err error
			if trials[i].pattern == "~"+prefix+"*" {
				err = redis.Error("NOPERM this user has no permissions to access one of the keys used as arguments")
			}
			r.errs = append(r.errs, err)
		}
		x := healthy(3)
		require.NoError(t, x.Nodes[1].try(&asker{conn: r}, trials))
		x.judge()
		require.Equal(t, []string{want}, x.codes(), prefix)
		assert.Contains(t, x.Findings[0].Remedy, "redlock doctor --prefix "+prefix+"BEGINNING")
	}
}
