package protocol_test

import (
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/gomodule/redigo/redis"
	"github.com/stretchr/testify/require"

	"github.com/redlock-go/redlock/internal/protocol"
)

var list = protocol.NewList("LIST", []string{"c", "a", "b"})

func TestListOfMasters(t *testing.T) {
	require.Equal(t, protocol.List{ID: "LIST", Masters: "a b c"}, list)
	require.Equal(t, 3, list.Len())
	require.True(t, list.Has("b"))
	require.False(t, list.Has("a b"))
	require.Zero(t, new(protocol.List).Len())
}

// in runs a script in a state that commands make. It returns the reply, and all keys.
func in(t *testing.T, conn redis.Conn, script *protocol.Script, args []any, commands ...string) (string, []string) {
	t.Helper()
	s := &state{}
	for _, c := range commands {
		var command []any
		for _, word := range strings.Fields(c) {
			command = append(command, word)
		}
		s.do(command...)
	}
	reply, left := s.run(t, conn, script.Text().(string), args)
	return strings.TrimPrefix(strings.TrimPrefix(reply, "int64 "), "[]interface {} "), left
}

// contentsOf returns all keys of a state.
func contentsOf(t *testing.T, conn redis.Conn, commands []string) []string {
	t.Helper()
	_, left := in(t, conn, protocol.Ask, []any{2, "none", "none"}, commands...) // it asks nobody
	return left
}

const (
	run        = protocol.Run("run")
	quarantine = "HSET redlock::quarantine:run name NAME guard 500"
	guarded    = "SET redlock::guard:run NAME PX 20"
	stands     = "HSET redlock::members id LIST masters a,b,c self b"
	elsewhere  = "HSET redlock::members id OTHER masters a,b,d self b"
	former     = "HSET redlock::members former OTHER masters a,d self b"
)

func TestSealOfAServer(t *testing.T) {
	conn := dial(t)
	call := protocol.SealCall{Run: run, Client: "CLIENT", Seal: "SEAL", Quarantine: "NAME"}.Eval()
	require.Equal(t, []any{protocol.Seal.Text(), 4, protocol.MembersKey, protocol.SealKey, "redlock::quarantine:run",
		"redlock::guard:run", "CLIENT", "SEAL", "NAME", int64(10_000)}, call)
	const (
		sealed  = "redlock::seal string CLIENTSEAL 10000"
		others  = "SET redlock::seal ANOTHERSEAL PX 70"
		tooLong = "SET redlock::seal ANOTHERSEAL PX 10001"
	)
	for name, c := range map[string]struct {
		state []string
		reply string
		seal  string // its key, then; "": as before
	}{
		"sealed":                  {[]string{quarantine}, "1", sealed},
		"its own seal":            {[]string{quarantine, "SET redlock::seal CLIENTBEFORE PX 70"}, "1", sealed},
		"has stood in a list":     {[]string{quarantine, elsewhere}, "0", ""},
		"another quarantine":      {[]string{strings.Replace(quarantine, "NAME", "ANOTHER", 1)}, "0", ""},
		"no quarantine":           {nil, "0", ""},
		"quarantine not over":     {[]string{quarantine, guarded}, "0", ""},
		"another's seal":          {[]string{quarantine, others}, "0", ""},
		"the clock was set back":  {[]string{quarantine, tooLong}, "0", "redlock::seal string ANOTHERSEAL 10000"},
		"set back, and has stood": {[]string{quarantine, stands, tooLong}, "0", ""},
	} {
		reply, left := in(t, conn, protocol.Seal, call[1:], c.state...)
		require.Equal(t, c.reply, reply, name)
		before := contentsOf(t, conn, c.state)
		if c.seal != "" {
			before = slices.DeleteFunc(before, func(key string) bool { return strings.HasPrefix(key, protocol.SealKey) })
			before = slices.Sorted(slices.Values(append(before, c.seal)))
		}
		require.Equal(t, before, left, name)
	}
}

// A server that has stood in a list is admitted to that one alone. One that has stood in none needs the seal.
func TestAdmissionToAList(t *testing.T) {
	conn := dial(t)
	const (
		seal    = "SET redlock::seal SEAL PX 70"
		another = "SET redlock::seal ANOTHER PX 70"
		renamed = "HSET redlock::quarantine:run name ANOTHER"
	)
	for name, c := range map[string]struct {
		state  []string
		seal   string
		before string // the list that the client has found there
		reply  string
	}{
		"sealed":                             {[]string{quarantine, seal}, "SEAL", "", "1"},
		"no seal":                            {[]string{quarantine}, "SEAL", "", "0"},
		"no seal, and the client has none":   {[]string{quarantine}, "", "", "0"},
		"another seal":                       {[]string{quarantine, another}, "SEAL", "", "0"},
		"stood in this list":                 {[]string{quarantine, stands}, "", "LIST", "1"},
		"stood in this list, another seal":   {[]string{quarantine, stands, another}, "SEAL", "LIST", "1"},
		"stood in this list, found empty":    {[]string{quarantine, stands, seal}, "SEAL", "", "0"},
		"stood in another list":              {[]string{quarantine, elsewhere}, "", "OTHER", "1"},
		"stood in another list than found":   {[]string{quarantine, elsewhere}, "", "LIST", "0"},
		"stood in another list, sealed":      {[]string{quarantine, elsewhere, seal}, "SEAL", "", "0"},
		"was a master before":                {[]string{quarantine, former}, "", "OTHER", "1"},
		"was a master before, found empty":   {[]string{quarantine, former, seal}, "SEAL", "", "0"},
		"stands in none, found in some list": {[]string{quarantine, seal}, "SEAL", "LIST", "0"},
		"quarantine not over":                {[]string{quarantine, guarded, seal}, "SEAL", "", "0"},
		"another quarantine":                 {[]string{quarantine, renamed, seal}, "SEAL", "", "0"},
		"used":                               {[]string{quarantine + " used 1", seal}, "SEAL", "", "0"},
	} {
		call := protocol.AdmitCall{Run: run, Quarantine: "NAME", Nodes: 3, Longest: time.Second, Together: "A B",
			List: list, Self: "a", Seal: c.seal, Before: c.before}
		reply, left := in(t, conn, protocol.Admit, call.Eval()[1:], c.state...)
		require.Equal(t, c.reply, reply, name)
		if c.reply == "0" {
			require.Equal(t, contentsOf(t, conn, c.state), left, name)
			continue
		}
		m, err := protocol.ReadMemory(conn.Do("HGETALL", run.Record("NAME")))
		require.NoError(t, err)
		require.Equal(t, protocol.Memory{Nodes: "3", Longest: time.Second, Together: "A B", Seal: c.seal}, m, name)
		require.Contains(t, left, "redlock::members hash accepted= former= id=LIST masters=a b c promised= proposal= self=a -1", name)
		require.Contains(t, left, "redlock::format string 2 -1", name)
		require.Contains(t, left, "redlock::quarantine:run hash guard=500 name=NAME used=1 -1", name)
		require.Contains(t, left, "redlock::settling string LIST 1000", name)
		require.Len(t, left, 6, "the record and the newest one, and no seal: %s", name)
	}
	call := protocol.AdmitCall{Run: run, Quarantine: "NAME", List: list, Seal: "SEAL"}
	const record = "HSET redlock::record:run:NAME nodes 5"
	reply, left := in(t, conn, protocol.Admit, call.Eval()[1:], quarantine, elsewhere, record)
	require.Equal(t, "1", reply, "another client was first")
	require.Len(t, left, 3)
	_, _ = in(t, conn, protocol.Admit, call.Eval()[1:], quarantine, seal)
	m, err := protocol.ReadMemory(conn.Do("HGETALL", run.Record("NAME")))
	require.NoError(t, err)
	require.Empty(t, m.Seal, "its counters come from other servers")
}

// A probe and a look at the record show the list, with a record and without.
func TestAnswersShowTheList(t *testing.T) {
	conn := dial(t)
	probe := protocol.ProbeCall{Run: run, Nodes: 3, Default: time.Second, Name: "NEW"}.Call().Eval()[1:]
	record := protocol.RecordCall{Run: run}.Eval()[1:]
	const (
		whole  = "HSET redlock::record:run:NAME nodes 3 ttl 70"
		now    = "1764000000000"
		key    = "redlock::record:run:NAME"
		inList = "[id LIST masters a,b,c self b"
	)
	for name, c := range map[string]struct {
		state         []string
		probe, record string
	}{
		"new": {nil, "[barred " + now + "    NEW 1000 1000 NEW]", "[]"},
		"in quarantine": {[]string{quarantine, guarded}, "[barred " + now + "    NAME 20 500 NAME]",
			"[name NAME first NAME left 20 guard 500]"},
		"in no list": {[]string{quarantine, whole}, "[whole " + now + "    " + key + " 3 70]", "[nodes 3 ttl 70]"},
		"in a list": {[]string{quarantine, whole, stands}, "[whole " + now + " LIST a,b,c b " + key + " 3 70]",
			inList + " nodes 3 ttl 70]"},
		"stood in a list": {[]string{quarantine, stands}, "[barred " + now + " LIST a,b,c b NAME 0 500 NAME]",
			inList + " name NAME first NAME left 0 guard 500]"},
		"lost its record": {[]string{quarantine + " used 1", stands}, "[barred " + now + " LIST a,b,c b NEW 500 500 NEW]",
			inList + "]"},
		"restarted": {[]string{stands}, "[barred " + now + " LIST a,b,c b NEW 1000 1000 NEW]", inList + "]"},
		"format of now": {[]string{quarantine, whole, "SET redlock::format 2"}, "[whole " + now + "    " + key + " 3 70]",
			"[nodes 3 ttl 70]"},
		"the one before": {[]string{quarantine, whole, "SET redlock::format 1"}, "[format 1]", "[nodes 3 ttl 70]"},
	} {
		reply, _ := in(t, conn, protocol.Probe, probe, c.state...)
		require.Equal(t, c.probe, reply, name)
		reply, _ = in(t, conn, protocol.Record, record, c.state...)
		require.Equal(t, c.record, reply, name)
	}
}

const (
	ours         = "SET p:x me PX 300"
	theirs       = "SET p:x them PX 300"
	reserved     = "SET p:x redlock::reserved:" + later + " PX 300"
	asked        = "SET redlock::asked:p:x me PX 300"
	askedReaders = "SET redlock::asked:p:x redlock::shared PX 300"
	counts       = "HSET record nodes 3"
	oursToo      = "SET p:y me PX 300"
	waits        = "ZADD redlock::queue:p:x 0 " + later
	reads        = "SET p:x redlock::shared PX 9000"
)

var (
	share  = fmt.Sprintf("ZADD redlock::readers:p:x %d me", clock+9000)
	shares = fmt.Sprintf("ZADD redlock::readers:p:x %d me %d them", clock+300, clock+9000)
	over   = fmt.Sprintf("ZADD redlock::readers:p:x %d me %d them", clock-1, clock+9000)
)

// Where the server stands in another list, or in none, a renewal prolongs what is the lease's, and proves nothing. It
// gives nothing anew.
func TestRenewalWhereTheServerStandsInAnotherList(t *testing.T) {
	conn := dial(t)
	one, _ := protocol.NewKeys("p:", "x", false)
	told, _ := protocol.NewKeys("p:", "x", true)
	set, _ := protocol.NewSetKeys("p:", []string{"x", "y"}, false)
	setTold, _ := protocol.NewSetKeys("p:", []string{"x", "y"}, true)
	reader, _ := protocol.NewShareKeys("p:", "x", false)
	readerTold, _ := protocol.NewShareKeys("p:", "x", true)
	type want [3]string // in the lease's list; in another, or in none; and of a client that has admission off
	here, anew, none := want{"1", "6", "1"}, want{"2", "5", "2"}, want{"0", "0", "2"}
	refused := want{"[them 300]", "[them 300]", "[them 300]"}
	wanted, wantedAnew := want{"11", "6", "11"}, want{"12", "5", "12"}
	type states = []string
	toldToGo := states{reads, share, askedReaders}
	for name, c := range map[string]struct {
		script *protocol.Script
		lock   protocol.LockKind
		ttl    int64
		state  states
		want   want
		keeps  bool // in another list it leaves what it leaves in the lease's; else it changes nothing
	}{
		"renew":                   {protocol.Renew, &one, 5000, states{ours}, here, true},
		"renew, missing":          {protocol.Renew, &one, 5000, states{counts}, anew, false},
		"renew, reserved":         {protocol.Renew, &one, 5000, states{counts, reserved}, anew, false},
		"renew, no record":        {protocol.Renew, &one, 5000, nil, none, false},
		"renew, another's":        {protocol.Renew, &one, 5000, states{counts, theirs}, refused, false},
		"renew, told":             {protocol.Renew, &told, 5000, states{ours}, here, true},
		"renew, told, missing":    {protocol.Renew, &told, 5000, states{counts}, anew, false},
		"renew, told, no record":  {protocol.Renew, &told, 5000, nil, none, false},
		"renewall":                {protocol.RenewAll, &set, 5000, states{ours, oursToo}, here, true},
		"renewall, missing":       {protocol.RenewAll, &set, 5000, states{counts, ours}, anew, false},
		"renewall, reserved":      {protocol.RenewAll, &set, 5000, states{counts, oursToo, reserved}, anew, false},
		"renewall, no record":     {protocol.RenewAll, &set, 5000, states{ours}, none, false},
		"renewall, another's":     {protocol.RenewAll, &set, 5000, states{counts, oursToo, theirs}, refused, false},
		"renewall, told":          {protocol.RenewAll, &setTold, 5000, states{ours, oursToo}, here, true},
		"renewall, told, missing": {protocol.RenewAll, &setTold, 5000, states{counts, ours}, anew, false},
		"keep, the only share":    {protocol.Keep, &reader, 5000, states{reads, share}, here, true},
		"keep, of several":        {protocol.Keep, &reader, 5000, states{reads, shares}, here, true},
		"keep, others wait":       {protocol.Keep, &reader, 5000, states{reads, shares, waits}, here, true},
		"keep, a writer's":        {protocol.Keep, &reader, 5000, states{ours}, here, true},
		"keep, missing":           {protocol.Keep, &reader, 5000, states{counts}, anew, false},
		"keep, over":              {protocol.Keep, &reader, 5000, states{counts, reads, over}, anew, false},
		"keep, reserved":          {protocol.Keep, &reader, 5000, states{counts, reserved}, anew, false},
		"keep, no record":         {protocol.Keep, &reader, 5000, nil, none, false},
		"keep, another's":         {protocol.Keep, &reader, 5000, states{counts, theirs}, refused, false},
		"keep 0, a share":         {protocol.Keep, &reader, 0, states{reads, shares}, here, true},
		"keep 0, a writer's":      {protocol.Keep, &reader, 0, states{ours}, here, true},
		"keep 0, missing":         {protocol.Keep, &reader, 0, states{counts}, want{"0", "0", "0"}, false},
		"keep 0, another's":       {protocol.Keep, &reader, 0, states{counts, theirs}, refused, false},
		"keep, told":              {protocol.Keep, &readerTold, 5000, states{reads, share}, here, true},
		"keep, asked":             {protocol.Keep, &readerTold, 5000, toldToGo, wanted, true},
		"keep, asked, missing":    {protocol.Keep, &readerTold, 5000, states{counts, askedReaders}, wantedAnew, false},
	} {
		args := func(list string) []any {
			call := protocol.RenewalCall{Owner: "me", Ticket: "", TTL: c.ttl, List: list}
			return c.lock.Renew(&protocol.Settings{}, call, "record")[1:]
		}
		renew := func(list, member string) (string, []string) {
			state := c.state
			if member != "" {
				state = append(slices.Clone(state), "HSET redlock::members id "+member)
			}
			reply, left := in(t, conn, c.script, args(list), state...)
			return reply, slices.DeleteFunc(left, func(key string) bool { return strings.HasPrefix(key, protocol.MembersKey) })
		}
		reply, left := renew("LIST", "LIST")
		require.Equal(t, c.want[0], reply, name)
		if !c.keeps {
			left = contentsOf(t, conn, c.state)
		}
		for _, member := range []string{"OTHER", ""} {
			reply, has := renew("LIST", member)
			require.Equal(t, c.want[1], reply, "%s, in %q", name, member)
			require.Equal(t, left, has, "%s, in %q", name, member)
		}
		reply, _ = renew("", "OTHER")
		require.Equal(t, c.want[2], reply, "%s, admission is off", name)
	}
	for _, c := range []struct {
		script *protocol.Script
		lock   protocol.LockKind
	}{{protocol.Renew, &told}, {protocol.RenewAll, &setTold}} {
		for list, want := range map[string]string{"LIST": "11", "OTHER": "6", "": "11"} {
			call := protocol.RenewalCall{Owner: "me", Ticket: "", TTL: 5000, List: list}
			args := c.lock.Renew(&protocol.Settings{}, call, "record")
			reply, left := in(t, conn, c.script, args[1:], ours, oursToo, asked, "HSET redlock::members id LIST")
			require.Equal(t, want, reply)
			require.Equal(t, want == "6", slices.Contains(left, "redlock::asked:p:x string me 300"), "it is told later")
		}
	}
}
