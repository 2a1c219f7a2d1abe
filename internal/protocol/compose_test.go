package protocol

import (
	"fmt"
	"io/fs"
	"maps"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"
	"testing/fstest"

	"github.com/stretchr/testify/require"
)

func TestComposePutsPartsInThePlacesOfTheirMarks(t *testing.T) {
	from := fstest.MapFS{
		"a.lua":         {Data: []byte("-- a: a script\n--@one\nif x then\n  --@two\n  --@one\nend\n\n-- over\n--@release\n")},
		"release.lua":   {Data: []byte("--@two\nreturn 3\n")},
		"parts/one.lua": {Data: []byte("-- one: a part\nlocal one = 1\n")},
		"parts/two.lua": {Data: []byte("local two = 2\n")},
	}
	lines, err := compose(from, "a")
	require.NoError(t, err)
	require.Equal(t, "local one = 1\nif x then\nlocal two = 2\nend\nreturn 3", textOf(lines))
}

func TestComposeNamesThePartThatIsMissing(t *testing.T) {
	for _, name := range []string{"awated", "", "two words"} {
		_, err := compose(fstest.MapFS{"a.lua": {Data: []byte("return 1\n--@" + name + "\n")}}, "a")
		require.EqualError(t, err, "script a: no file parts/"+name+".lua")
	}
}

var (
	needs   = regexp.MustCompile(`^-- Needs ([\w, ]+)\.$`)
	head    = regexp.MustCompile(`^-- \w+: (.*?)[;.]`)
	aLocal  = regexp.MustCompile(`^local (?:function )?(\w+(?:, \w+)*)`)
	binding = regexp.MustCompile(`\b(?:local|for) (\w+(?:, \w+)*)|\bfunction ?(\w*)\(([\w, ]*)\)`)
	quoted  = regexp.MustCompile(`'[^']*'`)
	word    = regexp.MustCompile(`\.?\b[a-zA-Z]\w*\b`)
)

func names(list string) []string {
	return strings.FieldsFunc(list, func(r rune) bool { return r == ',' || r == ' ' })
}

// bound returns the variables that a line declares, parameters included.
func bound(line string) (all []string) {
	for _, found := range binding.FindAllStringSubmatch(strings.ReplaceAll(line, "local function ", "function "), -1) {
		all = append(all, names(strings.Join(found[1:], ","))...)
	}
	return all
}

// luaPart is a part, or a script without its parts.
type luaPart struct {
	declares []string // in its outermost block
	binds    []string // these, those of inner blocks, and parameters
	uses     []string
	needs    []string // as it says
}

func readPart(t *testing.T, file string) (p luaPart) {
	t.Helper()
	text, err := fs.ReadFile(files, file)
	require.NoError(t, err)
	for line := range strings.Lines(string(text)) {
		line = strings.TrimRight(line, "\n")
		if found := needs.FindStringSubmatch(line); found != nil {
			p.needs = names(found[1])
		}
		if found := aLocal.FindStringSubmatch(line); found != nil {
			p.declares = append(p.declares, names(found[1])...)
		}
		line, _, _ = strings.Cut(line, "--")
		line = quoted.ReplaceAllString(line, "''")
		p.binds = append(p.binds, bound(line)...)
		p.uses = append(p.uses, word.FindAllString(line, -1)...)
	}
	return p
}

func readParts(t *testing.T) map[string]luaPart {
	t.Helper()
	found, err := fs.Glob(files, "parts/*.lua")
	require.NoError(t, err)
	parts := map[string]luaPart{}
	for _, file := range found {
		parts[file] = readPart(t, file)
	}
	return parts
}

// eachLine calls each with the lines of a script, of its parts, and the variables that are visible ahead of the line.
func eachLine(t *testing.T, script string, each func(l line, visible map[string]int)) {
	t.Helper()
	lines, err := compose(files, script)
	require.NoError(t, err)
	visible := map[string]int{} // how deep each is indented
	for _, l := range lines {
		if l.text == "" {
			continue
		}
		if !strings.HasPrefix(l.text, "--") {
			maps.DeleteFunc(visible, func(_ string, d int) bool { return d > l.depth }) // their block has ended
		}
		each(l, visible)
		if found := aLocal.FindStringSubmatch(l.text); found != nil {
			for _, name := range names(found[1]) {
				if outer, ok := visible[name]; !ok || l.depth < outer {
					visible[name] = l.depth
				}
			}
		}
	}
}

// A variable that a part does not declare, and does not say that it needs, would be a global one: nil.
func TestPartsSayWhichVariablesTheyNeed(t *testing.T) {
	parts := readParts(t)
	known := map[string]bool{} // the variables of parts, and of scripts where a part stands
	for _, s := range All {
		eachLine(t, s.Name, func(l line, visible map[string]int) {
			if strings.HasPrefix(l.file, "parts/") {
				for name := range visible {
					known[name] = true
				}
			}
		})
	}
	for file, p := range parts {
		var want []string
		for _, name := range p.uses {
			if known[name] && !slices.Contains(p.binds, name) && !slices.Contains(want, name) {
				want = append(want, name)
			}
		}
		slices.Sort(want)
		got := slices.Sorted(slices.Values(p.needs))
		if !slices.Equal(want, got) {
			t.Errorf("%s says that it needs %v, and needs %v", file, got, want)
		}
	}
}

func TestScriptsHaveWhatTheirPartsNeed(t *testing.T) {
	for _, s := range All {
		eachLine(t, s.Name, func(l line, visible map[string]int) {
			if found := needs.FindStringSubmatch(l.text); found != nil {
				for _, name := range names(found[1]) {
					if _, ok := visible[name]; !ok {
						t.Errorf("script %s: %s needs %s, which nothing ahead of it declares", s.Name, l.file, name)
					}
				}
			}
		})
	}
}

// Where two had one name, one would hide the other.
func TestNoVariableOfAPartHidesAnother(t *testing.T) {
	of := map[string]string{}
	for file, p := range readParts(t) {
		for _, name := range p.declares {
			if other, taken := of[name]; taken && name != "key" && name != "queue" { // these are what the other parts are about
				t.Errorf("%s and %s both declare %s", file, other, name)
			}
			of[name] = file
		}
	}
	for _, s := range All {
		eachLine(t, s.Name, func(l line, visible map[string]int) {
			if strings.HasPrefix(l.text, "--") {
				return
			}
			for _, name := range bound(l.text) {
				if _, hidden := visible[name]; hidden && of[name] != "" && of[name] != l.file {
					t.Errorf("script %s: %s of %s hides that of %s: %s", s.Name, name, l.file, of[name], l.text)
				}
			}
		})
	}
}

// The page has a row for each part: the first line of its file, and the scripts that have it.
func TestProtocolPageListsThePartsOfScripts(t *testing.T) {
	page, err := os.ReadFile("../../docs/protocol.md")
	require.NoError(t, err)
	scripts := map[string][]string{}
	for _, s := range All {
		eachLine(t, s.Name, func(l line, _ map[string]int) {
			if name, ok := strings.CutPrefix(l.file, "parts/"); ok && !slices.Contains(scripts[name], s.Name) {
				scripts[name] = append(scripts[name], s.Name)
			}
		})
	}
	rows := "| part | what it is | scripts |\n| --- | --- | --- |\n"
	for _, file := range slices.Sorted(maps.Keys(readParts(t))) {
		text, err := fs.ReadFile(files, file)
		require.NoError(t, err)
		what := head.FindStringSubmatch(strings.ReplaceAll(string(text), "\n-- ", " "))
		require.NotNil(t, what, "the head of %s", file)
		of := scripts[strings.TrimPrefix(file, "parts/")]
		require.NotEmpty(t, of, "%s is in no script", file)
		rows += fmt.Sprintf("| %s | %s | %s |\n", strings.TrimPrefix(file, "parts/"), what[1], strings.Join(of, ", "))
	}
	if !strings.Contains(string(page), rows) {
		t.Errorf("docs/protocol.md does not have these rows:\n%s", rows)
	}
}

// The page leaves keys, arguments and replies to the heads of the scripts: an author of another client finds each of them.
func TestProtocolPageLinksToTheHeadOfEachScript(t *testing.T) {
	page, err := os.ReadFile("../../docs/protocol.md")
	require.NoError(t, err)
	for _, s := range All {
		if !strings.Contains(string(page), "["+s.Name+"](../internal/protocol/"+s.Name+".lua)") {
			t.Errorf("docs/protocol.md does not link to %s.lua", s.Name)
		}
		text, err := fs.ReadFile(files, s.Name+".lua")
		require.NoError(t, err)
		comment, _, _ := strings.Cut(string(text), "\nlocal ")
		for _, what := range []string{"\n-- KEYS", "\n-- ARGV", "\n-- Returns "} {
			if !strings.Contains(comment, what) && (s != Ask || what != "\n-- ARGV") { // ask has no arguments
				t.Errorf("the head of %s.lua has no line %q", s.Name, what)
			}
		}
	}
}

// The closures of a part cost each call of a script some time.
func TestNoScriptHasAPartThatItDoesNotUse(t *testing.T) {
	parts := readParts(t)
	for _, s := range All {
		uses := map[string][]string{} // by file
		eachLine(t, s.Name, func(l line, _ map[string]int) {
			if uses[l.file] == nil {
				uses[l.file] = readPart(t, l.file).uses
			}
		})
		for file := range uses {
			p, used := parts[file], !strings.HasPrefix(file, "parts/") || file == "parts/refuse.lua"
			for other, words := range uses {
				used = used || other != file && slices.ContainsFunc(p.declares, func(name string) bool { return slices.Contains(words, name) })
			}
			if !used {
				t.Errorf("script %s does not use %s", s.Name, file)
			}
		}
	}
}
