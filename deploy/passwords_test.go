package deploy_test

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/gomodule/redigo/redis"
	"github.com/stretchr/testify/require"
	corev1 "k8s.io/api/core/v1"

	"github.com/redlock-go/redlock"
	"github.com/redlock-go/redlock/internal/test/testclient"
)

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
