package integration

import (
	"context"
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"encoding/pem"
	"fmt"
	"math/big"
	"net"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	goredis "github.com/redis/go-redis/v9"
	"github.com/redis/go-redis/v9/auth"
	"github.com/stretchr/testify/require"

	"github.com/redlock-go/redlock"
	"github.com/redlock-go/redlock/adapters/redlockgoredis"
	"github.com/redlock-go/redlock/integration/cluster"
)

// authority is a certificate authority of a test, and a certificate for 127.0.0.1 that it issued.
type authority struct {
	dir  string // of the files ca.pem, cert.pem and key.pem
	pool *x509.CertPool
}

func newAuthority(t *testing.T) *authority {
	ca := &x509.Certificate{SerialNumber: big.NewInt(1), NotAfter: time.Now().Add(time.Hour), IsCA: true, BasicConstraintsValid: true}
	server := &x509.Certificate{SerialNumber: big.NewInt(2), NotAfter: time.Now().Add(time.Hour), IPAddresses: []net.IP{net.IPv4(127, 0, 0, 1)}}
	caKey, serverKey := newKey(t), newKey(t)
	a := &authority{dir: t.TempDir(), pool: x509.NewCertPool()}
	a.write(t, "ca.pem", "CERTIFICATE", issue(t, ca, ca, caKey, caKey))
	a.write(t, "cert.pem", "CERTIFICATE", issue(t, server, ca, serverKey, caKey))
	secret, err := x509.MarshalPKCS8PrivateKey(serverKey)
	require.NoError(t, err)
	a.write(t, "key.pem", "PRIVATE KEY", secret)
	text, err := os.ReadFile(a.file("ca.pem"))
	require.NoError(t, err)
	require.True(t, a.pool.AppendCertsFromPEM(text))
	return a
}

func newKey(t *testing.T) *ecdsa.PrivateKey {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	require.NoError(t, err)
	return key
}

func issue(t *testing.T, of, by *x509.Certificate, key, signer *ecdsa.PrivateKey) []byte {
	der, err := x509.CreateCertificate(rand.Reader, of, by, &key.PublicKey, signer)
	require.NoError(t, err)
	return der
}

func (a *authority) file(name string) string { return filepath.Join(a.dir, name) }

func (a *authority) write(t *testing.T, name, kind string, der []byte) {
	require.NoError(t, os.WriteFile(a.file(name), pem.EncodeToMemory(&pem.Block{Type: kind, Bytes: der}), 0o600))
}

// startTLS starts a server that speaks TLS alone, and returns its address. The user admin may do anything.
func (a *authority) startTLS(t *testing.T) string {
	program, err := exec.LookPath("redis-server")
	if err != nil {
		t.Skip("no redis-server on the PATH, of which this test needs three with TLS")
	}
	free, err := cluster.FreePort()
	require.NoError(t, err)
	port := strconv.Itoa(free)
	addr := net.JoinHostPort("127.0.0.1", port)
	server := exec.Command(program, "--bind", "127.0.0.1", "--port", "0", "--tls-port", port, "--save", "", "--dir", t.TempDir(),
		"--tls-cert-file", a.file("cert.pem"), "--tls-key-file", a.file("key.pem"), "--tls-ca-cert-file", a.file("ca.pem"),
		"--tls-auth-clients", "no", "--user", "admin", "on", ">admin", "~*", "&*", "+@all", "--user", "default", "off")
	server.Stdout, server.Stderr = t.Output(), t.Output()
	require.NoError(t, server.Start())
	t.Cleanup(func() {
		_ = server.Process.Kill()
		_ = server.Wait() // it was killed
	})
	admin := a.client(addr, auth.NewBasicCredentials("admin", "admin"))
	t.Cleanup(func() { _ = admin.Close() })
	require.True(t, eventually(soon, func() bool { return admin.Ping(t.Context()).Err() == nil }), "%s does not answer", addr)
	return addr
}

// client returns a go-redis client of a server.
func (a *authority) client(addr string, credentials auth.Credentials) *goredis.Client {
	user, password := credentials.BasicAuth()
	return goredis.NewClient(&goredis.Options{Addr: addr, TLSConfig: &tls.Config{RootCAs: a.pool}, Username: user, Password: password, DisableIdentity: true})
}

// rotation is a provider of credentials that change.
type rotation struct {
	mu        sync.Mutex // protects what follows
	now       auth.Credentials
	listeners map[auth.CredentialsListener]bool
}

// Subscribe implements auth.StreamingCredentialsProvider.
func (r *rotation) Subscribe(l auth.CredentialsListener) (auth.Credentials, auth.UnsubscribeFunc, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.listeners[l] = true
	return r.now, func() error {
		r.mu.Lock()
		defer r.mu.Unlock()
		delete(r.listeners, l)
		return nil
	}, nil
}

func (r *rotation) set(user, password string) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.now = auth.NewBasicCredentials(user, password)
	for l := range r.listeners {
		l.OnNext(r.now)
	}
}

// A service with go-redis, TLS, an ACL user and credentials that change goes on to lock when they do: over the same
// connections, and over new ones.
func TestCredentialsRotateOverTLS(t *testing.T) {
	t.Parallel()
	a, provider := newAuthority(t), &rotation{now: auth.NewBasicCredentials("first", "1"), listeners: map[auth.CredentialsListener]bool{}}
	var admins, clients []*goredis.Client
	var urls []string
	for range 3 {
		addr := a.startTLS(t)
		admin := a.client(addr, auth.NewBasicCredentials("admin", "admin"))
		client := goredis.NewClient(&goredis.Options{Addr: addr, TLSConfig: &tls.Config{RootCAs: a.pool}, StreamingCredentialsProvider: provider})
		t.Cleanup(func() { _, _ = admin.Close(), client.Close() })
		admins, clients = append(admins, admin), append(clients, client)
		urls = append(urls, fmt.Sprintf("rediss://second:2@%s?ca=%s", addr, url.QueryEscape(a.file("ca.pem"))))
	}
	everywhere := func(args ...any) {
		for _, admin := range admins {
			require.NoError(t, admin.Do(t.Context(), args...).Err())
		}
	}
	everywhere(acl(t, "first", "1")...)
	locks := newClient(t, redlockgoredis.Pools(clients...))
	lock := func(c *redlock.Client) {
		t.Helper()
		require.NoError(t, c.Mutex("job").Do(within(t, 2*soon), func(context.Context, *redlock.Lease) error { return nil }))
	}
	connects := func() (n uint64) {
		for _, s := range locks.Stats().Nodes {
			require.Equal(t, "up", s.State, "%v", s.Err)
			n += s.Connects
		}
		return n
	}
	lock(locks)
	require.True(t, eventually(soon, func() bool {
		return !slices.ContainsFunc(locks.Stats().Nodes, func(n redlock.NodeStats) bool { return n.State != "up" })
	}), "not all nodes are up")

	everywhere(acl(t, "second", "2")...)
	provider.set("second", "2")
	lock(locks)
	require.True(t, eventually(soon, func() bool {
		return !slices.ContainsFunc(admins, func(a *goredis.Client) bool { return strings.Contains(a.ClientList(t.Context()).Val(), "user=first") })
	}), "a connection has not logged in again")
	everywhere("ACL", "DELUSER", "first") // which closes the connections of this user
	lock(locks)
	require.EqualValues(t, 3, connects(), "over the connections that have logged in again")

	everywhere("CLIENT", "KILL", "USER", "second")
	lock(locks)

	lock(openClient(t, urls))
}

// acl returns the command that makes a user with the rights in the docs.
func acl(t *testing.T, user, password string) []any {
	return append([]any{"ACL", "SETUSER", user, "reset", "on", ">" + password}, rightsInTheDocs(t)[3:]...)
}
