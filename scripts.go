package redlock

import (
	"crypto/sha1" //nolint:gosec // the name by which Redis knows a script
	_ "embed"
	"encoding/hex"
)

// script is one Lua script. Its fields are boxed once, since every command
// that names it takes them as any.
type script struct {
	text any // string
	sha  any // string, as SCRIPT LOAD answers it
}

func newScript(text string) *script {
	sum := sha1.Sum([]byte(text))
	return &script{text: text, sha: hex.EncodeToString(sum[:])}
}

//go:embed scripts/acquire.lua
var acquireText string

//go:embed scripts/claim.lua
var claimText string

//go:embed scripts/raise.lua
var raiseText string

//go:embed scripts/probe.lua
var probeText string

//go:embed scripts/admit.lua
var admitText string

//go:embed scripts/renew.lua
var renewText string

//go:embed scripts/release.lua
var releaseText string

var (
	acquireScript = newScript(acquireText)
	renewScript   = newScript(renewText)
	releaseScript = newScript(releaseText)
	claimScript   = newScript(claimText)
	raiseScript   = newScript(raiseText)
	probeScript   = newScript(probeText)
	admitScript   = newScript(admitText)

	// allScripts are those that go by their hash, and are loaded by handshakes.
	allScripts = []*script{acquireScript, claimScript, raiseScript, renewScript, releaseScript}
)

var oneKey any = "1" // number of keys, as EVAL and EVALSHA take it

// bySHA are the arguments of EVALSHA for a script over one key.
func (s *script) bySHA(key any, args ...any) []any {
	all := make([]any, 0, 6) // on the hot path: one allocation
	return append(append(all, s.sha, oneKey, key), args...)
}

// byText are the arguments of EVAL, which never answers NOSCRIPT.
func (s *script) byText(key any, args ...any) []any {
	return append([]any{s.text, oneKey, key}, args...)
}
