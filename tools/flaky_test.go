package tools

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// TestOnlyFailuresOfTestsAreTriedAgain builds gotestsum, as make does.
func TestOnlyFailuresOfTestsAreTriedAgain(t *testing.T) {
	build := exec.Command("go", "build", "-o", "out/", "gotest.tools/gotestsum")
	output, err := build.CombinedOutput()
	require.NoError(t, err, string(output))
	const once = `func Test(t *testing.T) {
	if _, err := os.Stat("seen"); err != nil {
		os.WriteFile("seen", nil, 0o600)
		fail(t)
	}
}`
	tests := []struct {
		name, body, says string
		flags            []string
		passes, flaky    bool
	}{
		{name: "passes the second time", body: once, passes: true, flaky: true, says: "FLAKY m.Test: it failed, and passed"},
		{name: "passes", body: "func Test(t *testing.T) {}", passes: true},
		{name: "fails twice", body: `func Test(t *testing.T) { t.Fatal("no") }`},
		{name: "panics once", body: "func init() { fail = func(*testing.T) { panic(1) } }\n" + once, says: "suspected panic"},
		{name: "has a data race once", flags: []string{"-race"}, says: "data race", body: `func init() {
	fail = func(*testing.T) { n, done := 0, make(chan int); go func() { n++; close(done) }(); n++; <-done }
}
` + once},
		{name: "fails outside of its tests", body: "func Test(t *testing.T) {}\nfunc TestMain(m *testing.M) { m.Run(); os.Exit(1) }"},
		{name: "fails outside of its tests, if one has run", says: "outside of its tests", body: `var ran bool
func Test(t *testing.T) { ran = true }
func TestMain(m *testing.M) { m.Run(); if ran { os.Exit(1) } }`},
		{name: "passes the second time, with a leak of another test", flaky: true, says: "fails without its FLAKY tests", body: once + `
func TestLeak(t *testing.T) { leaks = true }
var leaks bool
func TestMain(m *testing.M) { code := m.Run(); if code == 0 && leaks { code = 1 }; os.Exit(code) }`},
		{name: "does not build", body: "func Test(t *testing.T) { undefined() }"},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			dir := t.TempDir()
			text := "package m\nimport (\"os\"; \"testing\")\nvar _ = os.Args\nvar fail = func(t *testing.T) { t.Fatal(\"no\") }\n" + test.body
			require.NoError(t, os.WriteFile(filepath.Join(dir, "m_test.go"), []byte(text), 0o600))
			require.NoError(t, os.WriteFile(filepath.Join(dir, "go.mod"), []byte("module m\ngo 1.25\n"), 0o600))
			script, err := filepath.Abs("flaky.sh")
			require.NoError(t, err)
			cmd := exec.Command(script, append(test.flags, "./...")...)
			cmd.Dir = dir
			output, err := cmd.CombinedOutput()
			require.Equal(t, test.passes, err == nil, string(output))
			require.Contains(t, string(output), test.says)
			require.Equal(t, test.flaky, strings.Contains(string(output), "FLAKY m."), string(output))
		})
	}
}
