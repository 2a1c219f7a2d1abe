package protocol

import (
	"crypto/sha1" //nolint:gosec // the name by which Redis knows a script
	_ "embed"
	"encoding/hex"
	"regexp"
	"slices"
	"strings"
)

// Script is one Lua script. Its fields are boxed once, since every command that names it
// takes them as any.
type Script struct {
	Text any // string
	SHA  any // string, as SCRIPT LOAD answers it
}

// newScript makes a script of a file's text. It replaces a line like "--@line" with the
// part of that name, and leaves comments and indentation out.
func newScript(file string) *Script {
	for name, part := range map[string]string{"line": lineText, "ahead": aheadText, "refuse": refuseText, "shares": sharesText,
		"readers": readersText} {
		file = strings.Replace(file, "--@"+name+"\n", part, 1)
	}
	var lines []string
	for line := range strings.Lines(file) {
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

//go:embed ahead.lua
var aheadText string

//go:embed refuse.lua
var refuseText string

//go:embed shares.lua
var sharesText string

//go:embed readers.lua
var readersText string

//go:embed read.lua
var readText string

//go:embed keep.lua
var keepText string

//go:embed advance.lua
var advanceText string

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
	Read    = newScript(readText)
	Keep    = newScript(keepText)
	Advance = newScript(advanceText)
	Probe   = newScript(probeText)
	Admit   = newScript(admitText)
	Level   = newScript(levelText)
	Record  = newScript(recordText)
	Inspect = newScript(inspectText)
	Seize   = newScript(seizeText)
)

// Loaded are the scripts that are called by their hash. A client loads them when it
// connects.
var Loaded = []*Script{Acquire, Raise, Renew, Release, Read, Keep, Advance}

// others are the scripts that are sent as text.
var others = []*Script{Probe, Admit, Level, Record, Inspect, Seize}

var redisCall = regexp.MustCompile(`redis\.p?call\('(\w+)'`)

// CommandsAt returns the commands that a line of a script calls, in lower case. Lines count from
// 1. It returns nil if no script has this hash, or the line calls none.
func CommandsAt(sha string, line int) (commands []string) {
	for _, s := range slices.Concat(Loaded, others) {
		lines := strings.Split(s.Text.(string), "\n")
		if s.SHA != sha || line < 1 || line > len(lines) {
			continue
		}
		for _, call := range redisCall.FindAllStringSubmatch(lines[line-1], -1) {
			commands = append(commands, strings.ToLower(call[1]))
		}
	}
	return commands
}
