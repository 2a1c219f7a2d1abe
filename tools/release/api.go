package main

import (
	"context"
	"fmt"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"

	"golang.org/x/exp/apidiff"
	"golang.org/x/mod/semver"
	"golang.org/x/tools/go/packages"
)

// checkAPI compares the API of the clone's tree with that of the version before it.
func (s *stage) checkAPI(ctx context.Context) error {
	previous, err := previousVersion(ctx, s.repository, "HEAD", s.version)
	if err != nil || previous == "" {
		return err
	}
	old, err := s.clone(ctx, filepath.Join(s.dir, "previous"), previous)
	if err != nil {
		return err
	}
	broken, err := brokenAPI(ctx, old, s.repository)
	if err != nil || broken == "" {
		return err
	}
	return refuseBroken(previous, s.version, s.notes, broken)
}

// refuseBroken refuses to break the API of the previous version, unless both versions' numbers let it and
// the notes say so.
func refuseBroken(previous, version, notes, broken string) error {
	switch {
	case semver.Major(previous) != "v0":
		return fmt.Errorf("%s breaks the API of %s, which only a v2 could:\n%sput back what is gone",
			version, previous, broken)
	case semver.MajorMinor(previous) == semver.MajorMinor(version):
		return fmt.Errorf("%s breaks the API of %s, which a patch version must not:\n%sput back what is gone, or make it %s",
			version, previous, broken, nextVersion("", previous))
	case !saysBreaking(notes):
		return fmt.Errorf("%s breaks the API of %s, and the notes do not say so:\n%sput back what is gone, or say under "+
			`"### Breaking" in the version's section of %s how to go on`, version, previous, broken, changelogFile)
	}
	return nil
}

// brokenAPI returns the incompatible changes between the published libraries of two work trees, as apidiff
// prints them, or "".
func brokenAPI(ctx context.Context, before, now repository) (string, error) {
	modules, err := readModules(ctx, before)
	if err != nil {
		return "", err
	}
	var text strings.Builder
	for _, m := range published(modules) {
		if m.dir == toolDir {
			continue
		}
		old, err := loadAPI(ctx, before, m)
		if err != nil {
			return "", err
		}
		fresh, err := loadAPI(ctx, now, m)
		if err != nil {
			return "", err
		}
		report := apidiff.ModuleChanges(old, fresh)
		slices.SortFunc(report.Changes, func(a, b apidiff.Change) int { return strings.Compare(a.Message, b.Message) })
		var changes strings.Builder
		if err := report.TextIncompatible(&changes, false); err != nil {
			return "", err
		}
		if changes.Len() > 0 {
			fmt.Fprintf(&text, "%s\n%s", m.path(), &changes)
		}
	}
	return text.String(), nil
}

// loadAPI loads the packages of a module that other modules can import. A module that is not there has none.
func loadAPI(ctx context.Context, repo repository, m module) (*apidiff.Module, error) {
	api := &apidiff.Module{Path: m.path()}
	if _, err := os.Stat(repo.path(m.goMod())); os.IsNotExist(err) {
		return api, nil
	}
	loaded, err := packages.Load(&packages.Config{
		Context: ctx, Dir: repo.path(m.dir), Mode: packages.LoadTypes, Env: append(os.Environ(), "GOWORK=off"),
	}, "./...")
	if err != nil {
		return nil, err
	}
	for _, p := range loaded {
		if len(p.Errors) > 0 {
			return nil, fmt.Errorf("%s: %w", path.Join(repo.dir, m.dir), p.Errors[0])
		}
		if len(p.GoFiles) > 0 && isImportable(p.Name, p.PkgPath) {
			api.Packages = append(api.Packages, p.Types)
		}
	}
	return api, nil
}

// isImportable reports whether programs of other people can import a package.
func isImportable(name, importPath string) bool {
	return name != "main" && !slices.Contains(strings.Split(importPath, "/"), "internal")
}
