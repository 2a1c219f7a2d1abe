package deploy_test

import (
	"context"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/gomodule/redigo/redis"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"

	"github.com/redlock-go/redlock"
	"github.com/redlock-go/redlock/integration/cluster"
	"github.com/redlock-go/redlock/internal/test/testclient"
)

// probes are the commands by which the compose file and the manifests judge a master.
type probes struct {
	healthy, ready, alive []string
}

func readProbes(t *testing.T) probes {
	t.Helper()
	test := loadProject(t).Services["master-1"].HealthCheck.Test
	require.Equal(t, "CMD-SHELL", test[0])
	container := object[*appsv1.StatefulSet](t, readManifests(t), "StatefulSet "+app).Spec.Template.Spec.Containers[0]
	return probes{[]string{"sh", "-c", test[1]}, container.ReadinessProbe.Exec.Command, container.LivenessProbe.Exec.Command}
}

// requireVerdict runs the probes at a server as in its own container, where redis-cli needs no port.
func (p probes) requireVerdict(t *testing.T, address string, ready, alive bool) {
	t.Helper()
	program, err := exec.LookPath("redis-cli")
	require.NoError(t, err)
	_, port, err := net.SplitHostPort(address)
	require.NoError(t, err)
	dir := t.TempDir()
	require.NoError(t, os.WriteFile(filepath.Join(dir, "redis-cli"), fmt.Appendf(nil, "#!/bin/sh\nexec %s -p %s \"$@\"\n", program, port), 0o700))
	succeeds := func(command []string) bool {
		ctx, cancel := context.WithTimeout(t.Context(), 5*time.Second) // as timeoutSeconds bounds it
		defer cancel()
		cmd := exec.CommandContext(ctx, "env", append([]string{"PATH=" + dir + ":" + os.Getenv("PATH")}, command...)...)
		cmd.WaitDelay = time.Second
		return cmd.Run() == nil
	}
	assert.Equal(t, ready, succeeds(p.healthy), "the healthcheck of compose.yaml")
	assert.Equal(t, ready, succeeds(p.ready), "the readiness probe")
	assert.Equal(t, alive, succeeds(p.alive), "the liveness probe")
}

// administrator connects to a server as a user that the test adds.
func administrator(t *testing.T, address string) func(command string, args ...any) any {
	t.Helper()
	conn, err := redis.Dial("tcp", address, redis.DialUsername("test"), redis.DialPassword("test"))
	require.NoError(t, err)
	t.Cleanup(func() { _ = conn.Close() })
	return func(command string, args ...any) any {
		t.Helper()
		reply, err := conn.Do(command, args...)
		require.NoError(t, err)
		return reply
	}
}

// redis-cli exits with 0 whatever the server answers. A master that answers with an error is alive, and not ready.
func TestProbesFailAtAMasterThatRefuses(t *testing.T) {
	program, err := exec.LookPath("redis-server")
	if err != nil {
		t.Skip("redis-server is not installed")
	}
	if _, err := exec.LookPath("redis-cli"); err != nil {
		t.Skip("redis-cli is not installed (Debian: apt-get install redis-tools)")
	}
	all := readProbes(t)
	conf := object[*corev1.ConfigMap](t, readManifests(t), "ConfigMap "+app).Data["redis.conf"]
	type ask = func(command string, args ...any) any
	for name, refuse := range map[string]func(t *testing.T, address, dir string, do ask){
		"OOM":        func(_ *testing.T, _, _ string, do ask) { do("CONFIG", "SET", "maxmemory", 1) },
		"NOREPLICAS": func(_ *testing.T, _, _ string, do ask) { do("CONFIG", "SET", "min-replicas-to-write", 1) },
		"READONLY":   func(_ *testing.T, _, _ string, do ask) { do("REPLICAOF", "127.0.0.1", 1) },
		"NOAUTH":     func(_ *testing.T, _, _ string, do ask) { do("ACL", "SETUSER", "default", "resetpass", ">secret") },
		"NOPERM":     func(_ *testing.T, _, _ string, do ask) { do("ACL", "SETUSER", "default", "-incr") },
		"MISCONF": func(t *testing.T, _, dir string, do ask) {
			require.NoError(t, os.MkdirAll(filepath.Join(dir, "dump.rdb", "in the way"), 0o700))
			do("CONFIG", "SET", "save", "3600 1")
			do("BGSAVE")
			require.Eventually(t, func() bool {
				info, err := redis.String(do("INFO", "persistence"), nil)
				return err == nil && strings.Contains(info, "rdb_last_bgsave_status:err")
			}, await, 10*time.Millisecond)
		},
		"BUSY": func(t *testing.T, address, _ string, do ask) {
			do("CONFIG", "SET", "lua-time-limit", 1)
			other, err := redis.Dial("tcp", address, redis.DialUsername("test"), redis.DialPassword("test"))
			require.NoError(t, err)
			require.NoError(t, other.Send("EVAL", "while true do end", 0))
			require.NoError(t, other.Flush())
			t.Cleanup(func() { do("SCRIPT", "KILL"); _ = other.Close() })
			time.Sleep(100 * time.Millisecond)
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			address, dir := startMaster(t, program, conf, mastersUsers(t)+"\nuser test on >test ~* &* +@all\n")
			do := administrator(t, address)
			all.requireVerdict(t, address, true, true)
			refuse(t, address, dir, do)
			all.requireVerdict(t, address, false, true)
		})
	}
}

func TestProbesFailAtAMasterThatLoadsOrIsFrozen(t *testing.T) {
	if _, err := exec.LookPath("redis-cli"); err != nil {
		t.Skip("redis-cli is not installed (Debian: apt-get install redis-tools)")
	}
	if _, err := cluster.Kinds(); err != nil {
		t.Skip(err)
	}
	all := readProbes(t)
	nodes := cluster.Use(t, 2)
	nodes[0].RestartLoading(t, 30*time.Second)
	all.requireVerdict(t, nodes[0].Addr(), false, true)
	nodes[0].FinishLoading(t)
	all.requireVerdict(t, nodes[0].Addr(), true, true)
	nodes[1].Freeze(t)
	all.requireVerdict(t, nodes[1].Addr(), false, false)
}

// The steps of docs/passwords.md in Kubernetes, where the kubelet changes the files: a client never loses its lock.
func TestThePasswordOfTheManifestsIsChanged(t *testing.T) {
	program, err := exec.LookPath("redis-server")
	if err != nil {
		t.Skip("redis-server is not installed")
	}
	conf := object[*corev1.ConfigMap](t, readManifests(t), "ConfigMap "+app).Data["redis.conf"]
	file := filepath.Join(t.TempDir(), "password")
	replace := func(path, text string) {
		t.Helper()
		require.NoError(t, os.WriteFile(path+".new", []byte(text), 0o600))
		require.NoError(t, os.Rename(path+".new", path))
	}
	replace(file, "change-me")
	users := mastersUsers(t)
	var addresses, urls, files []string
	for range 3 {
		address, dir := startMaster(t, program, conf, users)
		addresses, files = append(addresses, address), append(files, filepath.Join(dir, "users.acl"))
		urls = append(urls, "redis://locks@"+address+"?passwordfile="+file)
	}
	client := testclient.OpenUnready(t, urls)
	require.NoError(t, client.WaitReady(t.Context()))
	lease, err := client.Mutex("long").Lock(t.Context())
	require.NoError(t, err)

	// load changes the users at each master, one after the other, and waits until the client is back there.
	load := func(passwords string) {
		t.Helper()
		for i, address := range addresses {
			before := client.Stats().Nodes[i].Connects
			replace(files[i], strings.Replace(users, ">change-me ", passwords, 1))
			rotate := exec.Command("redis-cli", "-u", "redis://"+address, "--user", "rotate", "--pass", "change-me-too", "ACL", "LOAD")
			out, err := rotate.CombinedOutput()
			require.NoError(t, err)
			require.Contains(t, string(out), "OK")
			require.Eventually(t, func() bool {
				s := client.Stats().Nodes[i]
				return s.State == "up" && s.Connects > before
			}, await, 10*time.Millisecond, "%s", address)
		}
	}
	load(">change-me >new-secret ")
	replace(file, "new-secret")
	load(">new-secret ")
	require.NoError(t, lease.Extend(t.Context()))
	old := []string{}
	for _, address := range addresses {
		old = append(old, "redis://locks:change-me@"+address)
	}
	_, err = testclient.OpenUnready(t, old).Mutex("short").TryLock(t.Context())
	require.ErrorIs(t, err, redlock.ErrNoQuorum)
	require.ErrorContains(t, err, "WRONGPASS")
	requireOnlyLoads(t, addresses[0])
}

// requireOnlyLoads expects that the user rotate can do nothing else.
func requireOnlyLoads(t *testing.T, address string) {
	t.Helper()
	conn, err := redis.Dial("tcp", address, redis.DialUsername("rotate"), redis.DialPassword("change-me-too"))
	require.NoError(t, err)
	defer conn.Close()
	for _, command := range [][]any{{"ACL", "LIST"}, {"ACL", "SETUSER", "x"}, {"GET", "redlock:long"}, {"CONFIG", "GET", "*"}} {
		_, err := conn.Do(command[0].(string), command[1:]...)
		require.ErrorContains(t, err, "NOPERM", "%v", command)
	}
}

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
