package docs_test

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/redlock-go/redlock/internal/test/long"
)

const (
	tutorial         = "docs/tutorial.md"
	maxTutorialLines = 270
	tutorialSteps    = 10

	// outputLimit bounds the wait for an output. It is long for slow machines; the page's promises take some seconds.
	outputLimit = time.Minute
)

// step is a numbered section of the tutorial: at most one program, one command, and the output that the page shows.
type step struct{ file, program, command, output string }

var (
	stepHeading = regexp.MustCompile(`(?m)^## (\d+)\. .*$`)
	savedAs     = regexp.MustCompile("(?s)Save (?:it|this) as `([^`]+)`:\n```go\n(.*?)```")
	gap         = "…"
)

func TestTheTutorialIsShort(t *testing.T) {
	text := read(t, tutorial)
	assert.LessOrEqual(t, strings.Count(text, "\n"), maxTutorialLines)
	assert.Contains(t, text[:1000], "At the end you have")
	assert.Contains(t, text[:1000], "You need Go 1.25")
	readSteps(t)
}

// readSteps returns the tutorial's steps: the first one has the index 1.
func readSteps(t *testing.T) []step {
	t.Helper()
	text := read(t, tutorial)
	headings, bodies := stepHeading.FindAllStringSubmatch(text, -1), stepHeading.Split(text, -1)
	require.Len(t, headings, tutorialSteps)
	steps := make([]step, len(bodies))
	for i, body := range bodies[1:] {
		s := &steps[i+1]
		require.Equal(t, headings[i][1], fmt.Sprint(i+1), "the steps are in order")
		if m := savedAs.FindStringSubmatch(body); m != nil {
			s.file, s.program = m[1], m[2]
		}
		for _, block := range fence.FindAllStringSubmatch(body, -1) {
			switch part := strings.TrimSpace(block[2]); block[1] {
			case "sh":
				require.Empty(t, s.command, "a step has one command: %s", part)
				s.command = part
			case "":
				require.Empty(t, s.output, "a step has one output: %s", part)
				s.output = part + "\n"
			default:
				require.Equal(t, strings.TrimSpace(s.program), part, "the page says where to save a program")
			}
		}
		require.NotEmpty(t, s.command, headings[i][0])
	}
	return steps
}

// TestTheTutorialDoesWhatItSays follows the page: it saves the programs, runs the commands, and compares what they
// print. The ports are others, the module comes from this tree, and go run is done in two steps, so that a signal
// reaches the program.
func TestTheTutorialDoesWhatItSays(t *testing.T) {
	if !long.Tests() {
		t.Skip("make test runs it")
	}
	for _, program := range []string{"redis-server", "redis-cli"} {
		if _, err := exec.LookPath(program); err != nil {
			t.Skip("no " + program + " on the PATH")
		}
	}
	r := newReader(t)
	r.makeModule(1)
	r.run(2)
	r.run(3)

	first := r.start(4)
	first.shows(r.steps[4].output)
	first.renews()
	r.run(5)
	first.forget()
	r.command(6)
	first.shows(r.steps[6].output)
	first.forget()
	r.command(7)
	first.ends(r.steps[7].output)

	again := r.start(8)
	again.shows(strings.TrimSuffix(r.steps[8].output, "ended: …\n"))
	require.Greater(t, again.token(), first.token(), "a later lease has a greater token")
	require.NoError(t, again.process.Signal(syscall.SIGINT))
	again.ends(r.steps[8].output)

	r.run(9)
	r.command(10)
}

// reader is a person who follows the tutorial.
type reader struct {
	t      *testing.T
	steps  []step
	parent string // where the folder is made
	ports  *strings.Replacer
}

func newReader(t *testing.T) *reader {
	var pairs []string
	for i, port := range freePorts(t, len(readmePorts)) {
		pairs = append(pairs, readmePorts[i], port)
		t.Cleanup(func() { shutDown(t, port) })
	}
	return &reader{t, readSteps(t), t.TempDir(), strings.NewReplacer(pairs...)}
}

func (r *reader) dir() string { return filepath.Join(r.parent, "tutorial") }

// shell runs a command line, and returns what it prints.
func (r *reader) shell(dir, line string) string {
	r.t.Helper()
	// A newcomer's Go has no settings. It downloads modules and their sums; here both come from the cache.
	return shell(r.t, "export GOPROXY=off GONOSUMDB='*' GOFLAGS=; cd '"+dir+"' && "+line)
}

// command runs the command of a step.
func (r *reader) command(n int) string {
	r.t.Helper()
	return r.shell(r.dir(), r.ports.Replace(r.steps[n].command))
}

// save saves the program of a step.
func (r *reader) save(n int) {
	r.t.Helper()
	s := r.steps[n]
	if s.file == "" {
		return
	}
	file := filepath.Join(r.dir(), filepath.FromSlash(s.file))
	require.NoError(r.t, os.MkdirAll(filepath.Dir(file), 0o700))
	require.NoError(r.t, os.WriteFile(file, []byte(r.ports.Replace(s.program)), 0o600))
}

// makeModule does the first step, with this tree in place of the published module.
func (r *reader) makeModule(n int) {
	r.t.Helper()
	const library = "github.com/redlock-go/redlock"
	tree, err := filepath.Abs(root)
	require.NoError(r.t, err)
	initialize, get, found := strings.Cut(r.steps[n].command, " && go get ")
	require.True(r.t, found)
	get, branch, _ := strings.Cut(get, "@")
	require.Equal(r.t, "main", branch)
	replace := "go mod edit -require=" + library + "@v0.0.0 -replace=" + library + "='" + tree + "'"
	printed := r.shell(r.parent, initialize+" && "+replace+" && GOFLAGS=-mod=mod go get "+get)
	require.Regexp(r.t, pattern(r.steps[n].output, true), printed)
}

// run does a step whose command ends by itself.
func (r *reader) run(n int) {
	r.t.Helper()
	r.save(n)
	printed := r.command(n)
	require.Regexp(r.t, pattern(r.ports.Replace(r.steps[n].output), true), printed, "step %d", n)
	requireSameTokens(r.t, r.steps[n].output, printed)
}

// start begins a step whose command goes on.
func (r *reader) start(n int) *terminal {
	r.t.Helper()
	r.save(n)
	before, arguments, found := strings.Cut(r.steps[n].command, "go run . ")
	require.True(r.t, found)
	r.shell(r.dir(), r.ports.Replace(before)+"go build -o worker .")
	term := &terminal{t: r.t, ports: r.ports, done: make(chan struct{})}
	command := exec.CommandContext(r.t.Context(), filepath.Join(r.dir(), "worker"), strings.Fields(arguments)...)
	command.Stdout, command.Stderr = term, term
	require.NoError(r.t, command.Start())
	term.process = command.Process
	go func() { defer close(term.done); _ = command.Wait() }()
	r.t.Cleanup(func() { _ = command.Process.Kill(); <-term.done })
	return term
}

// terminal is what a program prints that goes on meanwhile.
type terminal struct {
	t       *testing.T
	ports   *strings.Replacer
	process *os.Process
	done    chan struct{}

	mu     sync.Mutex // guards the rest
	text   string
	offset int // the text before was compared
}

func (term *terminal) Write(p []byte) (int, error) {
	term.mu.Lock()
	defer term.mu.Unlock()
	term.text += string(p)
	return len(p), nil
}

// screen returns the text since forget, in whole lines.
func (term *terminal) screen() string {
	term.mu.Lock()
	defer term.mu.Unlock()
	return term.text[term.offset:max(term.offset, strings.LastIndex(term.text, "\n")+1)]
}

// forget lets the next comparison begin with the text that comes.
func (term *terminal) forget() {
	term.t.Helper()
	shown := len(term.screen())
	term.mu.Lock()
	defer term.mu.Unlock()
	term.offset += shown
}

// shows waits until the program has printed an output of the page.
func (term *terminal) shows(output string) {
	term.t.Helper()
	expected := regexp.MustCompile(pattern(term.ports.Replace(output), false))
	require.Eventually(term.t, func() bool { return expected.MatchString(term.screen()) }, outputLimit, 20*time.Millisecond,
		"the page has\n%s\nand the program printed\n%s", output, shownLater{term})
	requireSameTokens(term.t, output, term.screen())
}

// shownLater prints the screen when a message is made, not when it is asked for.
type shownLater struct{ *terminal }

func (s shownLater) String() string { return s.screen() }

// ends waits until the program has ended, and compares what it has printed. The log of the lease's end may come behind
// the last line of the page.
func (term *terminal) ends(output string) {
	term.t.Helper()
	select {
	case <-term.done:
	case <-time.After(outputLimit):
		term.t.Fatalf("the program goes on:\n%s", term.screen())
	}
	require.Regexp(term.t, pattern(term.ports.Replace(output), false), term.screen())
	requireSameTokens(term.t, output, term.screen())
}

var (
	timeLeft = regexp.MustCompile(`valid for another ([\d.]+) s`)
	tokens   = regexp.MustCompile(`token (\d+)|(\d+) was seen`)
)

// renews waits until a line has more time left than the line before.
func (term *terminal) renews() {
	term.t.Helper()
	require.Eventually(term.t, func() bool {
		last := "9"
		for _, m := range timeLeft.FindAllStringSubmatch(term.screen(), -1) {
			if m[1] > last { // both have one digit before the point
				return true
			}
			last = m[1]
		}
		return false
	}, outputLimit, 20*time.Millisecond, "the lease was not renewed:\n%s", shownLater{term})
}

func (term *terminal) token() string {
	m := tokens.FindStringSubmatch(term.screen())
	require.NotNil(term.t, m)
	return m[1]
}

// masks are the parts of an output that differ from run to run.
var masks = regexp.MustCompile(`\d{4}/\d\d/\d\d \d\d:\d\d:\d\d|token \d+|\d+ was seen|another [\d.]+ s|\t[\d.]+s$`)

// pattern returns the expression for an output of the page. A line that is a gap stands for any lines, and a gap in a
// line for any text. What follows the output counts only where it is whole.
func pattern(output string, whole bool) string {
	var expression strings.Builder
	expression.WriteString(`^`)
	for line := range strings.Lines(output) {
		line = strings.TrimSuffix(line, "\n")
		if line == gap {
			expression.WriteString(`(?:.*\n)*?`)
			continue
		}
		for i, part := range strings.Split(line, gap) {
			if i > 0 {
				expression.WriteString(`.*`)
			}
			last := 0
			for _, at := range masks.FindAllStringIndex(part, -1) {
				expression.WriteString(regexp.QuoteMeta(part[last:at[0]]))
				expression.WriteString(regexp.MustCompile(`\d+`).ReplaceAllString(regexp.QuoteMeta(part[at[0]:at[1]]), `\d+`))
				last = at[1]
			}
			expression.WriteString(regexp.QuoteMeta(part[last:]))
		}
		expression.WriteString(`\n`)
	}
	if whole {
		expression.WriteString(`$`)
	}
	return expression.String()
}

// requireSameTokens compares which tokens of an output are the same: the page's are 1, 3 and 1, and the program may
// print 1, 2 and 1.
func requireSameTokens(t *testing.T, output, printed string) {
	t.Helper()
	if page := numberTokens(output); page != nil {
		require.Equal(t, page, numberTokens(printed), "the page has\n%s\nand the program printed\n%s", output, printed)
	}
}

// numberTokens returns the tokens in a text, each as the number of its first occurrence. One that is repeated at once
// counts once.
func numberTokens(text string) (numbers []int) {
	first := map[string]int{}
	for _, m := range tokens.FindAllStringSubmatch(text, -1) {
		token := m[1] + m[2]
		if _, known := first[token]; !known {
			first[token] = len(first)
		}
		if n := first[token]; len(numbers) == 0 || numbers[len(numbers)-1] != n {
			numbers = append(numbers, n)
		}
	}
	return numbers
}
