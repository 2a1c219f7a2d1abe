package protocol

import (
	"crypto/sha1" //nolint:gosec // the name by which Redis knows a script
	_ "embed"
	"encoding/hex"
	"strings"
)

// Script is one Lua script. Its fields are boxed once, since every command that names it
// takes them as any.
type Script struct {
	Text any // string
	SHA  any // string, as SCRIPT LOAD answers it
}

// newScript makes a script of a file's text. It replaces the line "--@line" with the
// functions of line.lua, and leaves comments and indentation out.
func newScript(file string) *Script {
	var lines []string
	for line := range strings.Lines(strings.Replace(file, "--@line\n", lineText, 1)) {
		if line = strings.TrimSpace(line); line != "" && !strings.HasPrefix(line, "--") {
			lines = append(lines, line)
		}
	}
	text := strings.Join(lines, "\n")
	sum := sha1.Sum([]byte(text))
	return &Script{Text: text, SHA: hex.EncodeToString(sum[:])}
}

//go:embed acquire.lua
var acquireText string

//go:embed line.lua
var lineText string

//go:embed raise.lua
var raiseText string

//go:embed probe.lua
var probeText string

//go:embed admit.lua
var admitText string

//go:embed level.lua
var levelText string

//go:embed record.lua
var recordText string

//go:embed inspect.lua
var inspectText string

//go:embed seize.lua
var seizeText string

//go:embed renew.lua
var renewText string

//go:embed release.lua
var releaseText string

// The scripts. The head of each file has its keys, arguments and replies.
var (
	Acquire = newScript(acquireText)
	Renew   = newScript(renewText)
	Release = newScript(releaseText)
	Raise   = newScript(raiseText)
	Probe   = newScript(probeText)
	Admit   = newScript(admitText)
	Level   = newScript(levelText)
	Record  = newScript(recordText)
	Inspect = newScript(inspectText)
	Seize   = newScript(seizeText)
)

// Loaded are the scripts that are called by their hash. A client loads them when it
// connects.
var Loaded = []*Script{Acquire, Raise, Renew, Release}

// OneKey is the number of keys of a script over one key, as EVAL and EVALSHA take it.
var OneKey any = "1"

// BySHA returns the arguments of EVALSHA for a script over one key.
func (s *Script) BySHA(key any, args ...any) []any {
	all := make([]any, 0, 6) // on the hot path: one allocation
	return append(append(all, s.SHA, OneKey, key), args...)
}

// ByText returns the arguments of EVAL, which never answers NOSCRIPT.
func (s *Script) ByText(key any, args ...any) []any {
	return append([]any{s.Text, OneKey, key}, args...)
}

// WithTicket adds a waiter's ticket to the arguments of a release, so that the waiter
// leaves the wait queue as well. An empty ticket adds nothing.
func WithTicket(args []any, ticket string) []any {
	if ticket == "" {
		return args
	}
	return append(args, ticket)
}
