package protocol_test

import (
	"strings"
	"testing"
	"time"

	"github.com/gomodule/redigo/redis"
	"github.com/stretchr/testify/require"

	"github.com/redlock-go/redlock/internal/protocol"
)

// The choice of the list of masters that follows another one.

func TestListsFollowEachOther(t *testing.T) {
	second := list.Next([]string{"a", "b", "d", "c"})
	require.Equal(t, protocol.List{ID: "LIST.1", Masters: "a b c d"}, second)
	third := second.Next([]string{"d", "b", "c"})
	require.Equal(t, protocol.List{ID: "LIST.2", Masters: "b c d"}, third)
	for later, before := range map[*protocol.List]*protocol.List{&second: &list, &third: &list} {
		require.True(t, later.Follows(before))
		require.False(t, before.Follows(later))
		require.False(t, later.Follows(later))
	}
	tenth := protocol.List{ID: "LIST.10"}
	require.True(t, tenth.Follows(&third), "by number")
	other := protocol.List{ID: "OTHER.3"}
	require.False(t, other.Follows(&list))
	require.False(t, list.Follows(new(protocol.List)))
	require.Equal(t, third, protocol.ReadProposal(third.Proposal()))
	require.Zero(t, protocol.ReadProposal(""))
	marked := second
	marked.Mark("XY2")
	require.True(t, marked.Follows(&list))
	require.False(t, marked.Follows(&second), "it is another one of the same number")
	require.True(t, third.Follows(&marked))
	require.True(t, marked.IsSuccessor())
	require.False(t, list.IsSuccessor())
	require.Equal(t, []int{2, 3, 2}, []int{list.Quorum(), second.Quorum(), third.Quorum()})
}

func TestChoicesAreMergedByTheLatestBallot(t *testing.T) {
	var c protocol.Choice
	c.Merge(protocol.Choice{Promised: "3"})
	c.Merge(protocol.Choice{Promised: "1", Accepted: "1", Proposal: "first"})
	c.Merge(protocol.Choice{Promised: "2", Accepted: "2", Proposal: "second"})
	c.Merge(protocol.Choice{Accepted: "1", Proposal: "first"})
	require.Equal(t, protocol.Choice{Promised: "3", Accepted: "2", Proposal: "second"}, c)
}

// A server promises and accepts for the list in which it stands, by the record that the client names.
func TestServerTakesPartInTheChoiceOfTheNextList(t *testing.T) {
	conn := dial(t)
	const (
		record   = "HSET redlock::record:run:NAME nodes 3 ttl 70"
		settling = "SET redlock::settling LIST PX 40"
		promised = stands + " promised 5"
		accepted = stands + " promised 5 accepted 4 proposal LIST.1,a,b"
	)
	next := list.Next([]string{"a", "b"})
	for name, c := range map[string]struct {
		state  []string
		ballot string
		next   protocol.List
		want   protocol.ProposeReply
		after  string // of promised, accepted and proposal; "": as before
	}{
		"promises":                      {[]string{stands, record}, "5", protocol.List{}, protocol.ProposeReply{Taken: true}, "5  "},
		"promises again":                {[]string{promised, record}, "5", protocol.List{}, protocol.ProposeReply{Taken: true}, "5  "},
		"promises more":                 {[]string{promised, record}, "6", protocol.List{}, protocol.ProposeReply{Taken: true}, "6  "},
		"promises no less":              {[]string{promised, record}, "4", protocol.List{}, protocol.ProposeReply{Late: "5"}, ""},
		"promises nothing yet":          {[]string{stands, record, settling}, "5", protocol.List{}, protocol.ProposeReply{Settling: 40 * time.Millisecond}, ""},
		"promises, and tells":           {[]string{accepted, record}, "6", protocol.List{}, protocol.ProposeReply{Taken: true, Choice: protocol.Choice{Accepted: "4", Proposal: "LIST.1,a,b"}}, "6 4 LIST.1,a,b"},
		"has no record":                 {[]string{stands}, "5", protocol.List{}, protocol.ProposeReply{}, ""},
		"has another record":            {[]string{stands, "HSET redlock::record:run:OTHER nodes 3"}, "5", protocol.List{}, protocol.ProposeReply{}, ""},
		"stands in another list":        {[]string{elsewhere, record}, "5", protocol.List{}, protocol.ProposeReply{}, ""},
		"is no master":                  {[]string{former, record}, "5", protocol.List{}, protocol.ProposeReply{}, ""},
		"accepts":                       {[]string{promised, record}, "5", next, protocol.ProposeReply{Taken: true, Choice: protocol.Choice{Accepted: "5", Proposal: "LIST.1 a b"}}, "5 5 LIST.1 a b"},
		"accepts again":                 {[]string{promised, record, settling}, "5", next, protocol.ProposeReply{Taken: true, Choice: protocol.Choice{Accepted: "5", Proposal: "LIST.1 a b"}}, "5 5 LIST.1 a b"},
		"accepts what it was not asked": {[]string{stands, record}, "5", next, protocol.ProposeReply{Taken: true, Choice: protocol.Choice{Accepted: "5", Proposal: "LIST.1 a b"}}, "5 5 LIST.1 a b"},
		"accepts no less":               {[]string{promised, record}, "4", next, protocol.ProposeReply{Late: "5"}, ""},
		"accepts without a record":      {[]string{promised}, "5", next, protocol.ProposeReply{}, ""},
	} {
		call := protocol.ProposeCall{List: "LIST", Record: "redlock::record:run:NAME", Ballot: c.ballot, Next: c.next}.Eval()
		_, left := in(t, conn, protocol.Propose, call[1:], c.state...)
		if c.after == "" {
			require.Equal(t, contentsOf(t, conn, c.state), left, name)
		} else {
			fields, err := redis.Strings(conn.Do("HMGET", protocol.MembersKey, "promised", "accepted", "proposal"))
			require.NoError(t, err)
			require.Equal(t, c.after, strings.Join(fields, " "), name)
		}
		_, _ = in(t, conn, protocol.Ask, []any{2, "none", "none"}, c.state...)
		got, err := protocol.ReadPropose(conn.Do("EVAL", call...))
		require.NoError(t, err, name)
		require.Equal(t, c.want, got, name)
	}
}

// The server's clock is set back, or another program takes the key's end away.
func TestServerSettlesNoLongerThanTheLongestTTL(t *testing.T) {
	conn := dial(t)
	call := protocol.ProposeCall{List: "LIST", Record: "redlock::record:run:NAME", Ballot: "5"}.Eval()
	for _, end := range []string{"", " PX 4000"} {
		_, left := in(t, conn, protocol.Propose, call[1:], stands, "HSET redlock::record:run:NAME nodes 3 ttl 70", "SET redlock::settling LIST"+end)
		require.Contains(t, left, "redlock::settling string LIST 70")
		got, err := protocol.ReadPropose(conn.Do("EVAL", call...))
		require.NoError(t, err)
		require.Equal(t, 70*time.Millisecond, got.Settling)
	}
}

// A server that is admitted again takes part in the choice as if it had not forgotten: by what others remember, or itself.
func TestAdmissionRemembersTheChoiceOfTheNextList(t *testing.T) {
	conn := dial(t)
	others := protocol.Choice{Promised: "5", Accepted: "3", Proposal: "LIST.1 a b"}
	for name, c := range map[string]struct{ state, before, want string }{
		"others alone":            {"SET redlock::seal SEAL PX 70", "", "5 3 LIST.1 a b"},
		"others have later ones":  {stands + " promised 4 accepted 2 proposal x", "LIST", "5 3 LIST.1 a b"},
		"it has later ones":       {stands + " promised 6 accepted 4 proposal x", "LIST", "6 4 x"},
		"it remembers another's":  {elsewhere + " promised 6 accepted 4 proposal x", "OTHER", "5 3 LIST.1 a b"},
		"it has promised a later": {stands + " promised 6", "LIST", "6 3 LIST.1 a b"},
	} {
		call := protocol.AdmitCall{Run: run, Quarantine: "NAME", Nodes: 3, Longest: time.Second, List: list, Self: "a", Seal: "SEAL", Before: c.before, Choice: others}
		reply, _ := in(t, conn, protocol.Admit, call.Eval()[1:], quarantine, c.state)
		require.Equal(t, "1", reply, name)
		fields, err := redis.Strings(conn.Do("HMGET", protocol.MembersKey, "promised", "accepted", "proposal"))
		require.NoError(t, err)
		require.Equal(t, c.want, strings.Join(fields, " "), name)
	}
}

// The record gets another name with the list, and a server that leaves loses it.
func TestServerGetsTheNextList(t *testing.T) {
	conn := dial(t)
	const (
		record = "HSET redlock::record:run:NAME nodes 3 ttl 70 7 900"
		choice = stands + " promised 5 accepted 4 proposal x"
	)
	stays, leaves := list.Next([]string{"a", "b", "c", "d"}), list.Next([]string{"a", "c"})
	for name, c := range map[string]struct {
		state []string
		next  protocol.List
		left  []string // nil: as before
	}{
		"stays": {[]string{quarantine, choice, record}, stays, []string{
			"redlock::members hash accepted= former= id=LIST.1 masters=a b c d promised= proposal= self=b -1",
			"redlock::newest string redlock::record:run:NAME.1 -1", "redlock::quarantine:run hash guard=500 name=NAME.1 -1",
			"redlock::record:run:NAME.1 hash 7=900 nodes=4 ttl=70 -1", "redlock::settling string LIST.1 70"}},
		"leaves": {[]string{quarantine, choice, record}, leaves, []string{
			"redlock::members hash accepted= former=LIST.1 id= masters=a c promised= proposal= self=b -1",
			"redlock::quarantine:run hash guard=500 name=NAME -1"}},
		"has no record":          {[]string{quarantine, choice}, stays, nil},
		"stands in another list": {[]string{quarantine, elsewhere, record}, stays, nil},
		"has it":                 {[]string{quarantine, "HSET redlock::members id LIST.1 masters a,b,c,d self b", record}, stays, nil},
		"left before":            {[]string{quarantine, former, record}, stays, nil},
	} {
		call := protocol.InstallCall{Run: run, List: "LIST", Next: c.next}.Eval()
		reply, left := in(t, conn, protocol.Install, call[1:], c.state...)
		if c.left == nil {
			require.Equal(t, "0", reply, name)
			c.left = contentsOf(t, conn, c.state)
		} else {
			require.Equal(t, "1", reply, name)
		}
		require.Equal(t, c.left, left, name)
	}
	_, _ = in(t, conn, protocol.Ask, []any{2, "none", "none"}, quarantine, stands, record)
	for _, next := range []protocol.List{stays, stays.Next([]string{"a", "b", "d"})} {
		before := list.ID
		if next.ID != stays.ID {
			before = stays.ID
		}
		installed, err := protocol.ReadInstall(conn.Do("EVAL", protocol.InstallCall{Run: run, List: before, Next: next}.Eval()...))
		require.NoError(t, err)
		require.True(t, installed)
	}
	name, err := conn.Do("HGET", run.Quarantine(), "name")
	require.NoError(t, err)
	require.Equal(t, "NAME.2", string(name.([]byte)), "the number of the list alone is behind it")
}
