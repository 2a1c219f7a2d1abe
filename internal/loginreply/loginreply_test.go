package loginreply

import (
	"testing"

	"github.com/stretchr/testify/require"
)

func TestWithholdShowsTheCodeAndNothingElse(t *testing.T) {
	for reply, want := range map[string]string{
		"ERR unknown thing 'hunter2'":  "ERR (" + Notice + ")",
		"hunter2":                      Notice,
		"HUNTER2 is wrong":             Notice, // it looks like a code
		"err no":                       Notice,
		"WRONGPASS:hunter2 no":         Notice,
		"WRONGPASS hunter2":            "WRONGPASS (" + Notice + ")",
		"ERR invalid password":         "ERR invalid password",
		"ERR invalid password hunter2": "ERR invalid password (" + Notice + ")",
		"ERR invalid passwordhunter2":  "ERR (" + Notice + ")",
		"ERR Client sent AUTH hunter2": "ERR Client sent AUTH (" + Notice + ")",
		"DENIED Redis is running in protected mode because protected mode is enabled": "DENIED Redis is running in protected mode (" + Notice + ")",
		"WRONGPASS invalid username-password pair or user is disabled.":               "WRONGPASS invalid username-password pair or user is disabled.",
		"": Notice,
	} {
		require.Equal(t, want, Withhold(reply), reply)
	}
}
