package endpoint

import (
	"net"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestParseReadsURLsAsWritten(t *testing.T) {
	for raw, want := range map[string]Endpoint{
		"redis://a":            {Network: "tcp", Address: "a:6379"},
		"redis://a:7000/3":     {Network: "tcp", Address: "a:7000", DB: 3},
		"redis://[::1]:7000":   {Network: "tcp", Address: "[::1]:7000"},
		"rediss://:secret@a:1": {Network: "tcp", Address: "a:1", TLS: &TLS{}, Password: "secret"},
		"redis://me:p%40ss@a":  {Network: "tcp", Address: "a:6379", Username: "me", Password: "p@ss"},
		"valkey://me:pw@a/2":   {Network: "tcp", Address: "a:6379", Username: "me", Password: "pw", DB: 2},
		"valkeys://a":          {Network: "tcp", Address: "a:6379", TLS: &TLS{}},
		"rediss://a?ca=/etc/ca.pem&servername=redis.internal": {Network: "tcp", Address: "a:6379", TLS: &TLS{CA: "/etc/ca.pem", ServerName: "redis.internal"}},
		"valkeys://:pw@a/1?cert=c%40.pem&key=k.pem":           {Network: "tcp", Address: "a:6379", DB: 1, Password: "pw", TLS: &TLS{Cert: "c@.pem", Key: "k.pem"}},
		"redis://me@a/2?passwordfile=/run/pass%20word":        {Network: "tcp", Address: "a:6379", Username: "me", PasswordFile: "/run/pass word", DB: 2},
		"rediss://a?ca=ca.pem&passwordfile=p":                 {Network: "tcp", Address: "a:6379", PasswordFile: "p", TLS: &TLS{CA: "ca.pem"}},
		"unix:///run/r.sock?db=1&passwordfile=p":              {Network: "unix", Address: "/run/r.sock", PasswordFile: "p", DB: 1},
		"redis://:a,b@c":                                      {Network: "tcp", Address: "c:6379", Password: "a,b"},
		"redis://:a%2Cb%40c@d":                                {Network: "tcp", Address: "d:6379", Password: "a,b@c"},
		"unix:///run/redis@1,2.sock":                          {Network: "unix", Address: "/run/redis@1,2.sock"},
		"unix:///run/redis.sock":                              {Network: "unix", Address: "/run/redis.sock"},
		"unix://me:pw@/run/r.sock?db=12":                      {Network: "unix", Address: "/run/r.sock", Username: "me", Password: "pw", DB: 12},
	} {
		got, err := Parse(raw)
		require.NoError(t, err, raw)
		require.Equal(t, want, got, raw)
	}
}

func TestParseRefusesAPasswordFileBesideAPassword(t *testing.T) {
	for raw, want := range map[string]string{
		"redis://me:hunter2@a?passwordfile=p":       "it has a password, and the field passwordfile too",
		"redis://me@a?passwordfile=":                "its field passwordfile must have one value",
		"redis://me@a?passwordfile=p&passwordfile=": "its field passwordfile must have one value",
		"redis://me@a":                     "or redis://user@host?passwordfile=file",
		"redis://me@a?passwordfile=p&db=1": "only passwordfile is",
	} {
		_, err := Parse(raw)
		require.ErrorContains(t, err, want, raw)
		require.NotContains(t, err.Error(), "hunter2")
	}
}

func FuzzParse(f *testing.F) {
	f.Add("redis://user:password@host:6379/1")
	f.Add("unix://me:pw@/run/redis.sock?db=1")
	f.Add("rediss://[::1]:7000")
	f.Add("valkey://a:7000,b:7000")
	f.Fuzz(func(t *testing.T, raw string) {
		e, err := Parse(raw)
		if err != nil {
			return
		}
		if e.DB < 0 || e.Address == "" {
			t.Fatalf("%q gave %+v", raw, e)
		}
		switch e.Network {
		case "tcp":
			if _, _, err := net.SplitHostPort(e.Address); err != nil || strings.Contains(e.Address, ",") {
				t.Fatalf("%q gave the address %q: %v", raw, e.Address, err)
			}
		case "unix":
			if !strings.HasPrefix(e.Address, "/") {
				t.Fatalf("%q gave the path %q", raw, e.Address)
			}
		default:
			t.Fatalf("%q gave the network %q", raw, e.Network)
		}
	})
}

func TestParseNamesWhatFilesAndShellsAdd(t *testing.T) {
	for raw, want := range map[string]string{
		`"redis://a`:        "a quote",
		"redis://a'":        "a quote",
		"“redis://a”":       "a quote",
		"redis://a:6379\r":  "a carriage return",
		"redis://a\r\n":     "a carriage return",
		"redis://a\n":       "a line end",
		" redis://a":        "a space",
		"redis://a :6379":   "a space",
		"redis://:se cr@a":  "%20",
		"redis://:secret@'": "a quote",
	} {
		_, err := Parse(raw)
		require.ErrorContains(t, err, want, "%q", raw)
		require.NotContains(t, err.Error(), "se cr")
		require.NotContains(t, err.Error(), "secret")
	}
	e, err := Parse(`redis://:it's@a`)
	require.NoError(t, err, "a quote in a password is one")
	require.Equal(t, "it's", e.Password)
}
