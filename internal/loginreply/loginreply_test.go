package loginreply

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestWithholdShowsTheCodeAndNothingElse(t *testing.T) {
	secrets := New("hunter2")
	for reply, want := range map[string]string{
		"ERR unknown thing 'hunter2'":  "ERR (" + Notice + ")",
		"hunter2":                      Notice,
		"hunter2 is wrong":             Notice,
		"HUNTER2 is wrong":             Notice,
		"HUNT er2":                     Notice, // a part of it
		"err no":                       Notice, // no code
		"PROXYERR no":                  "PROXYERR (" + Notice + ")",
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
		require.Equal(t, want, Withhold(reply, secrets), reply)
	}
	require.Equal(t, Notice, Withhold("PROXYERR no", nil), "a password that is not known may look like a code")
	require.Equal(t, "ERR ("+Notice+")", Withhold("ERR no", nil))
}

func TestSecretsAreFoundInEveryForm(t *testing.T) {
	const password = "pä ss\"w\\o%rd\n1"
	s := New("", password)
	for _, text := range []string{
		password, "x" + password + "y", strings.ToUpper(password), `pä ss\"w\\o%rd\n1`, `p\u00e4 ss\"w\\o%rd\n1`, `p\xc3\xa4 ss\"w\\o%rd\n1`,
		`pä ss"w\o%rd 1`, "p%C3%A4+ss%22w%5Co%25rd%0A1", "p%C3%A4%20ss%22w%5Co%25rd%0A1", "cMOkIHNzIndcbyVyZAox", "70c3a4207373",
		"'" + password[:9] + "'", "..." + password[6:],
	} {
		require.True(t, s.In(text), "%q", text)
	}
	require.True(t, s.In(strings.Repeat("-", maxSearched+1)), "a text that is not searched")
	for _, text := range []string{"", "OK", "WRONGPASS invalid username-password pair", "pä ss"} {
		require.False(t, s.In(text), text)
	}
}

func TestShortSecretsAreFoundAsWords(t *testing.T) {
	for text, want := range map[string]bool{"unknown 'pw'": true, "pw": true, "pwd": false, "a pwd, pw": true, "xpw": false} {
		require.Equal(t, want, New("pw").In(text), text)
	}
	require.True(t, New("word").In("password"), "others anywhere")
}

func TestNoSecretsAreFoundNowhere(t *testing.T) {
	require.Nil(t, New("", ""))
	require.False(t, (*Secrets)(nil).In("hunter2"))
	s := (*Secrets)(nil).With("hunter2")
	require.Same(t, s, s.With("hunter2"))
	both := s.With("swordfish")
	require.True(t, both.In("hunter2") && both.In("swordfish") && !s.In("swordfish"))
}
