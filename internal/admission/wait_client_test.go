package admission_test

import (
	"log/slog"
	"regexp"
	"testing"
	"testing/synctest"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/redlock-go/redlock"
	"github.com/redlock-go/redlock/internal/admission"
	"github.com/redlock-go/redlock/internal/test/testnet"
)

// announced is when a node votes, or enough of them, as a line of the log says.
type announced struct{ logged, until time.Time }

var waitLine = regexp.MustCompile(`(?m)^time=(\S+) level=(\w+) .*?(?:node="([^"]*)" )?wait=(\S+)$`)

// announcements returns what the log's last lines with a wait say: of each node, and of locks under "ERROR".
func announcements(t *testing.T, log string) map[string]announced {
	last := make(map[string]announced)
	for _, line := range waitLine.FindAllStringSubmatch(log, -1) {
		at, err := time.Parse(time.RFC3339Nano, line[1])
		require.NoError(t, err)
		wait, err := time.ParseDuration(line[4])
		require.NoError(t, err)
		of := line[3]
		if of == "" {
			of = line[2]
		}
		last[of] = announced{at, at.Add(wait)}
	}
	return last
}

// A majority restarts empty: within a second the log says when each node votes again, and when locks are granted.
func TestLogAfterAMajorityForgotSaysWhenTheNodesVoteAgain(t *testing.T) {
	for name, nodes := range map[string]int{"of three": 3, "of five": 5} {
		for how, down := range map[string]time.Duration{"at once": 0, "after a while": 5 * time.Second} {
			t.Run(name+", "+how, func(t *testing.T) {
				testnet.InBubble(t, nodes, func(t *testing.T, net *testnet.Net) {
					net.Delay(ms)
					var lines testnet.Journal
					c := net.Guarded(redlock.WithTTL(3*time.Second), redlock.WithLogger(slog.New(slog.NewTextHandler(&lines, nil))))
					before := len(lines.String())
					lost := net.Nodes[:nodes/2+1]
					kill(lost...)
					time.Sleep(down)
					for _, n := range lost {
						n.Up()
					}
					back := time.Now()
					lease, err := c.Mutex("x").Lock(t.Context())
					require.NoError(t, err)
					granted := time.Now()
					require.Greater(t, granted.Sub(back), admission.MajorityLossGuard)
					require.NoError(t, lease.Unlock(t.Context()))
					time.Sleep(time.Second)
					synctest.Wait()
					log := lines.String()[before:]
					said := announcements(t, log)
					for _, n := range lost {
						last := said[members(c)[n.Index].Name]
						require.WithinDuration(t, granted, last.until, time.Second, log)
						require.WithinDuration(t, back, last.logged, time.Second, log)
					}
					if down == 0 {
						require.WithinDuration(t, granted, said["ERROR"].until, time.Second, log)
						require.WithinDuration(t, back, said["ERROR"].logged, time.Second, log)
					}
				})
			})
		}
	}
}

// Plain miniredis is such a server: a key's ttl does not get less with time.
func TestQuarantineAtAClockThatStandsStillSaysSo(t *testing.T) {
	testnet.InBubble(t, 3, func(t *testing.T, net *testnet.Net) {
		for _, n := range net.Nodes {
			n.Redis.ClockTTL(false)
		}
		var lines testnet.Journal
		c := net.NewClient(redlock.WithRestartGuard(10*time.Second), redlock.WithLogger(slog.New(slog.NewTextHandler(&lines, nil))))
		began := time.Now()
		_, err := c.Mutex("x").Lock(t.Context())
		require.ErrorIs(t, err, redlock.ErrNoQuorum, "nobody waits for ever")
		require.ErrorContains(t, err, "its clock stands still")
		require.ErrorContains(t, err, "WithRestartGuard(0)")
		require.Less(t, time.Since(began), 5*time.Second)
		require.Contains(t, lines.String(), "the node does not vote: its clock stands still")
		require.NotContains(t, lines.String(), "waits for longer than was logged")

		for _, n := range net.Nodes {
			n.Redis.FastForward(time.Minute)
		}
		time.Sleep(time.Second) // the client looks again
		require.NoError(t, c.WaitReady(t.Context()), "a test may let time go on")
	})
}
