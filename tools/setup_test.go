package tools

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// A machine of these tests has the programs of a folder and no others. Each is a shell script, and writes its words into
// the file calls.
type machine struct {
	dir string
	env []string
}

const (
	answers  = "exit 0"
	fails    = "exit 1"
	noImage  = `case "$1 $2" in "image inspect"|pull*) echo "no such host" >&2; exit 1;; esac`
	canPull  = `case "$1 $2" in "image inspect") exit 1;; pull*) echo "Pulling from library/redis";; esac`
	isSilent = `case "$1 $2" in "image inspect") exit 1;; pull*) exec sleep 60;; esac`
)

func newMachine(t *testing.T, programs map[string]string) *machine {
	m := &machine{dir: t.TempDir()}
	for _, name := range []string{"bash", "sh", "env", "sleep", "mktemp", "rm", "touch", "chmod"} {
		path, err := exec.LookPath(name)
		require.NoError(t, err)
		require.NoError(t, os.Symlink(path, filepath.Join(m.dir, name)))
	}
	for name, script := range programs {
		text := "#!/bin/sh\necho " + name + ` "$@" >>` + m.dir + "/calls\n" + script + "\n"
		require.NoError(t, os.WriteFile(filepath.Join(m.dir, name), []byte(text), 0o755))
	}
	m.env = []string{"PATH=" + m.dir, "TMPDIR=" + t.TempDir()}
	return m
}

func (m *machine) setUp(need ...string) (output string, err error) {
	cmd := exec.Command("./setup.sh", need...)
	cmd.Env = m.env
	text, err := cmd.CombinedOutput()
	return string(text), err
}

func (m *machine) calls() string {
	text, _ := os.ReadFile(filepath.Join(m.dir, "calls"))
	return string(text)
}

const (
	asRoot = "echo 0"
	asUser = "echo 1000"
)

func TestServersAreMadeReady(t *testing.T) {
	tests := []struct {
		name     string
		programs map[string]string
		env      string
		output   string // what it says; nothing if empty
		call     string // a call that it must make
		fails    bool
	}{
		{name: "named programs", env: "REDLOCK_TEST_SERVERS=/opt/redis-server"},
		{name: "the engine has the image", programs: map[string]string{"docker": answers}},
		{name: "the engine can pull it", programs: map[string]string{"docker": canPull}, call: "docker pull redis:7-alpine"},
		{name: "another image", programs: map[string]string{"docker": canPull}, env: "REDLOCK_TEST_IMAGE=valkey/valkey:9",
			call: "docker pull valkey/valkey:9"},
		{name: "the engine cannot pull the image that is named", programs: map[string]string{"docker": noImage, "redis-server": answers},
			env: "REDLOCK_TEST_IMAGE=valkey/valkey:9", output: "No engine here has or can pull the image valkey/valkey:9", fails: true},
		{name: "processes are asked for", programs: map[string]string{"docker": answers, "apk": answers, "id": asRoot},
			env: "REDLOCK_TEST_BACKEND=process", output: "Installing it: apk", call: "apk add -q redis"},
		{name: "the engine cannot pull, and a program is there", programs: map[string]string{"docker": noImage, "redis-server": answers}},
		{name: "the registry is silent, and a program is there", programs: map[string]string{"docker": isSilent, "redis-server": answers}},
		{name: "no engine answers, and a program is there", programs: map[string]string{"docker": fails, "redis-server": answers}},
		{name: "Debian, as root", programs: map[string]string{"docker": noImage, "apt-get": answers, "id": asRoot},
			output: "Installing it: env DEBIAN_FRONTEND=noninteractive apt-get install", call: "apt-get install -q -y --no-install-recommends redis-server"},
		{name: "Debian, with sudo", programs: map[string]string{"apt-get": answers, "id": asUser, "sudo": `[ "$1" = -n ] || exec "$@"`},
			output: "Installing it: sudo env", call: "apt-get install -q -y --no-install-recommends redis-server"},
		{name: "Debian, where sudo asks", programs: map[string]string{"apt-get": answers, "id": asUser, "sudo": fails},
			output: "To install it: sudo env DEBIAN_FRONTEND=noninteractive apt-get install", fails: true},
		{name: "Debian, without sudo", programs: map[string]string{"apt-get": answers, "id": asUser},
			output: "To install it: sudo env", fails: true},
		{name: "Fedora", programs: map[string]string{"dnf": answers, "id": asRoot}, output: "Installing it: dnf", call: "dnf install -q -y redis"},
		{name: "Alpine", programs: map[string]string{"apk": answers, "id": asRoot}, output: "Installing it: apk", call: "apk add -q redis"},
		{name: "macOS", programs: map[string]string{"brew": answers, "id": asUser}, output: "Installing it: brew", call: "brew install -q redis"},
		{name: "the installation fails", programs: map[string]string{"apk": fails, "id": asRoot}, output: "The command failed: apk add", fails: true},
		{name: "no engine, and no manager", output: "there is no redis-server. Install it", fails: true},
	}
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			m := newMachine(t, test.programs)
			m.env = append(m.env, test.env)
			output, err := m.setUp("servers")
			if test.fails {
				require.EqualError(t, err, "exit status 1", output)
			} else {
				require.NoError(t, err, output)
			}
			if test.output == "" {
				require.Empty(t, output)
			}
			require.Contains(t, output, test.output)
			require.Contains(t, m.calls(), test.call)
			if test.call == "" {
				require.NotContains(t, m.calls(), "install -")
			}
			require.LessOrEqual(t, strings.Count(m.calls(), "pull"), 1)
		})
	}
}

func TestMissingProgramsOfSkippedTestsAreNoError(t *testing.T) {
	output, err := newMachine(t, nil).setUp("prometheus", "chromium")
	require.NoError(t, err)
	require.Equal(t, 2, strings.Count(output, "skip without it"), output)
}

func TestUnknownNeedIsAnError(t *testing.T) {
	output, err := newMachine(t, nil).setUp("sevrers")
	require.EqualError(t, err, "exit status 2")
	require.Contains(t, output, `unknown need "sevrers"`)
}

func TestCompilerIsInstalled(t *testing.T) {
	m := newMachine(t, map[string]string{"apt-get": answers, "id": asRoot})
	output, err := m.setUp("compiler")
	require.NoError(t, err, output)
	require.Contains(t, m.calls(), "apt-get install -q -y --no-install-recommends gcc libc6-dev")
}
