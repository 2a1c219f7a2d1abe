package redlockvalkey_test

import (
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestFilesAreMadeOfRedlockrueidis(t *testing.T) {
	dir := t.TempDir()
	out, err := exec.CommandContext(t.Context(), "sh", "generate.sh", dir).CombinedOutput()
	require.NoError(t, err, "%s", out)
	made, err := os.ReadDir(dir)
	require.NoError(t, err)
	require.Len(t, made, 2)
	for _, file := range made {
		want, err := os.ReadFile(filepath.Join(dir, file.Name()))
		require.NoError(t, err)
		got, err := os.ReadFile(file.Name())
		require.NoError(t, err)
		require.Equal(t, string(want), string(got), "%s is stale: run generate.sh", file.Name())
	}
}
