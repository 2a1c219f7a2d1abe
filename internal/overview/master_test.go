package overview

import (
	"errors"
	"fmt"
	"os"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/gomodule/redigo/redis"
	"github.com/stretchr/testify/require"

	"github.com/redlock-go/redlock"
	"github.com/redlock-go/redlock/internal/node"
	"github.com/redlock-go/redlock/internal/system"
)

func TestEachAnchorIsASectionOfTheRunbook(t *testing.T) {
	text, err := os.ReadFile("../../docs/operations.md")
	require.NoError(t, err)
	sections := make(map[string]bool)
	for _, heading := range regexp.MustCompile(`(?m)^#+ (.*)$`).FindAllStringSubmatch(string(text), -1) {
		kept := regexp.MustCompile(`[^\pL\pN _-]`).ReplaceAllString(strings.ToLower(heading[1]), "")
		sections[strings.ReplaceAll(kept, " ", "-")] = true
	}
	again := "it is known, and it votes again with the counters of 2 other nodes that vote (1 answered)"
	for _, n := range []redlock.NodeStats{
		{State: "stalled"}, {State: "quarantined", Err: errors.New("it does not vote for another 7s")},
		{State: "quarantined", Err: errors.New(again)}, {State: "down", Err: errors.New("connection refused")},
		{State: "down", Err: redis.Error("LOADING")}, {State: "refusing", Err: redis.Error("OOM")}, {State: "refusing", Err: redis.Error("ERR what no server says")},
		{State: "unfit", Err: redis.Error("NOPERM")}, {State: "unfit", Err: redis.Error("WRONGPASS")},
		{State: "unfit", Err: redis.Error("DENIED")}, {State: "unfit", Err: &node.UnfitError{Reason: "it is a replica"}},
	} {
		for _, available := range []bool{true, false} {
			m := newMaster(&n, available)
			require.True(t, sections[m.Anchor], "%q of %+v", m.Anchor, m)
			require.NotEmpty(t, m.Cause)
			require.True(t, strings.HasSuffix(m.Remedy, "."), m.Remedy)
			require.NotEqual(t, OK, m.Level)
		}
	}
	require.Equal(t, Master{Node: "x", State: "up", Level: OK}, newMaster(&redlock.NodeStats{Node: "x", State: "up"}, true))
}

// A server that answers is not started, whatever it answers.
func TestCauseOfARefusalHasItsRemedy(t *testing.T) {
	const inScript = "ERR Error running script (call to f_ab): @user_script:1: @user_script: 1: "
	for reply, c := range map[string]struct{ code, remedy string }{
		"OOM command not allowed when used memory > 'maxmemory'.":                    {"full", "maxmemory"},
		inScript + "-OOM command not allowed":                                        {"full", "maxmemory"},
		"MISCONF Redis is configured to save RDB snapshots":                          {"save-fails", "save"},
		"MISCONF Errors writing to the AOF file: No space left on device":            {"aof-fails", "disk"},
		"NOREPLICAS Not enough good replicas to write.":                              {"no-replicas", "min-replicas-to-write 0"},
		"BUSY Redis is busy running a script.":                                       {"busy", "SCRIPT KILL"},
		"LOADING Redis is loading the dataset in memory":                             {"loading", "wait"},
		"READONLY You can't write against a read only replica.":                      {"replica", "master's address"},
		"MASTERDOWN Link with MASTER is down":                                        {"replica", "master's address"},
		"NOPERM this user has no permissions to run the 'set' command":               {"no-rights", "rights.md"},
		"ERR unknown command 'EVALSHA', with args beginning with: 'x'":               {"unknown-command", "rename-command"},
		"ERR Unknown Redis command called from script script: ab, on @user_script:1": {"unknown-command", "rename-command"},
		inScript + "Unknown Redis command called from Lua script":                    {"unknown-command", "rename-command"},
		"ERR what no server says":                                                    {"refuses", "log"},
		"WRONGPASS no":                                                               {"password", "URL"},
	} {
		for _, answered := range []bool{true, false} {
			is := CauseOf(node.Advise(fmt.Errorf("admission: %w", redis.Error(reply))), answered)
			require.Equal(t, c.code, is.Code, reply)
			require.Contains(t, is.Remedy, c.remedy, reply)
			require.NotContains(t, is.What+is.Remedy, "does not answer", reply)
			require.NotContains(t, is.Remedy, "start the server", reply)
		}
	}
	require.Equal(t, "unreachable", CauseOf(errors.New("connection refused"), true).Code)
}

// Since when a node refuses is known before the model has looked.
func TestMasterRefusesSinceTheClientNoticedIt(t *testing.T) {
	var m masters
	began, now := time.Unix(100, 0), time.Unix(200, 0)
	refusing := redlock.NodeStats{State: "refusing", Err: redis.Error("OOM"), Since: began}
	m.observe([]redlock.NodeStats{refusing}, nil, nil, now)
	require.Equal(t, began, m.all[0].Since)
	refusing.Since = began.Add(time.Microsecond) // as computed anew
	require.False(t, m.observe([]redlock.NodeStats{refusing}, nil, nil, now.Add(time.Second)))
	require.True(t, m.observe([]redlock.NodeStats{{State: "up"}}, nil, nil, now.Add(2*time.Second)))
	require.Equal(t, now.Add(2*time.Second), m.all[0].Since)
}

func TestHeadlineSaysWhetherLocksAreAvailable(t *testing.T) {
	refused := &redlock.QuorumError{Op: "ping", RetryAfter: 11500 * time.Millisecond}
	for _, h := range []struct {
		masters, voting int
		ping            error
		level           Level
		text            string
	}{
		{5, 5, nil, OK, "Locks are available: 5 of 5 masters vote, 2 more may fail."},
		{5, 4, nil, Warning, "Locks are available: 4 of 5 masters vote, 1 more may fail."},
		{5, 3, nil, Warning, "Locks are available: 3 of 5 masters vote, none of them may fail."},
		{1, 1, nil, OK, "Locks are available: 1 of 1 master votes, none of them may fail."},
		{5, 2, refused, Error, "Locks are not available: 2 of 5 masters vote, and 3 must. They vote again in 12s."},
		{5, 5, errors.New("slow"), Error, "Locks are not available: 5 of 5 masters vote, but fewer than 3 answered in time."},
	} {
		is := newHeadline(h.masters, h.voting, h.ping)
		require.Equal(t, h.text, is.Text)
		require.Equal(t, h.level, is.Level, h.text)
		require.Equal(t, h.level != Error, is.Available, h.text)
		require.Equal(t, fmt.Sprint(h.masters/2+1), fmt.Sprint(is.Quorum))
	}
}

// Looks each second at a holder that renews at each third of its ttl, from any instant on: it never seems to run down, and
// is known to renew within a third of the ttl.
func TestHolderThatRenewsNeverSeemsToRunDown(t *testing.T) {
	for _, ttl := range []time.Duration{time.Second, 3 * time.Second, 10 * time.Second, time.Minute} {
		every := ttl / 3
		for begin := time.Duration(0); begin < every; begin += every / 7 {
			ends := func(at time.Duration) time.Duration { return at/every*every + ttl }
			is := first(begin, ends(begin))
			for at := begin + time.Second; at < begin+5*ttl; at += time.Second {
				is = is.next(at, ends(at), lookSlack, false)
				require.NotEqual(t, RunsDown, is.direction, "ttl %v, after %v", ttl, at-begin)
				if at-begin > every+time.Second {
					require.Equal(t, Renews, is.direction, "ttl %v, after %v", ttl, at-begin)
				}
			}
		}
	}
}

// A holder that does not renew is found within half of the time that it has left; so is one that renews no more.
func TestHolderThatDoesNotRenewRunsDown(t *testing.T) {
	const second = time.Second
	is := first(0, 8*second)
	for at := second; at <= 7*second; at += second {
		is = is.next(at, 8*second, lookSlack, false)
		want := Unknown
		if at > 4*second {
			want = RunsDown
		}
		require.Equal(t, want, is.direction, "after %v", at)
	}
	is = is.next(8*second, 18*second, lookSlack, false)
	require.Equal(t, Renews, is.direction, "it was late")
	is = is.next(13*second, 18*second, lookSlack, false)
	require.Equal(t, Renews, is.direction)
	is = is.next(14*second, 18*second, lookSlack, false)
	require.Equal(t, RunsDown, is.direction)
}

func TestForeignKeyRunsDownFromTheSecondLookUntilSomethingProlongsIt(t *testing.T) {
	const second = time.Second
	is := first(0, time.Hour)
	require.Equal(t, Unknown, is.direction)
	is = is.next(second, time.Hour, lookSlack, true)
	require.Equal(t, RunsDown, is.direction)
	is = is.next(2*second, time.Hour+30*time.Millisecond, lookSlack, true)
	require.Equal(t, RunsDown, is.direction, "the answer came later")
	is = is.next(3*second, time.Hour+2*second, lookSlack, true)
	require.Equal(t, Renews, is.direction)
	is = is.next(4*second, system.Forever, lookSlack, true)
	require.Equal(t, Endless, is.direction)
	is = is.next(5*second, 9*second, lookSlack, true)
	require.Equal(t, Unknown, is.direction)
}
