package handoff_test

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/redlock-go/redlock/internal/handoff"
)

var lease = &handoff.Lease{Prefix: "redlock:", Name: "x\xfe\x00", Label: "label\xff", Secret: "SECRET", Token: 7, Size: 3, Left: 9_000_000,
	Ends: map[string]int64{"redlock::record:run-0": 1_700_000_000_000_000, "redlock::record:run-1": 1}}

func TestTextIsReadAsItWasWritten(t *testing.T) {
	for _, text := range []string{lease.String(), "\n" + lease.String() + " \n"} {
		read, err := handoff.Parse(text)
		require.NoError(t, err)
		require.Equal(t, lease, read)
	}
	require.NotContains(t, lease.String(), "SECRET")
}

func TestDamagedTextIsRefused(t *testing.T) {
	text := lease.String()
	for i := range text {
		_, err := handoff.Parse(text[:i])
		require.Error(t, err, "cut off after %d", i)
		other := "A"
		if text[i] == 'A' {
			other = "B"
		}
		_, err = handoff.Parse(text[:i] + other + text[i+1:])
		require.Error(t, err, "letter %d", i)
	}
}

func TestTextWithoutWhatItNeedsIsRefused(t *testing.T) {
	for name, change := range map[string]func(l *handoff.Lease){
		"no name":       func(l *handoff.Lease) { l.Name = "" },
		"no secret":     func(l *handoff.Lease) { l.Secret = "" },
		"no nodes":      func(l *handoff.Lease) { l.Ends = nil },
		"no size":       func(l *handoff.Lease) { l.Size = 0 },
		"negative time": func(l *handoff.Lease) { l.Left = -1 },
		"endless time":  func(l *handoff.Lease) { l.Left = 1 << 62 },
		"too long":      func(l *handoff.Lease) { l.Name = strings.Repeat("x", 1<<16) },
	} {
		bad := *lease
		change(&bad)
		_, err := handoff.Parse(bad.String())
		require.Error(t, err, name)
	}
}

func FuzzText(f *testing.F) {
	f.Add(lease.String())
	f.Add("redlock-lease-2.00000000.")
	f.Fuzz(func(t *testing.T, text string) {
		l, err := handoff.Parse(text)
		if err != nil {
			return
		}
		again, err := handoff.Parse(l.String())
		require.NoError(t, err)
		require.Equal(t, l, again)
	})
}
