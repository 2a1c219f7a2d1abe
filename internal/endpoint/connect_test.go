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
	"testing"
	"time"

	"github.com/alicebob/miniredis/v2"
	"github.com/gomodule/redigo/redis"
	"github.com/stretchr/testify/require"
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
