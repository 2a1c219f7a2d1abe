package sim

import (
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"slices"
	"strings"
)

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
