package admission_test

import (
	"log/slog"
	"regexp"
	"strings"
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
					lease := net.Must(c.Mutex("x").Lock(t.Context()))
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

const (
	overLine   = "a node's wait is over, and it does not vote yet"
	longerLine = "a node waits for longer than was logged"
)

// One of three is down, and another one restarts: it cannot be refilled before the first one votes. The log must not end with
// a wait that has long been over.
func TestLogSaysWhyANodeDoesNotVoteAfterItsWait(t *testing.T) {
	testnet.InBubble(t, 3, func(t *testing.T, net *testnet.Net) {
		var lines testnet.Journal
		c := net.Guarded(redlock.WithTTL(5*time.Second), redlock.WithLogger(slog.New(slog.NewTextHandler(&lines, nil))))
		net.Nodes[0].Down()
		time.Sleep(time.Second)
		net.Nodes[1].Restart(nil)
		time.Sleep(4 * time.Second)
		require.Equal(t, 1, strings.Count(lines.String(), quarantineLine), &lines)
		require.NotContains(t, lines.String(), overLine)
		time.Sleep(time.Minute)
		text := lines.String()
		require.Equal(t, 1, strings.Count(text, overLine), text)
		line := text[strings.Index(text, overLine):]
		require.Contains(t, line, `node="`+members(c)[1].Name+`"`)
		require.Contains(t, line, `votes again with the counters of 2 other nodes that vote (1 answered)`)
		require.Contains(t, line, `not_voting="`+members(c)[0].Name+`"`)
		said, err := time.Parse(time.RFC3339Nano, regexp.MustCompile(`time=(\S+) [^\n]*` + overLine).FindStringSubmatch(text)[1])
		require.NoError(t, err)
		require.WithinDuration(t, announcements(t, text)[members(c)[1].Name].until, said, 2*time.Second)

		net.Nodes[0].Up()
		time.Sleep(10 * time.Second)
		require.Equal(t, 1, strings.Count(lines.String(), overLine))
		require.True(t, members(c)[1].Current().Votes)
	})
}

func TestNodeThatVotesInTimeHasNoLineAboutItsWaitsEnd(t *testing.T) {
	testnet.InBubble(t, 3, func(t *testing.T, net *testnet.Net) {
		net.Delay(50 * ms)
		var lines testnet.Journal
		net.Guarded(redlock.WithTTL(5*time.Second), redlock.WithLogger(slog.New(slog.NewTextHandler(&lines, nil))))
		net.Nodes[1].Restart(nil)
		time.Sleep(time.Minute)
		require.NotContains(t, lines.String(), overLine)
		require.NotContains(t, lines.String(), longerLine)
	})
}

// A server counts the quarantine on its wall clock: set back, the same quarantine has longer to go.
func TestLogNamesTheClockWhereAQuarantineLastsLonger(t *testing.T) {
	testnet.InBubble(t, 3, func(t *testing.T, net *testnet.Net) {
		var lines testnet.Journal
		net.Guarded(redlock.WithTTL(5*time.Second), redlock.WithLogger(slog.New(slog.NewTextHandler(&lines, nil))))
		n := net.Nodes[1]
		n.Restart(nil)
		time.Sleep(4 * time.Second)
		n.Redis.SetTTL(n.Key("guard"), 5*time.Second) // its clock is set back by four seconds
		time.Sleep(time.Second)
		require.Contains(t, lines.String(), longerLine+": its server's clock was set back")

		n.Restart(nil)
		time.Sleep(time.Second)
		before := len(lines.String())
		net.Must(net.NewClient(redlock.WithTTL(20*time.Second), redlock.WithRestartGuard(time.Millisecond)).Mutex("x").TryLock(t.Context()))
		time.Sleep(3 * time.Second)
		require.Contains(t, lines.String()[before:], longerLine+": a majority of the nodes lost its memory, or a client uses a longer ttl")
	})
}
