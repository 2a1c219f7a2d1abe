package endpoint

import (
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"

	"github.com/alicebob/miniredis/v2"
	"github.com/stretchr/testify/require"
)

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
