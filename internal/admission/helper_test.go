package admission

import (
	"io"
	"log/slog"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/redlock-go/redlock/internal/node"
	"github.com/redlock-go/redlock/internal/notify"
	"github.com/redlock-go/redlock/internal/system"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// newMember makes the member of a group of one, without a connection. Its clock stands.
func newMember(terms Terms) *Member {
	terms.Nodes, terms.Quorum = 1, 1
	events := notify.NewQueue(slog.New(slog.DiscardHandler), false)
	cfg := &node.Config{
		Wall:       time.Now,
		Clock:      func() time.Duration { return time.Hour },
		Random:     system.OSRandom{},
		Events:     events,
		Identities: node.NewIdentities(),
		Majority:   node.NewMajority(1, 1, system.Now, events),
		Closed:     io.EOF,
		DeadAfter:  time.Second,
	}
	return NewGroup(terms, cfg).Add(node.New(0, "node 0", nil, cfg))
}
