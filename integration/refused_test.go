package integration

import (
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"github.com/gomodule/redigo/redis"
	"github.com/stretchr/testify/require"

	"github.com/redlock-go/redlock"
	"github.com/redlock-go/redlock/integration/cluster"
	"github.com/redlock-go/redlock/internal/test/testclient"
)

// startServer starts a server with settings of its own, and returns its port. It listens at all addresses of this machine.
func startServer(t *testing.T, args ...string) (port string) {
	program, err := exec.LookPath("redis-server")
	if err != nil {
		t.Skip("no redis-server on the PATH")
	}
	free, err := cluster.FreePort()
	require.NoError(t, err)
	port = strconv.Itoa(free)
	dir := t.TempDir()
	file := filepath.Join(dir, "server.conf")
	require.NoError(t, os.WriteFile(file, []byte("dir "+dir+"\nport "+port+"\nbind * -::*\n"), 0o600))
	server := exec.Command(program, append([]string{file}, args...)...)
	server.Stdout, server.Stderr = t.Output(), t.Output()
	require.NoError(t, server.Start())
	t.Cleanup(func() {
		_ = server.Process.Kill()
		_ = server.Wait() // it was killed
	})
	require.True(t, eventually(soon, func() bool {
		socket, err := net.Dial("tcp", "127.0.0.1:"+port)
		if err == nil {
			_ = socket.Close()
		}
		return err == nil
	}), "port %s does not answer", port)
	return port
}

// ownAddress returns an address of this machine that servers do not take for a local one.
func ownAddress(t *testing.T) string {
	all, err := net.InterfaceAddrs()
	require.NoError(t, err)
	for _, a := range all {
		if own, is := a.(*net.IPNet); is && own.IP.To4() != nil && !own.IP.IsLoopback() {
			return own.IP.String()
		}
	}
	t.Skip("this machine has no address but loopback")
	return ""
}

// A server that does not want a connection, or is none for locks, is named with what it said, and
// with the remedy: for the client's own connections and for those of redigo.
func TestServersThatRefuseAConnectionAreNamed(t *testing.T) {
	t.Parallel()
	for _, c := range []struct {
		name, why, code string
		plant           func(t *testing.T) (url string)
	}{
		{"protected mode", "the server is in protected mode", "protected-mode", func(t *testing.T) string {
			return "redis://" + ownAddress(t) + ":" + startServer(t, "--protected-mode", "yes")
		}},
		{"no room", "raise maxclients", "max-clients", func(t *testing.T) string {
			addr := "127.0.0.1:" + startServer(t, "--maxclients", "1")
			require.True(t, eventually(soon, func() bool {
				conn, err := redis.Dial("tcp", addr)
				if err == nil {
					_, err = conn.Do("PING")
				}
				if err == nil {
					t.Cleanup(func() { _ = conn.Close() })
				} else if conn != nil {
					_ = conn.Close()
				}
				return err == nil
			}), "the only connection")
			return "redis://" + addr
		}},
		{"a sentinel", "it is a sentinel", "sentinel", func(t *testing.T) string {
			return "redis://127.0.0.1:" + startServer(t, "--sentinel")
		}},
		{"TLS at a plain port", "does it speak TLS", "tls", func(t *testing.T) string {
			return "rediss://127.0.0.1:" + startServer(t)
		}},
		{"no TLS at a port with it", "does it speak TLS?", "no-redis", func(t *testing.T) string {
			return "redis://" + newAuthority(t).startTLS(t)
		}},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			url := c.plant(t)
			clients := map[string]*redlock.Client{"Open": openUnready(t, []string{url}, shortTimeout())}
			if address, plain := strings.CutPrefix(url, "redis://"); plain {
				clients["redigo"] = testclient.NewUnready(t, barePools(1, address), shortTimeout())
			}
			for kind, client := range clients {
				require.True(t, eventually(soon, func() bool {
					err := client.Stats().Nodes[0].Err
					return err != nil && strings.Contains(err.Error(), c.why)
				}), "%s: %v", kind, client.Stats().Nodes[0].Err)
			}
			found := doctor(t, []string{url})
			require.Len(t, found.nodesWith("danger", c.code), 1, "%+v", found)
			require.Equal(t, 1, found.code)
		})
	}
}
