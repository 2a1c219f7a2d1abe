package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"

	"golang.org/x/mod/semver"
)

// prepare makes the commits, the tags and the files of a version, and prints what is left to a person.
func prepare(ctx context.Context, repo repository, version string, targets []target, out io.Writer) error {
	branch, err := checkTree(ctx, repo)
	if err != nil {
		return err
	}
	before, err := repo.git(ctx, "rev-parse", "HEAD")
	if err != nil {
		return err
	}
	s, err := newStage(ctx, repo, before, version, out)
	if err != nil {
		return err
	}
	defer s.discard()
	if err := s.check(ctx); err != nil {
		return err
	}
	if err := s.make(ctx); err != nil {
		return err
	}
	folder, err := s.writeFiles(ctx, repo, targets)
	if err != nil {
		return err
	}
	if err := s.handOver(ctx, repo); err != nil {
		return err
	}
	remote, err := repo.git(ctx, "config", "branch."+branch+".remote")
	if err != nil {
		remote = "origin"
	}
	_, err = io.WriteString(out, s.instructions(folder, remote, branch, before))
	return err
}

// files makes the files of a version whose tags are at the commit that the repository has checked out.
func files(ctx context.Context, repo repository, version string, targets []target, out io.Writer) error {
	head, err := repo.git(ctx, "rev-parse", "HEAD")
	if err != nil {
		return err
	}
	s, err := newStage(ctx, repo, head, version, out)
	if err != nil {
		return err
	}
	defer s.discard()
	s.release = head
	if s.modules, err = readModules(ctx, s.repository); err != nil {
		return err
	}
	for _, tag := range tags(s.modules, version) {
		named, err := s.git(ctx, "rev-parse", "--verify", "--quiet", "refs/tags/"+tag+"^{commit}")
		if err != nil || named != head {
			return fmt.Errorf("the tag %s is not at the commit %.12s: check out the tag %s, after git fetch --tags; "+
				"make release makes all tags at one commit", tag, head, version)
		}
	}
	if err := errors.Join(s.readNotes(), checkModules(s.modules, version)); err != nil {
		return err
	}
	if err := s.checkAPI(ctx); err != nil {
		return err
	}
	folder, err := s.writeFiles(ctx, repo, targets)
	if err == nil {
		_, err = fmt.Fprintf(out, "%s: the files are in %s, the notes in %s.md.\n", version, folder, folder)
	}
	return err
}

// checkTree refuses a work tree with changes, and returns the branch that is checked out.
func checkTree(ctx context.Context, repo repository) (branch string, err error) {
	changes, err := repo.git(ctx, "status", "--porcelain")
	if err != nil {
		return "", err
	}
	if changes != "" {
		return "", fmt.Errorf("the work tree has changes: commit, stash or remove them\n%s", changes)
	}
	if branch, err = repo.git(ctx, "branch", "--show-current"); err == nil && branch == "" {
		err = errors.New("no branch is checked out: check out the one to release, such as main")
	}
	return branch, err
}

// check refuses a version that the clone's commit cannot become, and reads its notes.
func (s *stage) check(ctx context.Context) error {
	modules, err := readModules(ctx, s.repository)
	if err != nil {
		return err
	}
	var faults []error
	for _, tag := range tags(modules, s.version) {
		if _, err := s.git(ctx, "rev-parse", "--verify", "--quiet", "refs/tags/"+tag); err == nil {
			faults = append(faults, fmt.Errorf("the tag %s exists: choose a higher version; "+
				"if it was never pushed, git tag -d %s", tag, tag))
		}
	}
	previous, err := previousVersion(ctx, s.repository, "HEAD", s.version)
	if err != nil {
		return err
	}
	if previous != "" && semver.Compare(s.version, previous) < 0 {
		faults = append(faults, fmt.Errorf("%s is lower than %s, which this commit contains: choose a higher version",
			s.version, previous))
	}
	if err := errors.Join(append(faults, s.readNotes())...); err != nil {
		return err
	}
	return s.checkAPI(ctx)
}

// writeFiles makes the version's files and notes under the folder dist of the repository.
func (s *stage) writeFiles(ctx context.Context, repo repository, targets []target) (folder string, err error) {
	if err := s.serve(ctx); err != nil {
		return "", err
	}
	made := filepath.Join(s.dir, "files")
	if err := s.makeFiles(ctx, targets, made); err != nil {
		return "", err
	}
	folder = "dist/" + s.version
	if err := os.RemoveAll(repo.path(folder)); err != nil {
		return "", err
	}
	if err := os.CopyFS(repo.path(folder), os.DirFS(made)); err != nil {
		return "", err
	}
	return folder, repo.write(folder+".md", s.notes)
}

// handOver gives the repository's branch the two commits, and the repository the tags.
func (s *stage) handOver(ctx context.Context, repo repository) error {
	const branch = "refs/heads/after-release"
	if _, err := s.git(ctx, "update-ref", branch, s.next); err != nil {
		return err
	}
	if _, err := repo.git(ctx, "fetch", "--quiet", "--no-tags", s.repository.dir, branch); err != nil {
		return err
	}
	if _, err := repo.git(ctx, "merge", "--quiet", "--ff-only", "FETCH_HEAD"); err != nil {
		return fmt.Errorf("the branch moved meanwhile: run this again: %w", err)
	}
	fetch := []string{"fetch", "--quiet", "--no-tags", s.repository.dir}
	for _, tag := range tags(s.modules, s.version) {
		fetch = append(fetch, "refs/tags/"+tag+":refs/tags/"+tag)
	}
	_, err := repo.git(ctx, fetch...)
	return err
}

// instructions says what was made, and what a person does with it. The root's tag is pushed by itself: GitHub starts
// no workflow for a push of more than three tags.
func (s *stage) instructions(folder, remote, branch, before string) string {
	all := tags(s.modules, s.version) // the root's first
	return fmt.Sprintf(`%[1]s is prepared on the branch %[2]s, and nothing is pushed:
  %.12[3]s  the release, with %[4]d tags: its modules require %[1]s, %[5]s has no replace
  %.12[6]s  the commit after it, which puts the replace back
  %[7]s/  the files, with %[8]s; %[7]s.md, the notes

Look at them (git show %[1]s). Then push the branch with all tags but the root's, and that tag last:
  git push --atomic %[9]s %[2]s %[10]s
  git push %[9]s %[1]s

Or drop the release:
  git tag -d %[11]s
  git reset --hard %.12[12]s
`, s.version, branch, s.release, len(all), toolDir, s.next, folder, sumsFile,
		remote, strings.Join(all[1:], " "), strings.Join(all, " "), before)
}
