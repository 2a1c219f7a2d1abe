package protocol

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

var transferText = &TransferText{Prefix: "redlock:", Name: "x\xfe\x00", Label: "label\xff", Secret: "SECRET", Token: 7, Size: 3, Left: 9_000_000,
	Records: []string{"redlock::record:run-0", "redlock::record:run-1\xff"}}

func TestTextIsReadAsItWasWritten(t *testing.T) {
	for _, text := range []string{transferText.String(), "\n" + transferText.String() + " \n"} {
		read, err := ParseTransferText(text)
		require.NoError(t, err)
		require.Equal(t, transferText, read)
	}
	require.NotContains(t, transferText.String(), "SECRET")
}

func TestDamagedTextIsRefused(t *testing.T) {
	text := transferText.String()
	for i := range text {
		_, err := ParseTransferText(text[:i])
		require.Error(t, err, "cut off after %d", i)
		other := "A"
		if text[i] == 'A' {
			other = "B"
		}
		_, err = ParseTransferText(text[:i] + other + text[i+1:])
		require.Error(t, err, "letter %d", i)
	}
}

func TestTextWithoutWhatItNeedsIsRefused(t *testing.T) {
	for name, change := range map[string]func(l *TransferText){
		"no name":       func(l *TransferText) { l.Name = "" },
		"no secret":     func(l *TransferText) { l.Secret = "" },
		"no nodes":      func(l *TransferText) { l.Records = nil },
		"no size":       func(l *TransferText) { l.Size = 0 },
		"negative time": func(l *TransferText) { l.Left = -1 },
		"endless time":  func(l *TransferText) { l.Left = 1 << 62 },
		"too long":      func(l *TransferText) { l.Name = strings.Repeat("x", 1<<16) },
	} {
		bad := *transferText
		change(&bad)
		_, err := ParseTransferText(bad.String())
		require.Error(t, err, name)
	}
}

func FuzzText(f *testing.F) {
	f.Add(transferText.String())
	f.Add("redlock-lease-3.00000000.")
	f.Fuzz(func(t *testing.T, text string) {
		l, err := ParseTransferText(text)
		if err != nil {
			return
		}
		again, err := ParseTransferText(l.String())
		require.NoError(t, err)
		require.Equal(t, l, again)
	})
}
