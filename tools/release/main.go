// Command release makes the versions of the repository's published modules. make release,
// make release-check and make release-files call it; docs/releasing.md says when.
//
//	release prepare VERSION     commits, tags and files of a version; it pushes nothing
//	release rehearse [VERSION]  the same in a clone, and a look at it as its users will see it
//	release files VERSION       the files of a version that is tagged, after the same checks
//
// A release is made in a clone in a temporary folder (type stage). The repository gets its commits
// and tags at the very end, so whatever fails leaves the repository as it was. The program is one
// goroutine; what it starts ends with its context.
package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"syscall"
)

const usage = "usage: release prepare VERSION | rehearse [VERSION] | files VERSION, in the repository; " +
	"or make release VERSION=v0.1.0, make release-check"

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	err := run(ctx, ".", os.Args[1:], os.Stdout)
	stop()
	if err != nil {
		fmt.Fprintln(os.Stderr, "release:", err)
		os.Exit(1)
	}
}

// run runs a command of the command line in the repository that dir is in. The files of a version
// go to the folder dist there.
func run(ctx context.Context, dir string, args []string, out io.Writer) error {
	if len(args) == 0 || len(args) > 2 {
		return errors.New(usage)
	}
	version := ""
	if len(args) == 2 {
		version = args[1]
	}
	top, err := repository{dir}.git(ctx, "rev-parse", "--show-toplevel")
	if err != nil {
		return err
	}
	repo, bad := repository{top}, checkVersion(version)
	switch command := args[0]; {
	case command == "rehearse" && (version == "" || bad == nil):
		return rehearse(ctx, repo, version, rehearsedTargets, out)
	case bad != nil:
		return bad
	case command == "prepare":
		return prepare(ctx, repo, version, allTargets, out)
	case command == "files":
		return files(ctx, repo, version, allTargets, out)
	}
	return errors.New(usage)
}
