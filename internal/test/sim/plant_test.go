package sim

import (
	"encoding/json"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"
)

// plantedEnv names the bug that a binary of plantBugs has.
const plantedEnv = "REDLOCK_PLANTED_BUG"

// inRepository returns the path of a file of the repository, from this package's directory.
func inRepository(file string) string { return filepath.Join("..", "..", "..", file) }

// plantBugs returns, for each bug, a test binary of a package that has it when plantedEnv names it.
// Compiling takes seconds and running one seed takes milliseconds, so all patches that
// change scripts and bodies of functions only share one binary: it has every function in
// each of its versions. A patch that changes more gets a binary of its own.
func plantBugs(t *testing.T, pkg string, bugs []string) map[string]string {
	shared := &plantation{files: make(map[string]*plantedFile), scripts: make(map[string]map[string]string)}
	binaries := make(map[string]string)
	var together []string
	for _, bug := range bugs {
		patched := applyPatch(t, bug)
		if shared.plant(bug, patched) {
			together = append(together, bug)
			continue
		}
		binaries[bug] = compileWith(t, pkg, bug, patched)
	}
	binary := compileWith(t, pkg, "shared", shared.sources(t))
	for _, bug := range together {
		binaries[bug] = binary
	}
	t.Logf("%d bugs in %d binaries", len(bugs), len(bugs)-len(together)+1)
	return binaries
}

// applyPatch returns the files that a patch in internal/test/sim/bugs changes, as it leaves them.
func applyPatch(t *testing.T, bug string) map[string]string {
	patch, err := filepath.Abs(filepath.Join("bugs", bug+".patch"))
	require.NoError(t, err)
	text, err := os.ReadFile(patch)
	require.NoError(t, err)
	dir := t.TempDir()
	patched := make(map[string]string)
	for _, m := range regexp.MustCompile(`(?m)^\+\+\+ b/(.+)$`).FindAllSubmatch(text, -1) {
		name := string(m[1])
		source, err := os.ReadFile(inRepository(name))
		require.NoError(t, err)
		patched[name] = string(source)
		writeFile(t, filepath.Join(dir, name), source)
	}
	apply := exec.Command("git", "apply", patch)
	apply.Dir = dir
	apply.Env = append(os.Environ(), "GIT_DIR="+dir) // no repository around it
	out, err := apply.CombinedOutput()
	require.NoError(t, err, "%s does not apply any more: %s", bug, out)
	for name := range patched {
		after, err := os.ReadFile(filepath.Join(dir, name))
		require.NoError(t, err)
		patched[name] = string(after)
	}
	return patched
}

// compileWith compiles a package's tests with some files replaced or added.
func compileWith(t *testing.T, pkg, name string, files map[string]string) string {
	dir := t.TempDir()
	overlay := struct{ Replace map[string]string }{make(map[string]string)}
	for file, text := range files {
		here, err := filepath.Abs(inRepository(file))
		require.NoError(t, err)
		overlay.Replace[here] = filepath.Join(dir, file)
		writeFile(t, overlay.Replace[here], []byte(text))
	}
	list, err := json.Marshal(overlay)
	require.NoError(t, err)
	writeFile(t, filepath.Join(dir, "overlay.json"), list)
	binary := filepath.Join(dir, name+".test")
	build := exec.Command("go", "test", "-c", "-vet=off", "-ldflags=-s -w", "-overlay", filepath.Join(dir, "overlay.json"), "-o", binary, ".")
	build.Dir = pkg
	out, err := build.CombinedOutput()
	require.NoError(t, err, "%s", out)
	return binary
}

func writeFile(t *testing.T, path string, text []byte) {
	require.NoError(t, os.MkdirAll(filepath.Dir(path), 0o755))
	require.NoError(t, os.WriteFile(path, text, 0o644))
}

// plantation is a copy of the source that has many bugs at once.
type plantation struct {
	files   map[string]*plantedFile      // Go files by path
	scripts map[string]map[string]string // by bug: the text of each file of scripts that it changes
}

// plantedFile is a Go file whose functions first look which bug is chosen.
type plantedFile struct {
	source  string
	asks    map[int]string // text to insert, by offset in source
	imports []string
	added   string // the functions' other versions
}

// plant adds a bug. It adds nothing and reports false if the patch changes more than
// scripts and bodies of functions.
func (p *plantation) plant(bug string, patched map[string]string) bool {
	edits := make(map[string]*plantedFile)
	scripts := make(map[string]string)
	for name, text := range patched {
		if filepath.Ext(name) == ".lua" {
			scripts[strings.TrimPrefix(name, scriptsDir+"/")] = text
			continue
		}
		source, err := os.ReadFile(inRepository(name))
		if err != nil {
			return false
		}
		if edits[name] = compareSources(bug, string(source), text); edits[name] == nil {
			return false
		}
	}
	for name, e := range edits {
		f := p.files[name]
		if f == nil {
			p.files[name] = e
			continue
		}
		for offset, ask := range e.asks {
			f.asks[offset] += ask
		}
		f.imports = append(f.imports, e.imports...)
		f.added += e.added
	}
	if len(scripts) > 0 {
		p.scripts[bug] = scripts
	}
	return true
}

// scriptsDir is the package of the scripts.
const scriptsDir = "internal/protocol"

// sources returns the files of the copy that differ from those here.
func (p *plantation) sources(t *testing.T) map[string]string {
	const chooser = "chosen_bug.go" // there is no such file here
	sources := make(map[string]string)
	for name, f := range p.files {
		sources[name] = f.text()
		own := filepath.Join(filepath.Dir(name), chooser)
		sources[own] = fmt.Sprintf("%s\nimport \"os\"\nvar chosenBug = os.Getenv(%q)\n", packageClause.FindString(f.source), plantedEnv)
	}
	sources[filepath.Join(scriptsDir, chooser)] = chooserOfScripts + fmt.Sprintf("var chosenBug = os.Getenv(%q)\nvar changes = %#v\n", plantedEnv, p.scripts)
	return sources
}

// chooserOfScripts makes the scripts anew, with the files as the chosen bug changes them.
const chooserOfScripts = `package protocol

import (
	"io/fs"
	"os"
)

type changed struct{}

func (changed) Open(name string) (fs.File, error) { return files.Open(name) }

func (changed) ReadFile(name string) ([]byte, error) {
	if text, ok := changes[chosenBug][name]; ok {
		return []byte(text), nil
	}
	return files.ReadFile(name)
}

func init() {
	for _, s := range All {
		lines, err := compose(changed{}, s.Name)
		if err != nil {
			panic(err)
		}
		text := textOf(lines)
		s.once.Do(func() { s.text, s.sha = text, HashOf(text) })
	}
}

`

var packageClause = regexp.MustCompile(`(?m)^package \w+$`)

func (f *plantedFile) text() string {
	text := f.source
	for _, offset := range slices.Backward(slices.Sorted(maps.Keys(f.asks))) {
		text = text[:offset] + f.asks[offset] + text[offset:]
	}
	slices.Sort(f.imports)
	clause := packageClause.FindString(text)
	for _, path := range slices.Compact(f.imports) {
		clause += "; import " + path
	}
	return packageClause.ReplaceAllString(text, clause) + f.added
}

// compareSources returns the functions that a patch changes or adds in one Go file; nil if
// it changes more than bodies of functions, or adds more than functions and imports.
func compareSources(bug, before, after string) *plantedFile {
	old, rest := declarations(before)
	patched, patchedRest := declarations(after)
	c := &plantedFile{source: before, asks: make(map[int]string)}
	for _, path := range imports(after) {
		if !slices.Contains(imports(before), path) {
			c.imports = append(c.imports, path)
		}
	}
	if rest != patchedRest {
		return nil
	}
	for key, f := range old {
		g, stays := patched[key]
		if !stays {
			return nil
		}
		if f.text == g.text {
			continue
		}
		name := f.decl.Name.Name + "__" + strings.ReplaceAll(bug, "-", "_")
		call := f.callOf(name)
		if f.head() != g.head() || call == "" {
			return nil
		}
		c.asks[f.bodyAt()] = fmt.Sprintf(" if chosenBug == %q { %s };", bug, call)
		at := int(g.decl.Name.Pos() - g.decl.Pos())
		c.added += "\n" + g.text[:at] + name + g.text[at+len(g.decl.Name.Name):] + "\n"
	}
	for key, g := range patched {
		if _, known := old[key]; !known {
			c.added += "\n" + g.text + "\n"
		}
	}
	return c
}

// function is one declaration of a function, with its text.
type function struct {
	decl *ast.FuncDecl
	text string
	base token.Pos // of the file
}

// declarations returns the functions of a file, by their receiver and name, and the
// text of all other declarations but its imports.
func declarations(source string) (functions map[string]*function, rest string) {
	set := token.NewFileSet()
	file, err := parser.ParseFile(set, "", source, parser.SkipObjectResolution)
	if err != nil {
		return nil, err.Error()
	}
	functions = make(map[string]*function)
	for _, d := range file.Decls {
		text := source[d.Pos()-file.FileStart : d.End()-file.FileStart]
		switch d := d.(type) {
		case *ast.FuncDecl:
			f := &function{d, text, file.FileStart}
			functions[f.receiver()+"."+d.Name.Name] = f
		case *ast.GenDecl:
			if d.Tok != token.IMPORT {
				rest += text + "\n"
			}
		}
	}
	return functions, rest
}

func imports(source string) (paths []string) {
	file, err := parser.ParseFile(token.NewFileSet(), "", source, parser.ImportsOnly)
	if err != nil {
		return nil
	}
	for _, spec := range file.Imports {
		paths = append(paths, spec.Path.Value)
	}
	return paths
}

// head returns the text of the declaration up to its body.
func (f *function) head() string { return f.text[:f.decl.Body.Lbrace-f.decl.Pos()] }

// bodyAt returns the offset of the body's first byte in the file.
func (f *function) bodyAt() int { return int(f.decl.Body.Lbrace-f.base) + 1 }

func (f *function) receiver() string {
	if f.decl.Recv == nil {
		return ""
	}
	typ := f.decl.Recv.List[0].Type
	return f.text[typ.Pos()-f.decl.Pos() : typ.End()-f.decl.Pos()]
}

// callOf returns the statement that calls another function of the same type with the
// same arguments; "" if these have no names.
func (f *function) callOf(name string) string {
	if f.decl.Recv != nil {
		names := f.decl.Recv.List[0].Names
		if len(names) != 1 || names[0].Name == "_" {
			return ""
		}
		name = names[0].Name + "." + name
	}
	var args []string
	for _, field := range f.decl.Type.Params.List {
		if len(field.Names) == 0 {
			return ""
		}
		for _, arg := range field.Names {
			if arg.Name == "_" {
				return ""
			}
			args = append(args, arg.Name)
		}
		if _, variadic := field.Type.(*ast.Ellipsis); variadic {
			args[len(args)-1] += "..."
		}
	}
	call := name + "(" + strings.Join(args, ", ") + ")"
	if f.decl.Type.Results == nil {
		return call + "; return"
	}
	return "return " + call
}
