package main

import (
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/gomodule/redigo/redis"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

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
