package main

import (
	"context"
	"crypto/sha256"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"time"
)

// target is a system that the tool is built for.
type target struct{ system, processor string }

var allTargets = []target{
	{"linux", "amd64"}, {"linux", "arm64"}, {"darwin", "amd64"}, {"darwin", "arm64"},
	{"windows", "amd64"}, {"windows", "arm64"}, {"freebsd", "amd64"}, {"freebsd", "arm64"},
}

// binary returns the name of a version's binary.
func (t target) binary(version string) string {
	name := fmt.Sprintf("redlock_%s_%s_%s", version, t.system, t.processor)
	if t.system == "windows" {
		name += ".exe"
	}
	return name
}

// build builds the tool of a work tree. The same commit and the same Go make the same bytes, in any folder.
func build(ctx context.Context, g golang, repo repository, t target, file string) error {
	_, err := g.with("GOOS="+t.system, "GOARCH="+t.processor).run(ctx, repo.path(toolDir), "build", "-trimpath",
		"-buildvcs=true", "-ldflags=-s -w -buildid=", "-o", file, ".")
	return err
}

// shells are those that the tool has completions for, by the ends of the files' names.
var shells = map[string]string{"bash": "bash", "zsh": "zsh", "fish": "fish", "powershell": "ps1"}

// makeFiles writes the files that go beside the version's notes to a folder: binaries, what they are made of,
// the manual, completions, and the checksums of all.
func (s *stage) makeFiles(ctx context.Context, targets []target, folder string) error {
	if err := os.MkdirAll(folder, 0o755); err != nil {
		return err
	}
	var binaries []string
	for _, t := range targets {
		began := time.Now()
		file := filepath.Join(folder, t.binary(s.version))
		if err := build(ctx, s.golang, s.repository, t, file); err != nil {
			return err
		}
		fmt.Fprintf(s.progress, "%6.1f s  %s\n", time.Since(began).Seconds(), filepath.Base(file))
		binaries = append(binaries, file)
	}
	bill, err := billOfMaterials(s.version, binaries)
	if err != nil {
		return err
	}
	manual, err := s.read("docs/redlock.1")
	if err != nil {
		return err
	}
	contents := map[string]string{"redlock_" + s.version + ".cdx.json": bill, "redlock.1": manual}
	host := filepath.Join(s.dir, "redlock")
	if err := build(ctx, s.golang, s.repository, target{runtime.GOOS, runtime.GOARCH}, host); err != nil {
		return err
	}
	if err := s.askVersion(ctx, host); err != nil {
		return err
	}
	for shell, end := range shells {
		if contents["redlock."+end], err = s.golang.start(ctx, s.dir, host, "completion", shell); err != nil {
			return err
		}
		contents["redlock."+end] += "\n"
	}
	for name, text := range contents {
		if err := os.WriteFile(filepath.Join(folder, name), []byte(text), 0o644); err != nil {
			return err
		}
	}
	sums, err := checksums(folder)
	if err != nil {
		return err
	}
	return os.WriteFile(filepath.Join(folder, sumsFile), []byte(sums), 0o644)
}

const sumsFile = "SHA256SUMS"

// checksums returns the checksums of a folder's files, in the form of sha256sum.
func checksums(folder string) (string, error) {
	entries, err := os.ReadDir(folder)
	if err != nil {
		return "", err
	}
	var lines strings.Builder
	for _, entry := range entries {
		if entry.Name() == sumsFile {
			continue
		}
		content, err := os.ReadFile(filepath.Join(folder, entry.Name()))
		if err != nil {
			return "", err
		}
		fmt.Fprintf(&lines, "%x  %s\n", sha256.Sum256(content), entry.Name())
	}
	return lines.String(), nil
}
