package redlock

import (
	"crypto/sha1" //nolint:gosec // the name by which Redis knows a script
	_ "embed"
	"encoding/hex"
	"strings"
)

// script is one Lua script. Its fields are boxed once, since every command
// that names it takes them as any.
type script struct {
	text any // string
	sha  any // string, as SCRIPT LOAD answers it
}

// newScript makes a script of a file's text, with what it shares in the place of
// @line. Comments and indentation stay here.
func newScript(file string) *script {
	var lines []string
	for line := range strings.Lines(strings.Replace(file, "--@line\n", lineText, 1)) {
		if line = strings.TrimSpace(line); line != "" && !strings.HasPrefix(line, "--") {
			lines = append(lines, line)
		}
	}
	text := strings.Join(lines, "\n")
	sum := sha1.Sum([]byte(text))
	return &script{text: text, sha: hex.EncodeToString(sum[:])}
}

//go:embed scripts/acquire.lua
var acquireText string

//go:embed scripts/line.lua
var lineText string

//go:embed scripts/raise.lua
var raiseText string

//go:embed scripts/probe.lua
var probeText string

//go:embed scripts/admit.lua
var admitText string

//go:embed scripts/level.lua
var levelText string

//go:embed scripts/record.lua
var recordText string

//go:embed scripts/inspect.lua
var inspectText string

//go:embed scripts/seize.lua
var seizeText string

//go:embed scripts/renew.lua
var renewText string

//go:embed scripts/release.lua
var releaseText string

var (
	acquireScript = newScript(acquireText)
	renewScript   = newScript(renewText)
	releaseScript = newScript(releaseText)
	raiseScript   = newScript(raiseText)
	probeScript   = newScript(probeText)
	admitScript   = newScript(admitText)
	levelScript   = newScript(levelText)
	recordScript  = newScript(recordText)
	inspectScript = newScript(inspectText)
	seizeScript   = newScript(seizeText)

	// allScripts are those that go by their hash, and are loaded by handshakes.
	allScripts = []*script{acquireScript, raiseScript, renewScript, releaseScript}
)

var oneKey any = "1" // number of keys, as EVAL and EVALSHA take it

// bySHA are the arguments of EVALSHA for a script over one key.
func (s *script) bySHA(key any, args ...any) []any {
	all := make([]any, 0, 6) // on the hot path: one allocation
	return append(append(all, s.sha, oneKey, key), args...)
}

// leaving are the arguments of a release for who leaves the line too, if it has a
// ticket.
func leaving(args []any, ticket string) []any {
	if ticket == "" {
		return args
	}
	return append(args, ticket)
}

// byText are the arguments of EVAL, which never answers NOSCRIPT.
func (s *script) byText(key any, args ...any) []any {
	return append([]any{s.text, oneKey, key}, args...)
}
