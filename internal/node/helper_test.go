package node

import (
	"context"
	"io"
	"log/slog"
	"strings"
	"testing"
	"time"

	"github.com/gomodule/redigo/redis"
	"go.uber.org/goleak"

	"github.com/redlock-go/redlock/internal/notify"
	"github.com/redlock-go/redlock/internal/pipe"
	"github.com/redlock-go/redlock/internal/system"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// refusal is an error reply of a server.
const refusal = redis.Error("NOPERM this user has no permissions to run this command")

// unconnected is a node without a connection, and its log.
type unconnected struct {
	*Node
	now time.Duration // on the node's clock

	events *notify.Queue
	lines  strings.Builder
}

func newUnconnected() *unconnected {
	u := &unconnected{}
	u.events = notify.NewQueue(slog.New(slog.NewTextHandler(&u.lines, nil)), false)
	u.Node = New(0, "node 0", nil, &Config{
		Clock:      func() time.Duration { return u.now },
		Random:     system.OSRandom{},
		Events:     u.events,
		Identities: NewIdentities(),
		Majority:   NewMajority(1, system.Now, u.events),
		Closed:     io.EOF,
		DeadAfter:  time.Second,
	})
	u.Use(noAdmitter{})
	return u
}

// log returns what the node has logged.
func (u *unconnected) log() string {
	ended, end := context.WithCancel(context.Background())
	end()
	u.events.Run(ended)
	return u.lines.String()
}

// noAdmitter admits no server.
type noAdmitter struct{}

func (noAdmitter) Connected(*pipe.Pipe, string)        {}
func (noAdmitter) Check(context.Context) time.Duration { return system.Forever }
func (noAdmitter) Recheck() <-chan struct{}            { return nil }
func (noAdmitter) Disconnected()                       {}
