package docs_test

import (
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/redlock-go/redlock/internal/test/long"
)

// check is a test of the commands with a prefix.
type check struct {
	prefix string
	try    func(t *testing.T, command string)
}

// checks are searched from the top. A command without a check fails.
var checks = []check{
	{"make demo", run},             // as it stands
	{"make ", plan},                // CI runs the targets themselves
	{"go run ./examples/", run},    // as it stands
	{"go mod init ", firstProgram}, // a newcomer's first three lines
	{"for port in ", firstProgram}, //
	{"go run .", firstProgram},     //
	{"go get ", func(*testing.T, string) {}},
	{"go test ", list},               // CI runs the tests; here: they and their flags exist
	{"redis-cli ", runByAnotherTest}, // at real servers
	{"redlock ", checkSubcommand},    // the tool's own tests run it
	{"git clone ", install},          // with this tree in place of the clone
	{"export REDLOCK_NODES=redis://", func(*testing.T, string) {}},
}

func TestEveryCommandInTheDocsIsRun(t *testing.T) {
	if !long.Tests() {
		t.Skip("make test runs it")
	}
	if _, err := exec.LookPath("make"); err != nil {
		t.Skip("no make on the PATH")
	}
	_, guides := pages(t)
	seen := map[string]bool{}
	for _, p := range guides {
		if p.path == tutorial {
			continue // TestTheTutorialDoesWhatItSays runs its commands, in their order
		}
		for _, command := range p.commands() {
			if seen[command] {
				continue
			}
			seen[command] = true
			t.Run(p.path+": "+command, func(t *testing.T) {
				for _, c := range checks {
					if strings.HasPrefix(command, c.prefix) || command == strings.TrimSpace(c.prefix) {
						c.try(t, command)
						return
					}
				}
				t.Error("no test runs this command: write one, and add it to checks")
			})
		}
	}
	assert.True(t, seen["make demo"], "the first command that a newcomer types")
}

// shell runs a command line in the repository, with embedded nodes.
func shell(t *testing.T, line string) string {
	t.Helper()
	command := exec.CommandContext(t.Context(), "sh", "-c", line)
	command.Dir = root
	command.Env = append(os.Environ(), "REDLOCK_NODES=")
	out, err := command.CombinedOutput()
	require.NoError(t, err, "%s\n%s", line, out)
	return string(out)
}

// run runs the command as a reader would. From the clone to the first lock takes less than
// two minutes, without downloads.
func run(t *testing.T, command string) {
	began := time.Now()
	assert.NotEmpty(t, shell(t, command))
	assert.Less(t, time.Since(began), 2*time.Minute)
}

// plan lets make find the targets and print their commands.
func plan(t *testing.T, command string) {
	assert.NotEmpty(t, shell(t, "make -n"+strings.TrimPrefix(command, "make")))
}

// list finds the tests, and parses the flags.
func list(t *testing.T, command string) {
	line := strings.Replace(strings.Replace(command, " -run ", " -list ", 1), " -v", "", 1)
	require.Contains(t, line, " -list ")
	assert.Regexp(t, regexp.MustCompile(`(?m)^(Test|Fuzz)`), shell(t, line))
}

func runByAnotherTest(t *testing.T, command string) {
	// That test reads the commands from the page.
	assert.Contains(t, read(t, "integration/operators_test.go"), "func TestEveryRedisCommandOfTheDocsWorks(")
	assert.Contains(t, read(t, "integration/passwords_test.go"), "func TestThePasswordIsChangedWhileClientsLock(")
	assert.Contains(t, read(t, "docs/operations.md")+read(t, "docs/passwords.md"), strings.Fields(command)[3])
}

// firstProgram finds the command among those that TestTheReadmesFirstProgramGetsALock runs.
func firstProgram(t *testing.T, command string) {
	assert.Contains(t, page{"README.md", read(t, "README.md")}.commands()[:3], command)
}

func checkSubcommand(t *testing.T, command string) {
	assert.Regexp(t, `^redlock (run|resume|observe|inspect|ls|top|watch|ask|doctor|members|unlock|bench|completion)\b`, command)
}

// install runs the commands that follow the clone.
func install(t *testing.T, command string) {
	clone, rest, _ := strings.Cut(command, " && ")
	require.Regexp(t, `^git clone https://\S+/redlock$`, clone)
	tree, err := filepath.Abs(root)
	require.NoError(t, err)
	dir := t.TempDir()
	require.NoError(t, os.Symlink(tree, filepath.Join(dir, "redlock")))
	shell(t, "cd '"+dir+"' && GOBIN='"+dir+"/bin' "+rest)
	assert.FileExists(t, filepath.Join(dir, "bin", "redlock"))
}
