package deploy_test

import (
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"github.com/redlock-go/redlock/integration/cluster"
)

// startMaster runs a server until the test ends, with a configuration and users of the manifests whose directories are
// the same one of this machine, which it returns.
func startMaster(t *testing.T, program, conf, users string) (address, dir string) {
	t.Helper()
	dir = t.TempDir()
	port, err := cluster.FreePort()
	require.NoError(t, err)
	conf = strings.NewReplacer("/data", dir, "/etc/redlock", dir).Replace(conf)
	require.NoError(t, os.WriteFile(filepath.Join(dir, "users.acl"), []byte(users), 0o600))
	file := filepath.Join(dir, "redis.conf")
	require.NoError(t, os.WriteFile(file, fmt.Appendf(nil, "%s\nbind 127.0.0.1\nport %d\n", conf, port), 0o600))
	log, err := os.Create(filepath.Join(dir, "log"))
	require.NoError(t, err)
	defer log.Close()
	cmd := exec.Command(program, file)
	cmd.Stdout, cmd.Stderr = log, log
	require.NoError(t, cmd.Start())
	t.Cleanup(func() {
		end(cmd)
		if t.Failed() {
			t.Logf("the log of the server:\n%s", readFile(t, log.Name()))
		}
	})
	address = fmt.Sprint("127.0.0.1:", port)
	require.Eventually(t, func() bool {
		conn, err := net.Dial("tcp", address)
		return err == nil && conn.Close() == nil
	}, await, 20*time.Millisecond)
	return address, dir
}
