package contract

import (
	"context"
	"crypto/ed25519"
	"crypto/rand"
	"crypto/tls"
	"io"
	"net"
	"strconv"
	"sync"
	"testing"

	goredis "github.com/redis/go-redis/v9"
	"github.com/redis/rueidis"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"golang.org/x/crypto/ssh"

	"github.com/redlock-go/redlock"
	"github.com/redlock-go/redlock/adapters/redlockgoredis"
	"github.com/redlock-go/redlock/adapters/redlockrueidis"
	"github.com/redlock-go/redlock/internal/test/testclient"
)

// openOverSSH opens a client whose connections are channels of an SSH connection: setting a deadline fails there. Its pools are those of
// three kinds of clients.
func openOverSSH(t testing.TB, servers []address, opts ...redlock.ClientOption) *redlock.Client {
	t.Helper()
	tunnel := dialSSH(t)
	pools := make([]redlock.Pool, len(servers))
	for i, s := range servers {
		switch i % 3 {
		case 0:
			dial := func(ctx context.Context) (net.Conn, error) { return tunnel.DialContext(ctx, "tcp", s.host) }
			pools[i] = redlock.DialPool(dial, redlock.DialConfig{Addr: s.host,
				Credentials: func(context.Context) (string, string, error) { return s.user, s.password, nil }})
		case 1:
			client := goredis.NewClient(&goredis.Options{Addr: s.host, Username: s.user, Password: s.password, Dialer: tunnel.DialContext})
			t.Cleanup(func() { assert.NoError(t, client.Close()) })
			pools[i] = redlockgoredis.Pools(client)[0]
		default:
			pool, err := redlockrueidis.Pool(rueidis.ClientOption{InitAddress: []string{s.host}, Username: s.user, Password: s.password,
				DialCtxFn: func(ctx context.Context, addr string, _ *net.Dialer, _ *tls.Config) (net.Conn, error) {
					return tunnel.DialContext(ctx, "tcp", addr)
				}})
			require.NoError(t, err)
			pools[i] = pool
		}
	}
	return testclient.NewUnready(t, pools, opts...)
}

// dialSSH starts an SSH server that forwards connections, and connects to it. Both end with the test.
func dialSSH(t testing.TB) *ssh.Client {
	t.Helper()
	_, key, err := ed25519.GenerateKey(rand.Reader)
	require.NoError(t, err)
	signer, err := ssh.NewSignerFromKey(key)
	require.NoError(t, err)
	config := &ssh.ServerConfig{NoClientAuth: true}
	config.AddHostKey(signer)
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	require.NoError(t, err)
	var serving sync.WaitGroup
	serving.Go(func() {
		if far, err := listener.Accept(); err == nil {
			serveSSH(far, config)
		}
	})
	near, err := net.Dial("tcp", listener.Addr().String())
	require.NoError(t, err)
	conn, channels, requests, err := ssh.NewClientConn(near, "test", &ssh.ClientConfig{HostKeyCallback: ssh.FixedHostKey(signer.PublicKey())})
	require.NoError(t, err)
	client := ssh.NewClient(conn, channels, requests)
	t.Cleanup(func() {
		_ = client.Close()
		_ = listener.Close()
		serving.Wait()
	})
	return client
}

// serveSSH serves one SSH connection until it ends.
func serveSSH(socket net.Conn, config *ssh.ServerConfig) {
	conn, channels, requests, err := ssh.NewServerConn(socket, config)
	if err != nil {
		return
	}
	go ssh.DiscardRequests(requests) // ends with the connection
	var forwarding sync.WaitGroup
	for asked := range channels {
		forwarding.Go(func() { forward(asked) })
	}
	_ = conn.Close()
	forwarding.Wait()
}

// forward connects a channel with the address that it is for, until one of the two ends.
func forward(asked ssh.NewChannel) {
	var to struct {
		Host       string
		Port       uint32
		Originator string
		OriginPort uint32
	}
	if err := ssh.Unmarshal(asked.ExtraData(), &to); err != nil || asked.ChannelType() != "direct-tcpip" {
		_ = asked.Reject(ssh.UnknownChannelType, "it forwards TCP alone")
		return
	}
	socket, err := net.Dial("tcp", net.JoinHostPort(to.Host, strconv.Itoa(int(to.Port))))
	if err != nil {
		_ = asked.Reject(ssh.ConnectionFailed, err.Error())
		return
	}
	channel, requests, err := asked.Accept()
	if err != nil {
		_ = socket.Close()
		return
	}
	go ssh.DiscardRequests(requests) // ends with the channel
	var copying sync.WaitGroup
	closeBoth := func() { _ = socket.Close(); _ = channel.Close() }
	copying.Go(func() { defer closeBoth(); _, _ = io.Copy(socket, channel) })
	copying.Go(func() { defer closeBoth(); _, _ = io.Copy(channel, socket) })
	copying.Wait()
}
