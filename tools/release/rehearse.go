package main

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"time"
)

// rehearsedTargets are built twice.
var rehearsedTargets = []target{{"linux", "amd64"}, {"windows", "arm64"}}

// rehearse makes a release in a clone, and looks at it as its users will see it: they get each module by its
// version, install the tool, build it to the same bytes, and run the demo. Without a version it takes
// the next one, and the section Unreleased for its notes if the changelog has none of it.
func rehearse(ctx context.Context, repo repository, version string, targets []target, out io.Writer) error {
	began := time.Now()
	s, err := newStage(ctx, repo, "HEAD", version, out)
	if err != nil {
		return err
	}
	defer s.discard()
	if err := s.setUp(ctx); err != nil {
		return err
	}
	fmt.Fprintf(out, "A rehearsal of %s, of the commit that is checked out, in %s\n", s.version, s.dir)
	steps := []step{
		{"the checks of make release", s.check}, {"commits and tags", s.make}, {"the module proxy", s.serve},
	}
	if err := runSteps(ctx, out, steps); err != nil {
		return err
	}
	if err := runSteps(ctx, out, s.uses(targets)); err != nil {
		return err
	}
	sums, err := os.ReadFile(filepath.Join(s.dir, "files", sumsFile))
	if err != nil {
		return err
	}
	_, err = fmt.Fprintf(out, "%sin all %.0f s, and %d MB in the temporary folder, which is removed\n",
		sums, time.Since(began).Seconds(), diskUse(s.dir)>>20)
	return err
}

type step struct {
	what string
	do   func(context.Context) error
}

// runSteps runs steps up to the first that fails, and prints how long each took.
func runSteps(ctx context.Context, out io.Writer, steps []step) error {
	for _, step := range steps {
		began := time.Now()
		if err := step.do(ctx); err != nil {
			return fmt.Errorf("%s: %w", step.what, err)
		}
		if _, err := fmt.Fprintf(out, "%6.1f s  %s\n", time.Since(began).Seconds(), step.what); err != nil {
			return err
		}
	}
	return nil
}

// setUp gives the clone an author, and takes the next version where none is given.
func (s *stage) setUp(ctx context.Context) error {
	for _, setting := range [][2]string{
		{"user.name", "rehearsal"}, {"user.email", "rehearsal@localhost"},
		{"commit.gpgsign", "false"}, {"tag.gpgsign", "false"},
	} {
		if _, err := s.git(ctx, "config", setting[0], setting[1]); err != nil {
			return err
		}
	}
	if s.version != "" {
		return nil
	}
	changelog, err := s.read(changelogFile)
	if err != nil {
		return err
	}
	previous, err := previousVersion(ctx, s.repository, "HEAD", "")
	if err != nil {
		return err
	}
	if s.version = nextVersion(changelog, previous); s.version == newestVersion(changelog) {
		return nil
	}
	if err := s.write(changelogFile, nameUnreleased(changelog, s.version, time.Now())); err != nil {
		return err
	}
	_, err = s.commit(ctx, "Notes for a rehearsal")
	return err
}

// uses are the uses that people make of a release.
func (s *stage) uses(targets []target) (steps []step) {
	for _, m := range published(s.modules) {
		if m.dir != toolDir {
			steps = append(steps, step{"go get " + m.path() + "@" + s.version, func(ctx context.Context) error {
				return s.getModule(ctx, m)
			}})
		}
	}
	return append(steps,
		step{"go install " + s.modules[0].path() + "/" + toolDir + "@latest", s.installTool},
		step{"make demo", func(ctx context.Context) error {
			_, err := s.golang.start(ctx, s.repository.dir, "make", "demo")
			return err
		}},
		step{"the files", func(ctx context.Context) error {
			return s.makeFiles(ctx, targets, filepath.Join(s.dir, "files"))
		}},
		step{"the same binaries from another folder and without caches", func(ctx context.Context) error {
			return s.buildAgain(ctx, targets)
		}},
	)
}

// getModule gets a module by version in a new program that imports all of its packages, and builds that.
func (s *stage) getModule(ctx context.Context, m module) error {
	const packages = "{{if .GoFiles}}{{.Name}} {{.ImportPath}}{{end}}"
	listed, err := s.golang.run(ctx, s.path(m.dir), "list", "-find", "-f", packages, "./...")
	if err != nil {
		return err
	}
	source, get := "package main\n\n", []string{"get"}
	for line := range strings.Lines(listed) {
		name, importPath, _ := strings.Cut(strings.TrimSpace(line), " ")
		if importPath != "" && isImportable(name, importPath) {
			source += fmt.Sprintf("import _ %q\n", importPath)
			get = append(get, importPath+"@"+s.version)
		}
	}
	dir, err := os.MkdirTemp(s.dir, "program-")
	if err != nil {
		return err
	}
	if err := os.WriteFile(filepath.Join(dir, "main.go"), []byte(source+"\nfunc main() {}\n"), 0o644); err != nil {
		return err
	}
	for _, args := range [][]string{{"mod", "init", "example.com/program"}, get, {"build", "-o", os.DevNull, "."}} {
		if _, err := s.golang.run(ctx, dir, args...); err != nil {
			return err
		}
	}
	const format = "{{if not .Main}}{{.Path}} {{.Version}}{{with .Replace}} replaced{{end}}{{end}}"
	selected, err := s.golang.run(ctx, dir, "list", "-m", "-f", format, "all")
	if err != nil {
		return err
	}
	for line := range strings.Lines(selected) {
		path, version, _ := strings.Cut(strings.TrimSpace(line), " ")
		if ours := byPath(s.modules); ours[path].file != nil && version != s.version {
			return fmt.Errorf("the program has %s %s, not %s", path, version, s.version)
		}
	}
	return nil
}

// installTool installs the tool as a user does, and asks it for its version.
func (s *stage) installTool(ctx context.Context) error {
	bin := filepath.Join(s.dir, "bin")
	latest := s.modules[0].path() + "/" + toolDir + "@latest"
	if _, err := s.golang.with("GOBIN="+bin).run(ctx, s.dir, "install", latest); err != nil {
		return err
	}
	return s.askVersion(ctx, filepath.Join(bin, "redlock"))
}

// askVersion fails unless a binary of the tool says that it is of the release's version.
func (s *stage) askVersion(ctx context.Context, binary string) error {
	said, err := s.golang.start(ctx, s.dir, binary, "--version")
	if err == nil && !strings.HasPrefix(said, "redlock "+s.version+" ") {
		err = fmt.Errorf("%s --version says %q: it should begin with redlock %s", filepath.Base(binary), said, s.version)
	}
	return err
}

// buildAgain builds from a clone of the clone, with caches that are empty, and compares.
func (s *stage) buildAgain(ctx context.Context, targets []target) error {
	elsewhere, err := s.clone(ctx, filepath.Join(s.dir, "elsewhere", "clone"), s.release)
	if err != nil {
		return err
	}
	empty, err := newGolang(ctx, s.dir, s.proxy, s.modules[0].path())
	if err != nil {
		return err
	}
	empty = empty.with("GOCACHE=" + filepath.Join(s.dir, "cache"))
	for _, t := range targets {
		file := filepath.Join(s.dir, "elsewhere", t.binary(s.version))
		if err := build(ctx, empty, elsewhere, t, file); err != nil {
			return err
		}
		if err := sameBytes(file, filepath.Join(s.dir, "files", t.binary(s.version))); err != nil {
			return err
		}
	}
	return nil
}

func sameBytes(a, b string) error {
	one, err := os.ReadFile(a)
	if err != nil {
		return err
	}
	two, err := os.ReadFile(b)
	if err == nil && !bytes.Equal(one, two) {
		err = fmt.Errorf("two builds of %s differ: something of the machine is in them", filepath.Base(a))
	}
	return err
}

// diskUse returns the bytes of the files under dir.
func diskUse(dir string) (bytes int64) {
	_ = filepath.WalkDir(dir, func(_ string, entry fs.DirEntry, err error) error {
		if err != nil || entry.IsDir() {
			return nil
		}
		if info, err := entry.Info(); err == nil {
			bytes += info.Size()
		}
		return nil
	})
	return bytes
}
