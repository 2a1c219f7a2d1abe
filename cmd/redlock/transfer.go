package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"

	"github.com/redlock-go/redlock"
)

// The text by which a lock passes from redlock run to redlock resume. It never stands on a command line, which
// every user of the machine can read.

// textFile is a file for the text of a lease that is to be transferred.
type textFile struct {
	path      string
	temporary *os.File // beside it, for its owner alone; nil if the text is in its place
}

// newTextFile makes sure, before a command runs, that the text can be written. It returns nil for no path.
func newTextFile(path string) (*textFile, error) {
	if path == "" {
		return nil, nil
	}
	if info, err := os.Stat(path); err == nil && !info.Mode().IsRegular() {
		return nil, usage("--transfer %s: it is not a file", path)
	}
	f, err := os.CreateTemp(filepath.Dir(path), "."+filepath.Base(path)+"-*") // with mode 0600
	if err != nil {
		return nil, usage("--transfer %s: %v", path, err)
	}
	return &textFile{path: path, temporary: f}, nil
}

// write writes the text, and puts it in its place in one step: a reader sees all of it, or none.
func (f *textFile) write(text string) error {
	_, err := io.WriteString(f.temporary, text+"\n")
	if err = errors.Join(err, f.temporary.Sync(), f.temporary.Close()); err == nil {
		err = os.Rename(f.temporary.Name(), f.path)
	}
	if err == nil {
		f.temporary = nil
	}
	return err
}

// discard removes what was not put in its place.
func (f *textFile) discard() {
	if f != nil && f.temporary != nil {
		_ = f.temporary.Close()
		_ = os.Remove(f.temporary.Name())
	}
}

// transfer transfers the lease, and writes the text. If the text cannot be written, the lock ends with its ttl.
func (r *runner) transfer(to *textFile) error {
	text, err := r.lease.Transfer(context.Background())
	switch {
	case errors.Is(err, redlock.ErrLost):
		return &exit{code: codeLost,
			why: fmt.Errorf("the command has ended, but the lock was lost before it could be transferred, and "+
				"somebody else may have held it meanwhile: %s", lossOf(err, r.verbose))}
	case err != nil:
		return &exit{code: coded(err).(*exit).code,
			why: fmt.Errorf("the command has succeeded, but its lock could not be transferred, and is released: %s",
				withoutName(err))}
	}
	if err := to.write(text); err != nil {
		return &exit{code: codeDanger,
			why: fmt.Errorf("the command has succeeded, but the text to transfer its lock could not be written, and "+
				"the lock stays held for up to %v: %w", r.flags.ttl, err)}
	}
	return nil
}

// maxText is more than the longest text has.
const maxText = 128 << 10

// readText reads the text of a lease that was transferred: from a file that is its owner's alone, or from in if
// path is empty.
func readText(path string, in io.Reader) (string, error) {
	if path == "" {
		if isTerminal(in) {
			return "", usage("resume reads a text from stdin, and stdin is a terminal: give --from, or redirect stdin")
		}
		return readAll(in, "stdin")
	}
	f, err := os.Open(path)
	if errors.Is(err, fs.ErrNotExist) {
		return "", &exit{code: codeConfig,
			why: fmt.Errorf("--from %s: there is no such file: no lock was transferred to it, or it was resumed", path)}
	}
	if err != nil {
		return "", &exit{code: codeConfig, why: fmt.Errorf("--from: %w", err)}
	}
	defer f.Close()
	info, err := f.Stat()
	if err == nil && runtime.GOOS != "windows" && info.Mode().Perm()&0o077 != 0 {
		err = fmt.Errorf("other users may read or write it (%v), and a process that has the text can take the lock: "+
			"it must have mode 0600", info.Mode().Perm())
	}
	if err != nil {
		return "", &exit{code: codeConfig, why: fmt.Errorf("--from %s: %w", path, err)}
	}
	return readAll(f, path)
}

// removeText removes the file of a text that was resumed. A newer text may have taken its place in the
// meantime: that stays. path may be a link to the file, which stays too.
func removeText(path, text string) {
	file, err := filepath.EvalSymlinks(path)
	if err != nil {
		return
	}
	if info, err := os.Lstat(file); err != nil || !info.Mode().IsRegular() {
		return
	}
	if now, err := os.ReadFile(file); err == nil && string(now) == text {
		_ = os.Remove(file)
	}
}

func readAll(in io.Reader, from string) (string, error) {
	text, err := io.ReadAll(io.LimitReader(in, maxText))
	if err != nil {
		return "", &exit{code: codeConfig, why: fmt.Errorf("%s cannot be read: %w", from, err)}
	}
	return string(text), nil
}
