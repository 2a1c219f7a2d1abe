package overview_test

import (
	"encoding/json"
	"flag"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/redlock-go/redlock"
	"github.com/redlock-go/redlock/internal/overview"
	"github.com/redlock-go/redlock/internal/protocol"
)

var update = flag.Bool("update", false, "write testdata anew")

// statuses are locks of all kinds. The nodes that answer agree about each of them.
func statuses() []redlock.Status {
	since, owner := time.Unix(1_790_000_000, 0), ours("web\n", 1)
	share := redlock.ShareStatus{Owner: owner, Since: protocol.SinceOf(owner), Remaining: 9 * time.Second, Nodes: 3}
	permits := []redlock.PermitStatus{{Owner: owner, Since: since, Remaining: 9 * time.Second, Nodes: 3, Token: 4},
		{Slot: 2, Owner: owner, Since: since, Remaining: 9 * time.Second, Nodes: 3, Token: 5}}
	queue := []redlock.WaiterStatus{{Ticket: "1" + protocol.ReaderSuffix, Label: "web-2", Since: since, Nodes: 3}, {Ticket: "2", Since: since, Nodes: 2}}
	exclusive, endless := withWaiters(left(held("a-\xff", owner), 12345*time.Microsecond), queue...), left(held("d-endless", "theirs"), -1)
	exclusive.Notifiable = true
	all := []redlock.Status{exclusive, {Name: "b-readers", Remaining: share.Remaining, Readers: []redlock.ShareStatus{share}},
		{Name: "c-permits", Permits: permits, Queue: []redlock.WaiterStatus{{Ticket: "3", Since: since, Nodes: 3, Permits: 2, Limit: 3}}},
		endless, {Name: "e-reserved", Reserved: "4", Token: 3}, {Name: "f-silent", Incomplete: true, Queue: queue}}
	for i := range all {
		s := &all[i]
		for k, node := range (&fake{}).Stats().Nodes {
			n := redlock.NodeStatus{Node: node.Node, Holder: s.Holder, Remaining: s.Remaining, Readers: s.Readers, Permits: s.Permits, Reserved: s.Reserved, Count: s.Token}
			if s.Incomplete && k > 0 {
				n.Err = redlock.ErrNoQuorum
			} else if s.Queue != nil {
				n.Queue = []string{s.Queue[0].Ticket}
			}
			s.Nodes = append(s.Nodes[:k:k], n)
		}
	}
	return all
}

// The fields in testdata are stable. The page and the tool show the same, except for what the nodes have.
func TestToolAndPageShareOneStableSchema(t *testing.T) {
	f, all := &fake{}, statuses()
	withFake(t, f, func(t *testing.T, m *overview.Model) {
		f.set(append(all, held("y", ours("set", 5)), held("z", ours("set", 5)))...)
		f.since = time.Time{}
		s, err := m.Snapshot(t.Context(), overview.View{All: true, Order: overview.ByName})
		require.NoError(t, err)
		now := s.Rows[0].Looked
		golden := []any{overview.NewLockJSON(s.Rows[len(all)], s.Masters, now.Add(time.Minute)),
			overview.Change{Time: now, Kind: overview.Granted, Name: "a", Holder: "b", Before: "c", Token: 1, Held: 1.5, Waiter: "d", Permits: 1, Limit: 2,
				Shared: true, Waited: 2.5, Node: "node 0", State: "down", Cause: "e"}}
		for i := range all {
			l := overview.LocksOf(&all[i], f.Stats().Nodes, now)[0]
			golden, l.Nodes = append(golden, l), slices.Clone(l.Nodes)
			for k, n := range l.Nodes {
				l.Nodes[k] = overview.NodeJSON{Node: n.Node, Vote: n.Vote}
			}
			require.Equal(t, lines(t, l), lines(t, overview.NewLockJSON(s.Rows[i], s.Masters, now)))
		}
		const file = "testdata/schema.jsonl"
		if *update {
			require.NoError(t, os.WriteFile(file, []byte(lines(t, golden...)), 0o644))
		}
		want, err := os.ReadFile(file)
		require.NoError(t, err)
		require.Equal(t, string(want), lines(t, golden...))
	})
}

// lines writes each value as JSON on a line.
func lines(t *testing.T, all ...any) string {
	var b strings.Builder
	for _, v := range all {
		require.NoError(t, json.NewEncoder(&b).Encode(v))
	}
	return b.String()
}
