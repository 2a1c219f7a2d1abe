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
	Name string
	Text any // string
	SHA  any // string, as SCRIPT LOAD answers it
}

// newScript makes a script of a file's text. It replaces a line like "--@line" with the
// part of that name, and leaves comments and indentation out. Of several marks of one name it replaces the
// first, and the others are comments: Rest has parts ahead of the text of release.lua, which marks them again.
func newScript(scriptName, file string) *Script {
	for name, part := range map[string]string{"lock": lockText, "slots": slotsText, "line": queueText + reserveText + joinText, "queue": queueText + joinText, "ahead": aheadText, "refuse": refuseText,
		"shares": sharesText, "readers": readersText, "several": severalText, "serve": serveText, "handover": handoverText,
		"foreign": foreignText, "wanted": wantedText, "awaited": awaitedText} {
		file = strings.Replace(file, "--@"+name+"\n", part, 1)
	}
	if strings.Contains(file, "valueOf(") {
		file = valueText + file
	}
	var lines []string
	for line := range strings.Lines(file) {
		if line = strings.TrimSpace(line); line != "" && !strings.HasPrefix(line, "--") {
			lines = append(lines, line)
		}
	}
	text := strings.Join(lines, "\n")
	sum := sha1.Sum([]byte(text))
	return &Script{Name: scriptName, Text: text, SHA: hex.EncodeToString(sum[:])}
}

//go:embed acquire.lua
var acquireText string

//go:embed value.lua
var valueText string

//go:embed lock.lua
var lockText string

//go:embed slots.lua
var slotsText string

//go:embed queue.lua
var queueText string

//go:embed reserve.lua
var reserveText string

//go:embed join.lua
var joinText string

//go:embed ahead.lua
var aheadText string

//go:embed refuse.lua
var refuseText string

//go:embed shares.lua
var sharesText string

//go:embed wanted.lua
var wantedText string

//go:embed foreign.lua
var foreignText string

//go:embed awaited.lua
var awaitedText string

//go:embed readers.lua
var readersText string

//go:embed several.lua
var severalText string

//go:embed handover.lua
var handoverText string

//go:embed read.lua
var readText string

//go:embed keep.lua
var keepText string

//go:embed advance.lua
var advanceText string

//go:embed acquireall.lua
var acquireAllText string

//go:embed renewall.lua
var renewAllText string

//go:embed raiseall.lua
var raiseAllText string

//go:embed releaseall.lua
var releaseAllText string

//go:embed serve.lua
var serveText string

//go:embed permit.lua
var permitText string

//go:embed giveback.lua
var giveBackText string

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

//go:embed ask.lua
var askText string

//go:embed inspect.lua
var inspectText string

//go:embed inspectslots.lua
var inspectSlotsText string

//go:embed wake.lua
var wakeText string

//go:embed seize.lua
var seizeText string

//go:embed handoff.lua
var handoffText string

//go:embed transfer.lua
var transferText string

//go:embed takeback.lua
var takeBackText string

//go:embed renew.lua
var renewText string

//go:embed release.lua
var releaseText string

//go:embed rest.lua
var restText string

// The scripts. The head of each file has its keys, arguments and replies.
var (
	Acquire    = newScript("acquire", acquireText)
	Renew      = newScript("renew", renewText)
	Release    = newScript("release", releaseText)
	Rest       = newScript("rest", strings.Replace(restText, "--@release\n", releaseText, 1))
	Raise      = newScript("raise", raiseText)
	Read       = newScript("read", readText)
	Keep       = newScript("keep", keepText)
	Advance    = newScript("advance", advanceText)
	AcquireAll = newScript("acquireall", acquireAllText)
	RenewAll   = newScript("renewall", renewAllText)
	RaiseAll   = newScript("raiseall", raiseAllText)
	ReleaseAll = newScript("releaseall", releaseAllText)
	Permit     = newScript("permit", permitText)
	GiveBack   = newScript("giveback", giveBackText)
	Probe      = newScript("probe", probeText)
	Admit      = newScript("admit", admitText)
	Level      = newScript("level", levelText)
	Record     = newScript("record", recordText)
	Inspect    = newScript("inspect", inspectText)
	Ask        = newScript("ask", askText)
	Seize      = newScript("seize", seizeText)
	Handoff    = newScript("handoff", handoffText)
	Transfer   = newScript("transfer", transferText)
	TakeBack   = newScript("takeback", takeBackText)

	InspectSlots = newScript("inspectslots", inspectSlotsText)
	Wake         = newScript("wake", wakeText)
)

// Families is a set of families of scripts. The scripts of a family are called by their hash, and loaded
// together: a client loads those that it needs, since a server's garbage collection slows each script
// down by the memory that all of them take.
type Families uint32

// The families.
const (
	ForMutexes Families = 1 << iota // every client needs them
	ForReaders
	ForSeveral
	ForPermits
	ForRests

	allFamilies Families = 1<<iota - 1
)

// Scripts returns the scripts of the families, each once.
func (f Families) Scripts() (all []*Script) {
	for i, scripts := range [][]*Script{
		{Acquire, Raise, Renew, Release},
		{Read, Keep, Advance},
		{AcquireAll, RenewAll, RaiseAll, ReleaseAll},
		{Permit, GiveBack},
		{Rest},
	} {
		if f>>i&1 == 1 {
			all = append(all, scripts...)
		}
	}
	return all
}

// Loaded are the scripts that are called by their hash.
var Loaded = allFamilies.Scripts()

// All are the scripts that are called by their hash, and those that are sent as text.
var All = slices.Concat(Loaded, []*Script{Probe, Admit, Level, Record, Inspect, Ask, InspectSlots, Seize, Wake, Handoff, TakeBack, Transfer})

var redisCall = regexp.MustCompile(`redis\.p?call\('(\w+)'`)

// CommandsAt returns the commands that a line of a script calls, in lower case. Lines count from
// 1. It returns nil if no script has this hash, or the line calls none.
func CommandsAt(sha string, line int) (commands []string) {
	for _, s := range All {
		lines := strings.Split(s.Text.(string), "\n")
		if s.SHA != sha || line < 1 || line > len(lines) {
			continue
		}
		for _, call := range redisCall.FindAllStringSubmatch(lines[line-1], -1) {
			if command := strings.ToLower(call[1]); !slices.Contains(commands, command) {
				commands = append(commands, command)
			}
		}
	}
	return commands
}
