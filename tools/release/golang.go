package main

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
)

// golang runs go, and programs that call it, for what a proxy of our own serves.
type golang struct {
	environment []string
}

// newGolang returns a go that gets our modules from proxy, and all others from where this machine
// gets them. Its module cache is a new folder under dir: the cache of the machine must not keep a
// version that may yet be made anew.
//
// Nothing else that the machine has set counts. Above all GOPRIVATE must be empty: with it, go looks
// for an exact version in its cache before it asks a proxy, takes the root's module there for the
// only one with the path of an adapter, and says that the adapter's package does not exist.
func newGolang(ctx context.Context, dir string, proxy moduleProxy, path string) (golang, error) {
	cache, err := os.MkdirTemp(dir, "modules-")
	if err != nil {
		return golang{}, err
	}
	asked, err := golang{os.Environ()}.run(ctx, dir, "env", "GOPROXY", "GOSUMDB", "GONOSUMDB", "GOCACHE")
	if err != nil {
		return golang{}, err
	}
	answers := strings.Split(asked+"\n\n\n\n", "\n")
	return golang{append(os.Environ(), "GOENV=off", "GOPRIVATE=", "GONOPROXY=", "GOWORK=off", "GOMODCACHE="+cache,
		"GOPROXY=file://"+filepath.ToSlash(proxy.dir)+","+answers[0],
		"GOSUMDB="+answers[1], "GONOSUMDB="+strings.Trim(path+","+answers[2], ","), "GOCACHE="+answers[3],
		"GOFLAGS=-modcacherw -trimpath", "CGO_ENABLED=0", "GOAMD64=v1", "GOARM64=v8.0", "GOEXPERIMENT=",
	)}, nil
}

// with returns a go that has more variables in its environment.
func (g golang) with(variables ...string) golang {
	return golang{append(g.environment[:len(g.environment):len(g.environment)], variables...)}
}

// run runs a command of go in a folder, and returns what it prints.
func (g golang) run(ctx context.Context, dir string, args ...string) (string, error) {
	return g.start(ctx, dir, "go", args...)
}

// start runs a program, and returns its standard output without the last line's end.
func (g golang) start(ctx context.Context, dir, program string, args ...string) (string, error) {
	command := exec.CommandContext(ctx, program, args...)
	command.Dir, command.Env = dir, append(g.environment, "PWD="+dir)
	var stderr bytes.Buffer
	command.Stderr = &stderr
	stdout, err := command.Output()
	if err != nil {
		return "", fmt.Errorf("%s %s: %w: %s",
			filepath.Base(program), strings.Join(args, " "), err, bytes.TrimSpace(stderr.Bytes()))
	}
	return strings.TrimRight(string(stdout), "\n"), nil
}
