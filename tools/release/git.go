package main

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
)

// repository is a git repository with a work tree.
type repository struct{ dir string }

// git runs a command of git in the repository, and returns its output without the last line's end.
func (r repository) git(ctx context.Context, args ...string) (string, error) {
	command := exec.CommandContext(ctx, "git", args...)
	command.Dir = r.dir
	// A hook of git sets these, and would turn every command to the hook's repository.
	command.Env = slices.DeleteFunc(os.Environ(), func(v string) bool {
		return strings.HasPrefix(v, "GIT_DIR=") || strings.HasPrefix(v, "GIT_WORK_TREE=") ||
			strings.HasPrefix(v, "GIT_INDEX_FILE=")
	})
	var stderr bytes.Buffer
	command.Stderr = &stderr
	stdout, err := command.Output()
	if err != nil {
		return "", fmt.Errorf("git %s: %w: %s", args[0], err, bytes.TrimSpace(stderr.Bytes()))
	}
	return strings.TrimRight(string(stdout), "\n"), nil
}

// lines is git for a command that prints a list, one item a line.
func (r repository) lines(ctx context.Context, args ...string) ([]string, error) {
	text, err := r.git(ctx, args...)
	if text == "" {
		return nil, err
	}
	return strings.Split(text, "\n"), err
}

// clone makes a clone at dir, with a commit checked out and with the settings by which this
// repository signs its commits and tags and names their author.
func (r repository) clone(ctx context.Context, dir, commit string) (repository, error) {
	copied := repository{dir}
	if _, err := r.git(ctx, "clone", "--quiet", "--no-checkout", ".", dir); err != nil {
		return copied, err
	}
	if _, err := copied.git(ctx, "checkout", "--quiet", "--detach", commit); err != nil {
		return copied, err
	}
	const identity = `^(user|author|committer|gpg|commit|tag)\.`
	settings, _ := r.lines(ctx, "config", "--local", "--get-regexp", identity) // none is an error
	for _, setting := range settings {
		key, value, _ := strings.Cut(setting, " ")
		if _, err := copied.git(ctx, "config", key, value); err != nil {
			return copied, err
		}
	}
	return copied, nil
}

// commit commits all changes of tracked files, and returns the new commit.
func (r repository) commit(ctx context.Context, message string) (string, error) {
	if _, err := r.git(ctx, "commit", "--quiet", "--all", "--message", message); err != nil {
		return "", err
	}
	return r.git(ctx, "rev-parse", "HEAD")
}

// read returns the text of a file of the work tree, by its path from the root with slashes.
func (r repository) read(file string) (string, error) {
	text, err := os.ReadFile(r.path(file))
	return string(text), err
}

func (r repository) write(file, text string) error {
	return os.WriteFile(r.path(file), []byte(text), 0o644)
}

func (r repository) path(file string) string { return filepath.Join(r.dir, filepath.FromSlash(file)) }
