package main

import (
	"context"
	"fmt"
	"io"
	"os"
	"path/filepath"
)

// stage is a release in a clone of the repository, with its commits and tags.
type stage struct {
	repository           // the clone, with the release's commit checked out
	dir        string    // the temporary folder around it
	progress   io.Writer // for the person who waits
	version    string
	modules    []module // as released
	notes      string
	proxy      moduleProxy
	golang     golang
	release    string // the commit that the tags name
	next       string // the commit after it
}

// newStage clones a commit of the repository. discard removes it.
func newStage(ctx context.Context, repo repository, commit, version string, progress io.Writer) (s *stage, err error) {
	dir, err := os.MkdirTemp("", "redlock-release-")
	if err != nil {
		return nil, err
	}
	s = &stage{dir: dir, progress: progress, version: version, proxy: moduleProxy{filepath.Join(dir, "proxy")}}
	if s.repository, err = repo.clone(ctx, filepath.Join(dir, "clone"), commit); err != nil {
		s.discard()
		return nil, err
	}
	return s, nil
}

func (s *stage) discard() { os.RemoveAll(s.dir) }

// readNotes reads the version's section of the changelog.
func (s *stage) readNotes() error {
	changelog, err := s.read(changelogFile)
	if err != nil {
		return err
	}
	s.notes, err = releaseNotes(changelog, s.version)
	return err
}

// make makes the commits and the tags of the release, and checks it out. In the release itself the tool is built
// with the published library: without a replace, and with the library's sums. In the commit after
// it the tool is built with the library beside it again.
func (s *stage) make(ctx context.Context) error {
	const toolSums = toolDir + "/go.sum"
	if err := s.setVersion(ctx); err != nil {
		return err
	}
	tool, err := find(s.modules, toolDir)
	if err != nil {
		return err
	}
	before := make(map[string]string)
	for _, file := range []string{tool.goMod(), toolSums} {
		if before[file], err = s.read(file); err != nil {
			return err
		}
	}
	stripped, err := withoutReplace(tool, s.modules)
	if err != nil {
		return err
	}
	if err := s.write(tool.goMod(), stripped); err != nil {
		return err
	}
	if s.modules, err = readModules(ctx, s.repository); err != nil {
		return err
	}
	if err := checkModules(s.modules, s.version); err != nil {
		return err
	}
	if err := s.commitRelease(ctx, toolSums); err != nil {
		return err
	}
	for file, text := range before {
		if err := s.write(file, text); err != nil {
			return err
		}
	}
	message := fmt.Sprintf("After %s: %s is built with the library beside it again", s.version, toolDir)
	if s.next, err = s.commit(ctx, message); err != nil {
		return err
	}
	_, err = s.git(ctx, "checkout", "--quiet", "--detach", s.release)
	return err
}

// setVersion makes all modules of the work tree require the published ones in the release's version.
func (s *stage) setVersion(ctx context.Context) (err error) {
	if s.modules, err = readModules(ctx, s.repository); err != nil {
		return err
	}
	changed, err := requireVersion(s.modules, s.version)
	if err != nil {
		return err
	}
	for file, text := range changed {
		if err := s.write(file, text); err != nil {
			return err
		}
	}
	return nil
}

// commitRelease commits the release and tags it. The sums of our modules, which the tool needs, are those of the
// commit itself: no module contains the tool's go.sum but the tool.
func (s *stage) commitRelease(ctx context.Context, toolSums string) error {
	commit, err := s.commit(ctx, fmt.Sprintf("Release %s\n\nEach published module requires this version of the others, "+
		"and %s has no replace.", s.version, toolDir))
	if err != nil {
		return err
	}
	tool, err := find(s.modules, toolDir)
	if err != nil {
		return err
	}
	goSum, err := s.read(toolSums)
	if err != nil {
		return err
	}
	paths := byPath(s.modules)
	for _, r := range tool.file.Require {
		required, ours := paths[r.Mod.Path]
		if !ours {
			continue
		}
		if err := s.proxy.add(s.repository, required, s.version, commit); err != nil {
			return err
		}
		sums, err := s.proxy.sums(r.Mod.Path, s.version)
		if err != nil {
			return err
		}
		goSum = withSums(goSum, r.Mod.Path, sums)
	}
	if err := s.write(toolSums, goSum); err != nil {
		return err
	}
	if _, err := s.git(ctx, "commit", "--quiet", "--all", "--amend", "--no-edit"); err != nil {
		return err
	}
	if s.release, err = s.git(ctx, "rev-parse", "HEAD"); err != nil {
		return err
	}
	for _, tag := range tags(s.modules, s.version) {
		if _, err := s.git(ctx, "tag", "--annotate", "--message", "redlock "+s.version, tag, s.release); err != nil {
			return err
		}
	}
	return nil
}

// serve fills the proxy, and prepares a go that uses it.
func (s *stage) serve(ctx context.Context) (err error) {
	for _, m := range published(s.modules) {
		if err := s.proxy.add(s.repository, m, s.version, s.release); err != nil {
			return err
		}
	}
	s.golang, err = newGolang(ctx, s.dir, s.proxy, s.modules[0].path())
	return err
}
