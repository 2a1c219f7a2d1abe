package tools

import (
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestPartsFailIfOneDoesNotPass(t *testing.T) {
	dir := t.TempDir()
	require.NoError(t, os.WriteFile(filepath.Join(dir, "Makefile"), []byte(`
good:
	@echo "what: all is well"; echo "servers: 3 of a kind"; echo "--- SKIP: TestX (0.00s)"; echo "    x_test.go:7: no browser"
bad:
	@echo "--- FAIL: TestY (0.00s)"; exit 1
flaky:
	@echo "=== Failed"; echo "the log of TestZ"; echo "FLAKY m.TestZ: it failed"
dies:
	@kill -9 $$PPID
`), 0o600))
	script, err := filepath.Abs("parts.sh")
	require.NoError(t, err)
	for _, test := range []struct {
		name, says string
		lanes      []string
		passes     bool
	}{
		{name: "all pass", lanes: []string{"good", "flaky"}, passes: true, says: "servers: 3 of a kind"},
		{name: "skipped tests are named", lanes: []string{"good"}, passes: true, says: "skipped:     x_test.go:7: no browser"},
		{name: "a flaky test is printed with its log", lanes: []string{"flaky good"}, passes: true, says: "the log of TestZ"},
		{name: "one fails", lanes: []string{"good bad", "flaky"}, says: "bad FAILED:"},
		{name: "one is killed", lanes: []string{"good", "dies flaky"}, says: "dies FAILED:"},
		{name: "one does not exist", lanes: []string{"godo"}, says: "godo FAILED:"},
	} {
		t.Run(test.name, func(t *testing.T) {
			cmd := exec.Command(script, append([]string{"a title"}, test.lanes...)...)
			cmd.Dir = dir
			output, err := cmd.CombinedOutput()
			require.Equal(t, test.passes, err == nil, string(output))
			require.Contains(t, string(output), test.says)
		})
	}
}
