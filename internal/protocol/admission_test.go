package protocol

import (
	"errors"
	"regexp"
	"slices"
	"testing"
	"time"

	"github.com/gomodule/redigo/redis"
	"github.com/stretchr/testify/require"

	"github.com/redlock-go/redlock/internal/test/testreply"
)

const run = Run("abc")

func TestAdmissionNamesItsKeys(t *testing.T) {
	require.Equal(t, "redlock::quarantine:abc", run.Quarantine())
	require.Equal(t, "redlock::guard:abc", run.Guard())
	require.Equal(t, "redlock::record:abc:NAME", run.Record("NAME"))
	require.Equal(t, run, RunOf(run.Record("NAME")))
	require.Equal(t, run, RunOf("redlock::record:abc"), "of a version without names")
}

func TestProbeHasTheOrphanIfThereIsOne(t *testing.T) {
	call := ProbeCall{Run: run, Nodes: 5, Longest: 10 * time.Second, Guard: 20 * time.Second, Default: 30 * time.Second, Name: "NAME"}
	keys := []any{"redlock::quarantine:abc", "redlock::guard:abc", "redlock::format", "redlock::members"}
	args := []any{"redlock::record:abc:", 5, int64(10_000), int64(20_000), "NAME", int64(30_000)}
	require.Equal(t, append(append([]any{Probe.Text(), 4}, keys...), args...), call.Call().Eval())
	call.Orphan = "redlock::record:abc:OLD"
	require.Equal(t, append(append(append([]any{Probe.Text(), 5}, keys...), "redlock::record:abc:OLD"), args...), call.Call().Eval())
}

// A node that lacks a command which a mutex needs must not seem to be well, and a missing right must not leave a key.
func TestLookCallsEachCommandOfAMutex(t *testing.T) {
	called := func(s *Script) (commands []string) {
		for _, call := range regexp.MustCompile(`redis\.call\('(\w+)'`).FindAllStringSubmatch(s.Text().(string), -1) {
			commands = append(commands, call[1])
		}
		return commands
	}
	looked := called(Look)
	forReaders := []string{"PEXPIREAT", "ZREMRANGEBYSCORE", "TIME", "ZSCORE"}
	for _, s := range []*Script{Acquire, Raise, Renew, Release} {
		for _, command := range called(s) {
			if !slices.Contains(forReaders, command) {
				require.Contains(t, looked, command, s.Name)
			}
		}
	}
	for _, plain := range []string{"ZCARD", "SET", "HINCRBY", "GET", "PTTL"} { // an attempt without a script
		require.Contains(t, looked, plain)
	}
	deleted := slices.Index(looked, "DEL")
	require.Positive(t, deleted)
	for i, command := range looked {
		if command == "HSET" || command == "HINCRBY" {
			require.Greater(t, i, deleted, "DEL was not refused")
			require.Equal(t, "DEL", looked[i+1])
		}
	}
	require.Equal(t, []any{Look.SHA(), 1, "redlock::look"}, LookCall().EvalSHA())
}

func TestAnswersToAProbe(t *testing.T) {
	list := List{ID: "LIST", Masters: "a b c"}
	const now, ms = int64(9), time.Millisecond
	for name, c := range map[string]struct {
		reply []any
		want  ProbeReply
	}{
		"whole": {[]any{"whole", now, "LIST", "a b c", "b", "key", "5", int64(10_000)},
			ProbeReply{Whole: &Whole{"key", 5, 10 * time.Second}, Time: 9 * ms, List: list, Self: "b"}},
		"whole, in no list": {[]any{"whole", now, "", "", "", "key", "5", int64(10_000)},
			ProbeReply{Whole: &Whole{"key", 5, 10 * time.Second}, Time: 9 * ms}},
		"barred": {[]any{"barred", now, "", "", "", "NAME", int64(7), int64(20_000), "FIRST"},
			ProbeReply{Barred: &Barred{"NAME", 7 * ms, 20 * time.Second, "FIRST"}, Time: 9 * ms}},
		"over": {[]any{"barred", now, "LIST", "a b c", "b", "NAME", int64(0), int64(20_000), "NAME"},
			ProbeReply{Barred: &Barred{"NAME", 0, 20 * time.Second, "NAME"}, Time: 9 * ms, List: list, Self: "b"}},
		"format": {[]any{"format", "3"}, ProbeReply{Format: true}},
	} {
		got, err := ReadProbe(sent(c.reply...), nil)
		require.NoError(t, err, name)
		require.Equal(t, c.want, got, name)
	}
	for _, reply := range []any{nil, []any{}, "whole", int64(1), sent("whole"), sent("whole", now, "LIST"), sent("whole", "now", "", "", "", "key", "5", now),
		sent("whole", now, "", "", "", "key", "five", now), sent("barred", now, "", "", "", "NAME", "x", now, "")} {
		_, err := ReadProbe(reply, nil)
		require.Error(t, err, "%v", reply)
	}
	refused := redis.Error("NOPERM no")
	_, err := ReadProbe(nil, refused)
	require.ErrorIs(t, err, refused)
}

func TestAdmitKeepsTheRecordBeforeWhereItsRunIsUnknown(t *testing.T) {
	call := AdmitCall{Run: run, Quarantine: "NAME", Nodes: 3, Longest: time.Second, Together: "A B",
		List: List{ID: "LIST", Masters: "a b c"}, Self: "b", Seal: "SEAL", Before: "BEFORE", Choice: Choice{"P", "A", "C"}}
	call.Counts[0], call.Counts[Stripes-1] = 5, 6
	args := call.Eval()
	record := "redlock::record:abc:NAME"
	require.Equal(t, []any{Admit.Text(), 10, record, "redlock::guard:abc", "redlock::quarantine:abc", NewestKey, record, "redlock::quarantine:abc", FormatKey,
		MembersKey, SealKey, SettlingKey, "NAME", 3, int64(1000), "A B", "LIST", "a b c", "b", "SEAL", "BEFORE", "P", "A", "C", int64(5)}, args[:25])
	require.Len(t, args, 24+Stripes)
	require.Equal(t, int64(6), args[len(args)-1])
	call.Older, call.OlderRun = "redlock::record:old:X", "old"
	require.Equal(t, []any{"redlock::record:old:X", "redlock::quarantine:old"}, call.Eval()[6:8])
}

func TestAnswersAboutARecord(t *testing.T) {
	s, err := ReadStanding(sent("name", "B", "first", "A", "left", "70", "guard", "500"), nil)
	require.NoError(t, err)
	require.Equal(t, Standing{Memory: s.Memory, Looked: true, Quarantine: "B", First: "A", Left: 70 * time.Millisecond,
		Guard: 500 * time.Millisecond}, s)
	require.Empty(t, s.Nodes)
	s, err = ReadStanding(sent(), nil)
	require.NoError(t, err)
	require.False(t, s.Looked, "nobody has looked at it")
	s, err = ReadStanding(sent("id", "LIST", "masters", "a b c", "self", "b"), nil)
	require.NoError(t, err)
	require.False(t, s.Looked)
	list := List{ID: "LIST", Masters: "a b c"}
	require.Equal(t, list, s.List, "in which it stood last")
	s, err = ReadStanding(sent("self", "b", "id", "LIST", "masters", "a b c", "nodes", "5", "ttl", "1500", "together", "A B", "seal", "SEAL", "0", "5", "2", "?"), nil)
	require.NoError(t, err)
	require.True(t, s.IsOf(5))
	require.False(t, s.IsOf(3))
	require.Equal(t, list, s.List)
	require.Equal(t, []string{"A B", "SEAL", "b"}, []string{s.Together, s.Seal, s.Self})
	require.Equal(t, 1500*time.Millisecond, s.Longest)
	require.Equal(t, []int64{5, -1, -1}, s.Counts[:3])
	m, err := ReadMemory(sent("ttl", "?"), nil)
	require.NoError(t, err)
	require.Zero(t, m.Longest)
	_, err = ReadStanding(nil, errors.New("no answer"))
	require.EqualError(t, err, "no answer")
}

func TestCountsAreExplainedWithinTheirBounds(t *testing.T) {
	whole := Memory{Nodes: "3"}
	for i := range whole.Counts {
		whole.Counts[i] = FirstCount + int64(i)
	}
	greatest := int64(FirstCount + Stripes - 1)
	require.True(t, whole.IsExplained(greatest))
	require.False(t, whole.IsExplained(greatest-1))
	low, lacking := whole, whole
	low.Counts[7], lacking.Counts[7] = FirstCount-1, -1
	require.False(t, low.IsExplained(greatest))
	require.False(t, lacking.IsExplained(greatest))
	require.True(t, (&Memory{}).IsExplained(0), "there is no record")
}

// Whatever a server answers, it is read without a panic.
func FuzzAnswersOfAdmission(f *testing.F) {
	testreply.Fuzz(f, func(t *testing.T, replies []any) {
		for _, reply := range replies {
			probe, err := ReadProbe(reply, nil)
			if err == nil {
				require.True(t, probe.Format || probe.Whole != nil || probe.Barred != nil)
			}
			s, err := ReadStanding(reply, nil)
			if err == nil && s.Nodes == "" {
				require.True(t, s.IsExplained(0))
			}
			_, _ = ReadAdmit(reply, nil)
		}
	}, []any{sent("whole", int64(9), "LIST", "a b", "a", "key", "5", int64(10_000)), sent("barred", int64(9), "", "", "", "NAME", int64(7), int64(20_000), "FIRST")},
		[]any{sent("id", "LIST", "name", "B", "first", "A", "left", "70"), int64(1)}, []any{sent("nodes", "5", "ttl", "1500", "0", "7")})
}
