package protocol

import (
	"regexp"
	"slices"
	"strings"
	"sync"
)

// Script is one Lua script. It is put together, and its hash computed, when it is used first: a program that imports
// the library need not use it. A missing part panics then, which every test of this package shows.
type Script struct {
	Name string
	once sync.Once
	text any
	sha  any
}

func newScript(name string) *Script { return &Script{Name: name} }

// Text returns the script, a string. It and the hash are boxed once, since every command that names a script takes
// them as any.
func (s *Script) Text() any {
	s.once.Do(s.compose)
	return s.text
}

// SHA returns the script's hash, a string, as SCRIPT LOAD answers it.
func (s *Script) SHA() any {
	s.once.Do(s.compose)
	return s.sha
}

func (s *Script) compose() {
	lines, err := compose(files, s.Name)
	if err != nil {
		panic("protocol: " + err.Error())
	}
	text := textOf(lines)
	s.text, s.sha = text, HashOf(text)
}

// The scripts. The head of each file has its keys, arguments and replies.
var (
	Acquire    = newScript("acquire")
	Renew      = newScript("renew")
	Release    = newScript("release")
	Rest       = newScript("rest")
	Raise      = newScript("raise")
	Read       = newScript("read")
	Keep       = newScript("keep")
	AcquireAll = newScript("acquireall")
	RenewAll   = newScript("renewall")
	ReleaseAll = newScript("releaseall")
	Permit     = newScript("permit")
	GiveBack   = newScript("giveback")
	Probe      = newScript("probe")
	Seal       = newScript("seal")
	Admit      = newScript("admit")
	Propose    = newScript("propose")
	Install    = newScript("install")
	Level      = newScript("level")
	Record     = newScript("record")
	Look       = newScript("look")
	Inspect    = newScript("inspect")
	Observe    = newScript("observe")
	Ask        = newScript("ask")
	Seize      = newScript("seize")
	Transfer   = newScript("transfer")
	Resume     = newScript("resume")
	TakeBack   = newScript("takeback")
	Trim       = newScript("trim")

	InspectSlots = newScript("inspectslots")
	Wake         = newScript("wake")
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
		{Acquire, Raise, Renew, Release, Probe, Look},
		{Read, Keep},
		{AcquireAll, RenewAll, ReleaseAll},
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
var All = slices.Concat(Loaded, []*Script{Seal, Admit, Propose, Install, Level, Record, Inspect, Observe, Ask, InspectSlots, Seize, Wake, Transfer, TakeBack, Resume, Trim})

var redisCall = regexp.MustCompile(`redis\.p?call\('(\w+)'`)

// CommandsAt returns the commands that a line of a script calls, in lower case. Lines count from
// 1. It returns nil if no script has this hash, or the line calls none.
func CommandsAt(sha string, line int) (commands []string) {
	for _, s := range All {
		lines := strings.Split(s.Text().(string), "\n")
		if s.SHA() != sha || line < 1 || line > len(lines) {
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
