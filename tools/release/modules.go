package main

import (
	"context"
	"errors"
	"fmt"
	"path"
	"strings"

	"golang.org/x/mod/modfile"
)

// toolDir is the module of the command line tool. go install refuses a version of a program that
// has a replace, so this module alone is published without.
const toolDir = "cmd/redlock"

// module is a Go module of the repository.
type module struct {
	dir  string // from the root, with slashes; "." is the root's
	file *modfile.File
}

// isPublished reports whether the module in a folder has versions that others can get.
func isPublished(dir string) bool {
	return dir == "." || dir == toolDir || dir == "redlockotel" || path.Dir(dir) == "adapters"
}

func (m module) path() string      { return m.file.Module.Mod.Path }
func (m module) goMod() string     { return path.Join(m.dir, "go.mod") }
func (m module) isPublished() bool { return isPublished(m.dir) }

// tag returns the tag by which go finds a version of the module.
func (m module) tag(version string) string { return path.Join(m.dir, version) }

// readModules returns all modules of a work tree; the root's is the first.
func readModules(ctx context.Context, repo repository) (all []module, err error) {
	files, err := repo.lines(ctx, "ls-files", "--", "go.mod", "*/go.mod")
	if err != nil {
		return nil, err
	}
	for _, file := range files {
		text, err := repo.read(file)
		if err != nil {
			return nil, err
		}
		parsed, err := modfile.Parse(file, []byte(text), nil)
		if err != nil {
			return nil, err
		}
		m := module{path.Dir(file), parsed}
		if m.dir == "." {
			all = append([]module{m}, all...)
		} else {
			all = append(all, m)
		}
	}
	if len(all) == 0 || all[0].dir != "." {
		return nil, errors.New("the root has no go.mod: run this in a clone of the project")
	}
	for _, m := range all {
		if want := path.Join(all[0].path(), m.dir); m.path() != want {
			return nil, fmt.Errorf("%s: the module's path is %s: make it %s, or no tag leads to it", m.goMod(), m.path(), want)
		}
	}
	return all, nil
}

// published returns the modules that have versions, the root's first.
func published(all []module) (some []module) {
	for _, m := range all {
		if m.isPublished() {
			some = append(some, m)
		}
	}
	return some
}

func tags(all []module, version string) (names []string) {
	for _, m := range published(all) {
		names = append(names, m.tag(version))
	}
	return names
}

// find returns the module in a folder.
func find(all []module, dir string) (module, error) {
	for _, m := range all {
		if m.dir == dir {
			return m, nil
		}
	}
	return module{}, fmt.Errorf("%s has no go.mod: run this in a clone of the project", dir)
}

// byPath returns the modules by their paths.
func byPath(all []module) map[string]module {
	paths := make(map[string]module, len(all))
	for _, m := range all {
		paths[m.path()] = m
	}
	return paths
}

// requireVersion makes the modules require a version of every published module that they require
// already. It returns the go.mod files that change, by their names. The modules that are not
// published need it too: go wants no require that is older than what it finds behind a replace.
func requireVersion(all []module, version string) (map[string]string, error) {
	ours, changed := byPath(published(all)), make(map[string]string)
	for _, m := range all {
		for _, r := range m.file.Require {
			if _, found := ours[r.Mod.Path]; !found || r.Mod.Version == version {
				continue
			}
			if err := m.file.AddRequire(r.Mod.Path, version); err != nil {
				return nil, err
			}
			changed[m.goMod()] = ""
		}
		if _, found := changed[m.goMod()]; found {
			text, err := m.file.Format()
			if err != nil {
				return nil, err
			}
			changed[m.goMod()] = string(text)
		}
	}
	return changed, nil
}

// withoutReplace returns the text of a module's go.mod without replacements of published modules.
func withoutReplace(m module, all []module) (string, error) {
	ours := byPath(published(all))
	text, err := m.file.Format()
	if err != nil {
		return "", err
	}
	stripped, err := modfile.Parse(m.goMod(), text, nil)
	if err != nil {
		return "", err
	}
	for _, r := range m.file.Replace {
		if _, found := ours[r.Old.Path]; found {
			if err := stripped.DropReplace(r.Old.Path, r.Old.Version); err != nil {
				return "", err
			}
		}
	}
	stripped.Cleanup()
	text, err = stripped.Format()
	return strings.TrimRight(string(text), "\n") + "\n", err
}

// checkModules reports, for the tree of a release, whatever keeps one of its modules from being had
// by version.
func checkModules(all []module, version string) error {
	var faults []error
	paths := byPath(all)
	for _, m := range published(all) {
		for _, r := range m.file.Require {
			required, found := paths[r.Mod.Path]
			switch {
			case found && !required.isPublished():
				faults = append(faults, fmt.Errorf("%s requires %s, which is not published: "+
					"do without it, or publish that module", m.goMod(), r.Mod.Path))
			case found && r.Mod.Version != version:
				faults = append(faults, fmt.Errorf("%s requires %s %s, not %s: make release sets it; "+
					"drop tags that were made by hand", m.goMod(), r.Mod.Path, r.Mod.Version, version))
			}
		}
		if m.dir != toolDir {
			continue
		}
		for _, r := range m.file.Replace {
			faults = append(faults, fmt.Errorf("%s has a replace of %s, with which go install refuses a version: "+
				"make release drops those of our modules; drop any other by hand", m.goMod(), r.Old.Path))
		}
		if len(m.file.Exclude) > 0 {
			faults = append(faults, fmt.Errorf("%s has an exclude, with which go install refuses a version: drop it", m.goMod()))
		}
	}
	return errors.Join(faults...)
}
