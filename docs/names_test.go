package docs_test

import (
	"path"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/assert"
)

var (
	function  = regexp.MustCompile(`(?m)^func (?:\(\w+ \*?(\w+)\) |\(\*?(?:\w+)\) )?(\w+)\(`)
	declared  = regexp.MustCompile(`(?m)^(?:type |const |\t)(\w+)(?: | = )`)
	structure = regexp.MustCompile(`(?ms)^type (\w+) struct {\n(.*?)^}`)
	fields    = regexp.MustCompile(`(?m)^\t(\w+)\b`)

	testName  = regexp.MustCompile(`^(Test|Fuzz|Benchmark)[A-Z]\w*$`)
	fileName  = regexp.MustCompile(`^[\w/*.-]+\.(go|lua)$`)
	placeName = regexp.MustCompile(`^([\w/.-]+\.go): ([\w.]+)$`)
	optional  = regexp.MustCompile(`^With[A-Z]\w*`)
	member    = regexp.MustCompile(`^(Client|Mutex|RWMutex|Lease|Trace|HeldError|QuorumError|Status|NodeStatus|Guard)\.([A-Z]\w*)`)
	sentinel  = regexp.MustCompile(`^Err[A-Z]\w*$`)
	inFile    = regexp.MustCompile("`([\\w.]+)` \\((\\w+\\.go)\\)")
)

// theirs are names of other libraries, which the pages that compare them use.
var theirs = map[string]bool{
	"WithExpiry": true, "WithTries": true, "WithRetryDelay": true, "WithFailFast": true, "WithDriftFactor": true,
	"WithTimeoutFactor": true, "WithSetNXOnExtend": true, "WithGenValueFunc": true,
	"ErrTaken": true, "ErrNodeTaken": true, "ErrFailed": true, "ErrNotObtained": true, "ErrLockNotHeld": true,
	"WithShufflePools": true, "WithValue": true, "WithContext": true, "ErrNotLocked": true, "ErrLockerClosed": true,
}

// code is the declarations in the repository's Go files.
type code struct {
	files    []string
	declared map[string]bool // "file: name" and "file: type.method"
	tests    map[string]bool // of all modules
	exported map[string]bool // of the library, fence and redlockotel: Name, Type.Method, Type.Field
}

func readCode(t *testing.T) code {
	c := code{files(t), map[string]bool{}, map[string]bool{}, map[string]bool{}}
	for _, file := range c.files {
		if !strings.HasSuffix(file, ".go") {
			continue
		}
		text := read(t, file)
		isTest := strings.HasSuffix(file, "_test.go")
		for _, name := range declarations(text) {
			c.declared[file+": "+name] = true
			if isTest {
				c.tests[name] = true
			} else if dir := path.Dir(file); dir == "." || dir == "fence" || dir == "redlockotel" {
				c.exported[name] = true
			}
		}
	}
	return c
}

// declarations returns the names of functions, methods, types, fields and variables.
func declarations(text string) (names []string) {
	for _, m := range function.FindAllStringSubmatch(text, -1) {
		names = append(names, m[2])
		if m[1] != "" {
			names = append(names, m[1]+"."+m[2])
		}
	}
	for _, m := range declared.FindAllStringSubmatch(text, -1) {
		names = append(names, m[1])
	}
	for _, m := range structure.FindAllStringSubmatch(text, -1) {
		for _, field := range fields.FindAllStringSubmatch(m[2], -1) {
			names = append(names, m[1]+"."+field[1])
		}
	}
	return names
}

// hasFile reports whether there is a file of this name, path or pattern.
func (c code) hasFile(pattern string) bool {
	for _, file := range c.files {
		parts := strings.Split(file, "/")
		tail := strings.Join(parts[max(0, len(parts)-1-strings.Count(pattern, "/")):], "/")
		if ok, _ := path.Match(pattern, tail); ok {
			return true
		}
	}
	return false
}

// saves reports whether the page tells its reader to save a program in a file of this name.
func (p page) saves(name string) bool {
	return slices.ContainsFunc(savedAs.FindAllStringSubmatch(p.text, -1), func(m []string) bool { return m[1] == name })
}

func TestWhatTheDocsNameExists(t *testing.T) {
	c := readCode(t)
	_, guides := pages(t)
	checked := 0
	for _, p := range guides {
		check := func(ok bool, name string) {
			checked++
			assert.True(t, ok, "%s names %s: there is no such thing", p.path, name)
		}
		for _, span := range p.spans() {
			switch {
			case testName.MatchString(span):
				check(c.tests[span], span)
			case fileName.MatchString(span):
				check(c.hasFile(span) || p.saves(span), span)
			case placeName.MatchString(span):
				check(c.declared[span], span)
			case member.MatchString(span):
				check(c.exported[member.FindString(span)], span)
			case sentinel.MatchString(span), optional.MatchString(span):
				name := regexp.MustCompile(`^\w+`).FindString(span)
				check(theirs[name] || c.exported[name], span)
			}
		}
		for _, m := range inFile.FindAllStringSubmatch(p.prose(), -1) {
			check(c.declared[m[2]+": "+m[1]], m[0])
		}
	}
	assert.Greater(t, checked, 100)
}

// A comment sends its reader to a file: of the package beside it, or by a path.
func TestFilesThatCommentsNameExist(t *testing.T) {
	c, named := readCode(t), regexp.MustCompile(`[\w/*-]*\w\.(?:go|lua)\b`)
	checked := 0
	check := func(file, comment string) {
		for _, name := range named.FindAllString(comment, -1) {
			checked++
			assert.True(t, c.hasFile(name), "a comment in %s names %s: there is no such file", file, name)
		}
	}
	for _, f := range goFiles(t) {
		for _, group := range f.tree.Comments {
			check(f.path, group.Text())
		}
	}
	for _, file := range c.files {
		if !strings.HasSuffix(file, ".lua") {
			continue
		}
		for line := range strings.Lines(read(t, file)) {
			if _, comment, ok := strings.Cut(line, "--"); ok {
				check(file, comment)
			}
		}
	}
	assert.Greater(t, checked, 40, "this finds nothing")
}
