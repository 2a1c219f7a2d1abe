package main

import (
	"errors"
	"strings"
	"testing"

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
		{zscore, redis.Error("ERR unknown command 'ZSCORE', with args beginning with: "), "+zscore"},
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
