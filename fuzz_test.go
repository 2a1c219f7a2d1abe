package redlock

import (
	"context"
	"math"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/gomodule/redigo/redis"
	"github.com/stretchr/testify/require"

	"github.com/redlock-go/redlock/internal/endpoint"
	"github.com/redlock-go/redlock/internal/protocol"
)

// A person writes a user and a password into a URL, or one of the two, and forgets to
// escape some of it. However the URL is read, the error repeats neither.
func FuzzParseURL(f *testing.F) {
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
		require.Equal(t, endpoint.Endpoint{Network: "tcp", Address: "host:6379", TLS: true, Username: first, Password: second, DB: 3}, e)
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
		_, err = Open([]string{"redis://fine", raw})
		require.ErrorIs(t, err, ErrConfig)
		said = err.Error()
	case e.Network == "unix":
		return // whatever stands behind unix:/// is a path, and names the node
	}
	for _, secret := range secrets {
		require.NotContains(t, said, secret, raw)
	}
}

// refusingPool has no connections.
type refusingPool struct{}

func (refusingPool) GetContext(context.Context) (redis.Conn, error) { return nil, errRefused }

// Whatever the settings are: they are refused as ErrConfig, or fit together.
func FuzzOptions(f *testing.F) {
	f.Add(uint16(0), int64(0), int64(0), 0.0, int64(0), int64(0), int64(0), int64(0), "", "")
	f.Add(uint16(0b1_1111_1111), int64(10*time.Second), int64(time.Second), 0.01, int64(2*ms), int64(time.Second), int64(time.Minute), int64(time.Hour), "me", ":record")
	f.Add(uint16(0b1111), int64(minTTL), int64(5*ms), math.Nextafter(1, 0), int64(0), int64(ms), int64(minTTL), int64(1), "", "redlock:")
	f.Add(uint16(0b10_0011_0111), int64(maxTTL), int64(maxTTL), math.NaN(), int64(maxTTL), int64(maxTTL), int64(maxTTL), int64(maxTTL), "", "")
	f.Add(uint16(0b100000), int64(0), int64(0), 0.0, int64(0), int64(0), int64(math.MaxInt64), int64(0), "", "")
	f.Add(uint16(0b11), int64(time.Second), int64(500*ms), 0.0, int64(0), int64(0), int64(0), int64(0), "", "")
	f.Add(uint16(0b1001), int64(time.Second), int64(0), 0.0, int64(0), int64(time.Second), int64(0), int64(0), "", "")
	f.Add(uint16(0b100), int64(0), int64(0), 0.0, int64(-time.Second), int64(0), int64(0), int64(0), "", "")
	f.Add(uint16(0b100), int64(0), int64(0), -1.0, int64(0), int64(0), int64(0), int64(0), "", "")
	f.Add(uint16(1<<15+0b1_1000_0000), int64(0), int64(0), 0.0, int64(0), int64(0), int64(0), int64(0), "label", "redlock::")
	f.Fuzz(func(t *testing.T, which uint16, ttl, timeout int64, factor float64, base, every, hold, guard int64, label, prefix string) {
		all := []Option{
			WithTTL(time.Duration(ttl)), WithNodeTimeout(time.Duration(timeout)), WithDrift(factor, time.Duration(base)),
			WithRenewEvery(time.Duration(every)), WithoutRenewal(), WithMaxHold(time.Duration(hold)),
			WithRestartGuard(time.Duration(guard)), WithOwnerLabel(label), WithPrefix(prefix), WithFencing(false),
		}
		var of [2][]Option // the Client's, and the Mutex's
		for i, o := range all {
			switch {
			case which>>i&1 == 0:
			case which>>15 == 1 && i != 6:
				of[1] = append(of[1], o)
			default:
				of[0] = append(of[0], o)
			}
		}
		c, err := New([]Pool{refusingPool{}}, append(of[0], WithLogger(nil))...)
		if err != nil {
			require.ErrorIs(t, err, ErrConfig)
			require.Nil(t, c)
			return
		}
		defer c.Close()
		m := c.Mutex("x", of[1]...)
		if m.err != nil {
			require.ErrorIs(t, m.err, ErrConfig)
			_, err := m.TryLock(t.Context())
			require.ErrorIs(t, err, ErrConfig)
			return
		}
		requireFit(t, m)
	})
}

// requireFit checks the relations between a Mutex's settings, and that a lease which
// is granted at once is good for something.
func requireFit(t *testing.T, m *Mutex) {
	o := m.opts
	validity := o.validUntil(0)
	require.GreaterOrEqual(t, o.ttl, minTTL)
	require.Zero(t, o.ttl%ms)
	require.Positive(t, o.voteTimeout())
	require.GreaterOrEqual(t, o.drift.of(o.ttl), time.Duration(0))
	require.Less(t, 2*o.voteTimeout(), validity)
	require.LessOrEqual(t, validity, o.ttl)
	if o.noRenewal {
		require.Zero(t, o.renewal())
	} else {
		require.Positive(t, o.renewal())
		require.Less(t, o.renewal()+o.voteTimeout(), validity, "a renewal can end in time")
	}
	b := m.newBallot(acquiring, "owner", nil, o.clock())
	left := newLease(m, b, 1, nil).Remaining()
	require.Positive(t, left)
	require.LessOrEqual(t, left, validity)
	require.False(t, strings.HasPrefix(m.key, protocol.Reserved))
}
