package main

import (
	"crypto/rand"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/gomodule/redigo/redis"

	"github.com/redlock-go/redlock/internal/node"
	"github.com/redlock-go/redlock/internal/overview"
	"github.com/redlock-go/redlock/internal/protocol"
)

// purpose is what a right is needed for.
type purpose string

const (
	forMutexes purpose = "mutexes" // and for readers
	forReaders purpose = "readers" // beside the rights for mutexes
	forSets    purpose = "sets"    // of several names at once, beside the rights for mutexes
	forPermits purpose = "permits" // of semaphores, beside the rights for mutexes
	forWanted  purpose = "wanted"  // holders that are told that others want their locks, beside the rights for mutexes
	forWakeUps purpose = "wake-ups"
	forLists   purpose = "lists" // of locks
)

// trial is a command that shows whether the user has a right. It reads, or names
// keys that do not exist and does not create them, or has arguments that the server refuses after
// it has checked the right: so it changes nothing.
type trial struct {
	purpose purpose
	right   string // as ACL SETUSER takes it, as is the pattern
	pattern string // of the command's key or channel; "" if it has none
	command string
	args    []any
}

// trialsOf returns a trial for each right that clients need, except those of INFO and CLIENT,
// which doctor sees elsewhere. They are of a lock with this prefix that nobody uses.
func trialsOf(prefix string) []trial {
	name := "doctor:" + rand.Text()
	queue, readers, lock := protocol.KeysBeside(prefix, name)
	record := protocol.Key("record", name)
	reserved := "~" + protocol.Reserved + "*"
	all := []trial{
		{forMutexes, "+ping", "", "PING", nil},
		{forMutexes, "+eval", "", "EVAL", []any{"return 1", 0}},
		{forMutexes, "+evalsha", "", "EVALSHA", []any{strings.Repeat("0", 40), 0}},
		{forMutexes, "+script|load", "", "SCRIPT", []any{"LOAD", ")"}}, // it does not compile
		{forMutexes, "+set", "~" + prefix + "*", "SET", []any{lock, "", "XX", "PX", 1}},
		{forMutexes, "+get", "~" + prefix + "*", "GET", []any{lock}},
		{forMutexes, "+getrange", "~" + prefix + "*", "GETRANGE", []any{lock, 0, 0}},
		{forMutexes, "+pttl", "~" + prefix + "*", "PTTL", []any{lock}},
		{forMutexes, "+del", "~" + prefix + "*", "DEL", []any{lock}},
		{forMutexes, "+pexpire", "~" + prefix + "*", "PEXPIRE", []any{lock, 1}},
		{forMutexes, "+hget", reserved, "HGET", []any{record, "0"}},
		{forMutexes, "+hset", reserved, "HSET", []any{record, "0", "0", "a field without a value"}},
		{forMutexes, "+hincrby", reserved, "HINCRBY", []any{record, "0", "no number"}},
		{forMutexes, "+hexists", reserved, "HEXISTS", []any{record, "0"}},
		{forMutexes, "+hgetall", reserved, "HGETALL", []any{record}},
		{forMutexes, "+exists", reserved, "EXISTS", []any{queue}},
		{forMutexes, "+time", "", "TIME", nil},
		{forMutexes, "+persist", reserved, "PERSIST", []any{record}},
		{forMutexes, "+zadd", reserved, "ZADD", []any{queue, "XX", 0, "nobody"}},
		{forMutexes, "+zrem", reserved, "ZREM", []any{queue, "nobody"}},
		{forMutexes, "+zrange", reserved, "ZRANGE", []any{queue, 0, 0}},
		{forMutexes, "+zrank", reserved, "ZRANK", []any{queue, "nobody"}},
		{forMutexes, "+zcard", reserved, "ZCARD", []any{queue}},
		// The release of a mutex names this key, whether there are readers or not.
		{forMutexes, "+exists", "~" + protocol.Key("readers", "*"), "EXISTS", []any{readers}},
		{forReaders, "+zscore", reserved, "ZSCORE", []any{readers, "nobody"}},
		{forReaders, "+zremrangebyscore", reserved, "ZREMRANGEBYSCORE", []any{readers, "-inf", 0}},
		{forReaders, "+pexpireat", reserved, "PEXPIREAT", []any{readers, 1}},
		{forReaders, pxat, "~" + prefix + "*", "SET", []any{lock, "", "XX", "PXAT", 1}},
		{forSets, "+exists", "~" + protocol.Key("wants", "*"), "EXISTS", []any{protocol.Key("wants", name)}},
		{forPermits, "+exists", "~" + protocol.Key("slots", "*"), "EXISTS", []any{protocol.Key("slots", name)}},
		{forWanted, "+exists", "~" + protocol.AskedKey("*"), "EXISTS", []any{protocol.AskedKey(lock)}},
		{forWakeUps, "+publish", "&" + protocol.Key("wake", "*"), "PUBLISH", []any{protocol.Key("wake", name), ""}},
		{forWakeUps, "+pubsub|numsub", "", "PUBSUB", []any{"NUMSUB", protocol.Key("wake", name)}},
		{forLists, "+scan", "", "SCAN", []any{0, "COUNT", 1}},
	}
	for _, kind := range []string{"quarantine", "guard", "alive", "parked", "watched", "doubts"} {
		all = append(all, trial{forMutexes, "+exists", "~" + protocol.Key(kind, "*"), "EXISTS",
			[]any{protocol.Key(kind, name)}})
	}
	for _, key := range []string{protocol.NewestKey, protocol.FormatKey, protocol.MembersKey, protocol.SealKey,
		protocol.LookKey} {
		all = append(all, trial{forMutexes, "+exists", "~" + key, "EXISTS", []any{key}})
	}
	// The last one: a connection that has subscribed answers nothing else.
	return append(all, trial{forWakeUps, "+subscribe", "&" + protocol.Key("wake", "*"), "SUBSCRIBE",
		[]any{protocol.Key("wake", name)}})
}

// pxat is no right, but an option of SET that old servers lack.
const pxat = "SET … PXAT (Redis 6.2)"

// missing returns what the user or the server lacks, as the error shows it; "" if the trial went
// well, or failed for another reason.
func (t *trial) missing(err error) string {
	if err == nil {
		return ""
	}
	text := strings.ToLower(err.Error())
	switch {
	case t.right == pxat:
		if strings.HasPrefix(text, "err syntax error") {
			return pxat
		}
		return ""
	case !strings.HasPrefix(text, "noperm"):
		return ""
	case t.pattern == "" || strings.Contains(text, "permissions to run"):
		return t.right
	}
	return t.pattern
}

// isUnknown reports whether a server does not know a command: it was renamed, or never there. No right helps.
func isUnknown(err error) bool {
	var reply redis.Error
	return errors.As(err, &reply) && strings.HasPrefix(strings.ToLower(string(reply)), "err unknown command")
}

// anyKey is the pattern of a lock's key if locks have no prefix. The user needs the patterns of its own locks only, and
// doctor does not know their names.
const anyKey = "~*"

// try tries the rights, and records those that are missing. It sends all commands at once.
func (f *nodeFacts) try(a *asker, trials []trial) error {
	f.lacks, f.unknown = make(map[purpose][]string), make(map[purpose][]string)
	for i := range trials {
		if err := a.conn.Send(trials[i].command, trials[i].args...); err != nil {
			return err
		}
	}
	if err := a.conn.Flush(); err != nil {
		return err
	}
	for i := range trials {
		t := &trials[i]
		_, err := redis.ReceiveWithTimeout(a.conn, a.timeout)
		if broken(err) {
			return fmt.Errorf("%s: %w", t.command, err)
		}
		if refuses := node.IsRefusal(err) && !node.LacksCommand(err) || node.IsCode(err, "READONLY") &&
			f.Role == "master"; refuses && f.refusal == nil {
			f.refusal = err
		}
		if isUnknown(err) && !slices.Contains(f.unknown[t.purpose], t.command) {
			f.unknown[t.purpose] = append(f.unknown[t.purpose], t.command)
		}
		switch lack := t.missing(err); {
		case lack == anyKey:
			f.hasNarrowKeys = true
		case lack != "" && !slices.Contains(f.lacks[t.purpose], lack):
			f.lacks[t.purpose] = append(f.lacks[t.purpose], lack)
		}
	}
	return nil
}

// judgeUnknown reports commands that the server does not know.
func (x *examination) judgeUnknown(f *nodeFacts) {
	how, consequence := danger, "it refuses votes, renewals, waiters or releases, and counts as failed"
	all := slices.Clone(f.unknown[forMutexes])
	var without []string
	for _, p := range []struct {
		purpose purpose
		what    string
	}{
		{forReaders, "locks for readers"}, {forSets, "locks of several names"}, {forPermits, "permits"},
		{forWanted, "WithWanted"}, {forWakeUps, "wake-ups (waiters poll)"}, {forLists, "lists of locks"},
	} {
		if commands := f.unknown[p.purpose]; len(commands) > 0 {
			all, without = append(all, commands...), append(without, p.what)
		}
	}
	if len(all) == 0 {
		return
	}
	if len(f.unknown[forMutexes]) == 0 {
		how, consequence = warning, "these do not work there: "+strings.Join(without, ", ")+"; other locks do"
	}
	slices.Sort(all)
	x.add(how, "unknown-command", f.Node,
		"it does not know "+strings.Join(slices.Compact(all), ", ")+": renamed there, or disabled",
		consequence, restoreCommand)
}

// restoreCommand is the remedy for a command that a server does not know.
const restoreCommand = "take its rename-command out of redis.conf and restart it; or use a server that has the command"

// grant returns the remedy for a command that the server refused.
func grant(err error, remedy string) string {
	if isUnknown(err) {
		return restoreCommand
	}
	return remedy
}

// features need rights beside those for mutexes. Where the user lacks a right for mutexes too, doctor
// reports only that.
var features = []struct {
	purpose                 purpose
	code, what, consequence string // of the finding
	use                     string // what needs the rights
}{
	{forSets, "no-sets", "locks of several names do not work there; others do",
		"it refuses a lock of several names that has to wait; a lock for which such a one waits is handed off later",
		"Client.Multi or redlock run with several names"},
	{forPermits, "no-permits", "permits of semaphores do not work there; locks do",
		"it refuses permits, and Inspect does not show them", "Client.Semaphore or redlock run --permits"},
	{forWanted, "no-wanted", "leases with WithWanted cannot be renewed there; others can",
		"where a majority is like it, such leases are lost at the end of their ttl", "WithWanted or Client.Ask"},
}

// someNames returns what else helps where a user lacks the pattern of all locks: it may be for some names only.
func someNames(lacks []string) string {
	for _, lack := range lacks {
		if prefix, isKey := strings.CutPrefix(lack, "~"); isKey && !strings.HasPrefix(prefix, protocol.Reserved) {
			return "; if it is for some names only, try these: redlock doctor --prefix " +
				strings.TrimSuffix(prefix, "*") + "BEGINNING"
		}
	}
	return ""
}

// judgeRefusal reports that the node answers and does not do what a lock needs. The reason is not a missing right.
func (x *examination) judgeRefusal(f *nodeFacts) {
	if f.refusal == nil {
		return
	}
	c := overview.CauseOf(f.refusal, true)
	x.add(danger, c.Code, f.Node, c.What+": "+f.refusal.Error(), c.Consequence, c.Remedy)
}

// judgeRights reports rights that the user lacks.
func (x *examination) judgeRights(f *nodeFacts) {
	if f.killErr != nil {
		x.add(warning, "no-kill", f.Node, "it does not let a client close its own old connections: "+f.killErr.Error(),
			"an attempt that was on its way there when a connection broke may be executed after its undo, and keep a "+
				"lock's key for a ttl",
			grant(f.killErr, "grant the user +client|id and +client|kill (docs/reference/rights.md)"))
	}
	if f.hasNarrowKeys {
		x.add(note, "narrow-keys", f.Node,
			"the user may not use every key, and without a prefix doctor does not know which keys your locks have",
			"locks whose names its patterns do not match are refused there",
			"see that its patterns match the names, or try those that begin alike: redlock doctor --prefix BEGINNING")
	}
	if lacks := strings.Join(f.lacks[forMutexes], " "); lacks != "" {
		x.add(danger, "no-rights", f.Node, "locks do not work there: the user lacks "+lacks,
			"it refuses votes, renewals, waiters or releases, and counts as failed",
			"grant the user "+lacks+" (docs/reference/rights.md)"+someNames(f.lacks[forMutexes]))
	}
	if lacks := strings.Join(f.lacks[forReaders], " "); lacks != "" {
		what := "locks for readers do not work there; mutexes do: missing are "
		if len(f.lacks[forMutexes]) > 0 {
			what = "locks for readers lack there, beside the rights for all locks: "
		}
		remedy := "grant " + lacks + " to every user of a name that has readers (docs/reference/rights.md)"
		if slices.Contains(f.lacks[forReaders], pxat) {
			remedy = "use Redis 6.2 or later, and grant the rights for readers (docs/reference/rights.md)"
		}
		x.add(warning, "no-readers", f.Node, what+lacks,
			"it refuses shares, their renewals or releases, Lease.Downgrade, and the release of a mutex for "+
				"which a reader waits",
			remedy+"; nothing, where no client uses RWMutex or redlock run --read")
	}
	for _, feature := range features {
		if lacks := strings.Join(f.lacks[feature.purpose], " "); lacks != "" && len(f.lacks[forMutexes]) == 0 {
			x.add(warning, feature.code, f.Node, feature.what+": the user lacks "+lacks, feature.consequence,
				"grant "+lacks+" (docs/reference/rights.md); nothing, where no client uses "+feature.use)
		}
	}
	if lacks := strings.Join(f.lacks[forWakeUps], " "); lacks != "" {
		what, consequence := "it does not wake waiters", "waiters poll, every 0.25 s times their position: a lock is handed off later"
		if lacks == "+pubsub|numsub" {
			what = "it does not tell whether the process of a waiter is gone"
			consequence = "waiters of killed processes delay the next caller for seconds"
		}
		x.add(note, "no-wake-ups", f.Node, what+": the user lacks "+lacks, consequence,
			"grant the user "+lacks+" (docs/reference/rights.md)")
	}
	if lacks := strings.Join(f.lacks[forLists], " "); lacks != "" {
		x.add(note, "no-lists", f.Node, "it does not list its locks: the user lacks "+lacks,
			"redlock ls and Client.Locks do without the node, and fail if a majority is like it",
			"grant "+lacks+" to the users that list locks (docs/reference/rights.md); nothing, where nobody does")
	}
}
