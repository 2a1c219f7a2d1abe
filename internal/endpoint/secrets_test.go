package endpoint_test

import (
	"net/url"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/redlock-go/redlock"
	"github.com/redlock-go/redlock/internal/endpoint"
)

// A person writes a user and a password into a URL, or one of the two, and forgets to
// escape some of it. However the URL is read, the error repeats neither.
func FuzzURLSecrets(f *testing.F) {
	f.Add("redis", "me", "", "", "host:6379", "/1")
	f.Add("redis", "", "", "", "host:0", "")
	f.Add("rediss", "me", "p@", "ss", "[::1]", "/x")
	f.Add("redis", "me", "/", "", "host", "")
	f.Add("redis", "", "12/", "?", "host", "/2")
	f.Add("unix", "me", "a@/s?", "", "/run/redis.sock", "?db=1")
	f.Add("http", "#", "%", "%zz", "a b", "#")
	f.Add("valkeys", "a,", ",", ":70000,", "a,b", "")
	f.Add("unix", "1?", "%40", "=", "", "/run")
	const user, password = "s3cr3t", "hunter2"
	f.Fuzz(func(t *testing.T, scheme, beforeUser, before, after, host, rest string) {
		for _, secret := range []string{user, password} {
			if strings.Contains(scheme+"\n"+beforeUser+"\n"+before+"\n"+after+"\n"+host+rest, secret) {
				return
			}
		}
		first, second := beforeUser+user, before+password+after
		for _, userinfo := range []string{first + ":" + second, first, second, ":" + second, first + ":"} {
			requireSecretURL(t, scheme+"://"+userinfo+"@"+host+rest, user, password)
		}
		u := url.URL{Scheme: "rediss", User: url.UserPassword(first, second), Host: "host", Path: "/3"}
		e, err := endpoint.Parse(u.String())
		require.NoError(t, err, "escaped, it is read")
		require.Equal(t, endpoint.Endpoint{Network: "tcp", Address: "host:6379", TLS: &endpoint.TLS{}, Username: first, Password: second, DB: 3}, e)
	})
}

// requireSecretURL checks that neither an error nor the address of a server repeats
// parts of a URL's user or password.
func requireSecretURL(t *testing.T, raw string, secrets ...string) {
	t.Helper()
	e, err := endpoint.Parse(raw)
	said := e.Address
	switch {
	case err != nil:
		_, err = redlock.Open([]string{"redis://fine", raw})
		require.ErrorIs(t, err, redlock.ErrConfig)
		said = err.Error()
	case e.Network == "unix":
		return // whatever stands behind unix:/// is a path, and names the node
	}
	for _, secret := range secrets {
		require.NotContains(t, said, secret, raw)
	}
}
