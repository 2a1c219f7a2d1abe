package endpoint

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"io"
	"math/big"
	"net"
	"net/url"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/alicebob/miniredis/v2"
	"github.com/gomodule/redigo/redis"
	"github.com/stretchr/testify/require"

	"github.com/redlock-go/redlock/internal/loginreply"
)

func connectorTo(t *testing.T) (*Connector, *miniredis.Miniredis) {
	server := miniredis.RunT(t)
	return &Connector{Dial: func(ctx context.Context) (net.Conn, error) {
		return new(net.Dialer).DialContext(ctx, "tcp", server.Addr())
	}}, server
}

func as(user, password string) func(context.Context) (string, string, error) {
	return func(context.Context) (string, string, error) { return user, password, nil }
}

func TestConnectorLogsInAtEachConnection(t *testing.T) {
	c, server := connectorTo(t)
	server.RequireUserAuth("me", "first")
	password := "first"
	c.Credentials = func(context.Context) (string, string, error) { return "me", password, nil }
	conn, err := c.Connect(t.Context())
	require.NoError(t, err)
	defer conn.Close()
	server.RequireUserAuth("me", "second")
	_, err = c.Connect(t.Context())
	require.ErrorContains(t, err, "cannot log in: WRONGPASS")
	var reply redis.Error
	require.ErrorAs(t, err, &reply, "the node is unfit by the reply's code")
	require.NotContains(t, err.Error(), "first")
	password = "second"
	again, err := c.Connect(t.Context())
	require.NoError(t, err)
	defer again.Close()
	answer, err := redis.String(conn.Do("PING"))
	require.NoError(t, err, "a connection that is open stays as it is")
	require.Equal(t, "PONG", answer)
}

func TestConnectorSendsOnlyWhatItHas(t *testing.T) {
	c, server := connectorTo(t)
	c.Credentials = as("", "")
	conn, err := c.Connect(t.Context())
	require.NoError(t, err, "nobody logs in")
	defer conn.Close()
	server.RequireAuth("secret")
	c.Credentials = as("", "secret")
	conn, err = c.Connect(t.Context())
	require.NoError(t, err, "the password alone")
	defer conn.Close()
}

func TestConnectorSelectsTheDatabaseAndSetsTheName(t *testing.T) {
	c, server := connectorTo(t)
	c.Database, c.ClientName = 3, "billing"
	conn, err := c.Connect(t.Context())
	require.NoError(t, err)
	defer conn.Close()
	_, err = conn.Do("SET", "a", "b")
	require.NoError(t, err)
	require.Equal(t, []string{"a"}, server.DB(3).Keys())
	name, err := redis.String(conn.Do("CLIENT", "GETNAME"))
	require.NoError(t, err)
	require.Equal(t, "billing", name)
}

// script answers each command of a connection with the next line.
func script(lines ...string) func(context.Context) (net.Conn, error) {
	return func(context.Context) (net.Conn, error) {
		here, there := net.Pipe()
		go func() { // ends with the connection, which the test closes
			go func() { _, _ = io.Copy(io.Discard, there) }()
			for _, line := range lines {
				_, _ = there.Write([]byte(line + "\r\n"))
			}
		}()
		return here, nil
	}
}

func TestConnectorDoesWithoutANameThatIsRefused(t *testing.T) {
	c := &Connector{Dial: script("+OK", "-NOPERM no permissions to run the 'client|setname' command"), Database: 1, ClientName: "billing"}
	conn, err := c.Connect(t.Context())
	require.NoError(t, err)
	require.NoError(t, conn.Close())
	c.Dial = script("-ERR DB index is out of range", "+OK")
	_, err = c.Connect(t.Context())
	require.ErrorContains(t, err, "cannot select the database: ERR DB index is out of range")
}

func TestConnectEndsWithItsContext(t *testing.T) {
	c := &Connector{Dial: script(), Database: 1} // a server that accepts and does not answer
	ctx, cancel := context.WithCancel(t.Context())
	time.AfterFunc(20*time.Millisecond, cancel)
	_, err := c.Connect(ctx)
	require.ErrorIs(t, err, context.Canceled)
}

func TestConnectReportsWhatTheFunctionsReturn(t *testing.T) {
	c := &Connector{Dial: func(context.Context) (net.Conn, error) { return nil, io.ErrUnexpectedEOF }}
	_, err := c.Connect(t.Context())
	require.ErrorIs(t, err, io.ErrUnexpectedEOF)
	c.Dial = func(context.Context) (net.Conn, error) { return nil, nil }
	_, err = c.Connect(t.Context())
	require.ErrorContains(t, err, "the dial function returned no connection and no error")
	c.Credentials = func(context.Context) (string, string, error) { return "", "", errors.New("the vault is sealed") }
	_, err = c.Connect(t.Context())
	require.EqualError(t, err, "no credentials: the vault is sealed")
}

// certificate writes a certificate that is valid for so long, and its key, as files in PEM, and returns their paths. parent
// signs; nil: itself.
func certificate(t *testing.T, name string, parent *tls.Certificate, valid time.Duration) (cert, key string, pair tls.Certificate) {
	private, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	require.NoError(t, err)
	template := &x509.Certificate{SerialNumber: big.NewInt(time.Now().UnixNano()), DNSNames: []string{name}, NotAfter: time.Now().Add(valid),
		IsCA: parent == nil, BasicConstraintsValid: true, ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth, x509.ExtKeyUsageClientAuth}}
	signer, by := template, any(private)
	if parent != nil {
		signer, by = parent.Leaf, parent.PrivateKey
	}
	der, err := x509.CreateCertificate(rand.Reader, template, signer, &private.PublicKey, by)
	require.NoError(t, err)
	secret, err := x509.MarshalPKCS8PrivateKey(private)
	require.NoError(t, err)
	dir := t.TempDir()
	cert, key = filepath.Join(dir, "cert.pem"), filepath.Join(dir, "key.pem")
	require.NoError(t, os.WriteFile(cert, pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: der}), 0o600))
	require.NoError(t, os.WriteFile(key, pem.EncodeToMemory(&pem.Block{Type: "PRIVATE KEY", Bytes: secret}), 0o600))
	pair, err = tls.LoadX509KeyPair(cert, key)
	require.NoError(t, err)
	return cert, key, pair
}

func TestURLsNameTheFilesOfTLS(t *testing.T) {
	ca, _, authority := certificate(t, "authority", nil, time.Hour)
	_, _, ofServer := certificate(t, "redis.internal", &authority, 2*time.Hour)
	cert, key, ofClient := certificate(t, "client", &authority, 3*time.Hour)
	clients := x509.NewCertPool()
	clients.AddCert(authority.Leaf)
	server, err := miniredis.RunTLS(&tls.Config{Certificates: []tls.Certificate{ofServer}, ClientCAs: clients, ClientAuth: tls.RequireAndVerifyClientCert})
	require.NoError(t, err)
	defer server.Close()
	connect := func(query url.Values) error {
		e, err := Parse("rediss://" + server.Addr() + "?" + query.Encode())
		require.NoError(t, err)
		require.NoError(t, e.Check())
		conn, err := e.Connector().Connect(t.Context())
		if err != nil {
			return err
		}
		defer conn.Close()
		_, err = conn.Do("PING")
		return err
	}
	all := url.Values{"ca": {ca}, "cert": {cert}, "key": {key}, "servername": {"redis.internal"}}
	require.NoError(t, connect(all))
	e, err := Parse("rediss://" + server.Addr() + "?" + all.Encode())
	require.NoError(t, err)
	ends, err := e.Expiry(t.Context())
	require.NoError(t, err)
	require.Equal(t, Expiry{authority.Leaf.NotAfter, ofClient.Leaf.NotAfter}, ends, "the authority's certificate ends before the server's")
	for field, want := range map[string]string{"ca": "unknown authority", "servername": "127.0.0.1", "cert": "certificate required"} {
		fewer := url.Values{}
		for k, v := range all {
			if k != field && (field != "cert" || k != "key") {
				fewer[k] = v
			}
		}
		require.ErrorContains(t, connect(fewer), want, "without %s", field)
	}
}

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

func TestWithoutUserKeepsTheAddress(t *testing.T) {
	for text, want := range map[string]string{
		"": "", "10.0.0.1:6379": "10.0.0.1:6379", "locks@zone-a": "locks@zone-a", "/run/a:b@c.sock": "/run/a:b@c.sock", "unix:///run/a@b": "unix:///run/a@b",
		"redis://host:1/2":              "redis://host:1/2",
		"redis://me:hunter2@host:1":     "redis://…@host:1",
		"rediss://:hun/t@er 2@host":     "rediss://…@host",
		"unix://me:hunter2@/run/redis":  "unix://…@/run/redis",
		"me:hunter2@host:6379":          "…@host:6379",
		"--nodes=redis://:hunter2@host": "--nodes=redis://…@host",
	} {
		require.Equal(t, want, WithoutUser(text))
	}
}

func TestThePasswordIsReadAtEachConnection(t *testing.T) {
	server := miniredis.RunT(t)
	file := filepath.Join(t.TempDir(), "password")
	e, err := Parse("redis://me@" + server.Addr() + "?passwordfile=" + file)
	require.NoError(t, err)
	require.ErrorContains(t, e.Check(), "the password file: ", "there is none")
	c := e.Connector()
	for _, password := range []string{"first", "second"} {
		server.RequireUserAuth("me", password)
		require.NoError(t, os.WriteFile(file, []byte(password+"\r\n"), 0o600))
		require.NoError(t, e.Check())
		conn, err := c.Connect(t.Context())
		require.NoError(t, err)
		require.NoError(t, conn.Close())
	}
	require.NoError(t, os.Remove(file))
	_, err = c.Connect(t.Context())
	var unread *PasswordError
	require.ErrorAs(t, err, &unread)
	require.ErrorIs(t, err, os.ErrNotExist)
}

func TestAPasswordFileHasOneLine(t *testing.T) {
	dir := t.TempDir()
	for text, want := range map[string]string{
		"":                            "is empty",
		"\n":                          "is empty",
		"hunter2\nhunter3\n":          "has several lines",
		strings.Repeat("hunter", 700): "has more than 4096 bytes",
	} {
		file := filepath.Join(dir, "password")
		require.NoError(t, os.WriteFile(file, []byte(text), 0o600))
		_, _, err := Endpoint{PasswordFile: file}.Credentials(t.Context())
		require.ErrorContains(t, err, file+" "+want)
		require.NotContains(t, err.Error(), "hunter")
	}
	_, _, err := Endpoint{PasswordFile: dir}.Credentials(t.Context())
	require.ErrorContains(t, err, "is not a regular file")
	if runtime.GOOS != "windows" {
		_, _, err = Endpoint{PasswordFile: "/dev/stdin"}.Credentials(t.Context())
		require.ErrorContains(t, err, "is not a regular file", "only the first node would get it")
	}
}

func TestConnWithholdsTheAnswerToALogin(t *testing.T) {
	for _, login := range [][]any{{"AUTH", "hunter2"}, {"AUTH", "me", []byte("hunter2")}, {"HELLO", "3", "AUTH", "me", "hunter2"}} {
		c, server := dial(t)
		require.NoError(t, c.Send(login[0].(string), login[1:]...))
		require.NoError(t, c.Send("PING"))
		_, err := server.Write([]byte("-NOAUTH it is half of hunt and er2\r\n-ERR no\r\n"))
		require.NoError(t, err)
		_, err = c.Receive()
		require.Equal(t, redis.Error("NOAUTH ("+loginreply.Notice+")"), err)
		_, err = c.Receive()
		require.Equal(t, redis.Error("ERR no"), err)
	}
}

func TestConnShowsOtherErrorsAndCutsLongOnes(t *testing.T) {
	c, server := dial(t)
	require.NoError(t, c.Send("AUTH", "me", "hunter2"))
	require.NoError(t, c.Send("PING"))
	require.NoError(t, c.Send("PING"))
	long := "ERR " + strings.Repeat("x", maxRefusal)
	_, err := server.Write([]byte("+OK\r\n-ERR not hunter2\r\n-" + long + "\r\n"))
	require.NoError(t, err)
	_, err = c.Receive()
	require.NoError(t, err)
	_, err = c.Receive()
	require.Equal(t, redis.Error("ERR not hunter2"), err)
	_, err = c.Receive()
	require.Equal(t, redis.Error(long[:maxRefusal]+"…"), err)
}
