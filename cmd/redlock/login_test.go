package main

import (
	"bytes"
	"os"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
)

func TestPasswordFileIsForURLsWithoutAPassword(t *testing.T) {
	dir := t.TempDir()
	require.NoError(t, os.WriteFile(filepath.Join(dir, "pass word"), []byte("hunter2\n"), 0o600))
	t.Chdir(dir)
	t.Setenv(passwordFileEnv, "pass word")
	urls, err := new(loginFlags).addTo([]string{"redis://me@a:1/2", "rediss://b?ca=ca.pem", "redis://me:own@c", "unix:///s?db=1&passwordfile=own"})
	require.NoError(t, err)
	assert.Equal(t, []string{
		"redis://me@a:1/2?passwordfile=pass+word", "rediss://b?ca=ca.pem&passwordfile=pass+word", "redis://me:own@c", "unix:///s?db=1&passwordfile=own",
	}, urls)
}

func TestToolRefusesAPasswordFileThatItCannotUse(t *testing.T) {
	dir := t.TempDir()
	file := filepath.Join(dir, "password")
	require.NoError(t, os.WriteFile(file, []byte("hunter2\nhunter3\n"), 0o600))
	for want, args := range map[string][]string{
		"--password-file: the password file: stat " + dir + "/none: no such file or directory": {"--nodes", "redis://me@a", "--password-file", dir + "/none"},
		file + " has several lines":                           {"--nodes", "redis://me@a", "--password-file", file},
		"URL 1 of 1 is bad: it has a user without a password": {"--nodes", "redis://me@a"},
	} {
		var out bytes.Buffer
		var log lockedBuffer
		assert.Equal(t, codeConfig, execute(append(args, "doctor"), &out, &log))
		assert.Contains(t, log.String(), want)
		assert.NotContains(t, log.String(), "hunter")
	}
	require.NoError(t, os.WriteFile(file, []byte("hunter2\n"), 0o600))
	var log lockedBuffer
	assert.Equal(t, codeConfig, execute([]string{"--nodes", "redis://me:own@a", "--password-file", file, "ls"}, new(bytes.Buffer), &log))
	assert.Contains(t, log.String(), "--password-file: no node takes it, since all URLs have a password of their own")
}
