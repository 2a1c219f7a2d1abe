package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"runtime/pprof"
	"strings"
	"time"
)

// mutexShare is the share of contended waits that the mutex profile records:
// one in so many.
const mutexShare = 10

// profiling says which profiles are wanted, and of which peers.
type profiling struct {
	cpu   string // folder; "" for none
	mutex string // folder; "" for none
	peers []contender
}

// profile drives a peer for one more round of a cell, and writes a profile of it:
// what is measured is never slowed by being profiled.
func (b *bench) profile(ctx context.Context, p *opened, c cell, limit time.Duration, round func(context.Context) (int, figures, error)) {
	pr := &b.profiling
	if ctx.Err() != nil || p.lost || pr.cpu == "" && pr.mutex == "" || !among(pr.peers...)(p.contender) {
		return
	}
	fmt.Fprintf(b.progress, "%s %s %s, profile\n", c.workload, c.setting, c.peer)
	_, err := attempt(ctx, limit, func() (struct{}, error) {
		return struct{}{}, pr.record(c, func() error {
			_, _, err := round(ctx)
			return err
		})
	})
	if err != nil && ctx.Err() == nil {
		p.lost = errors.Is(err, errHung)
		b.addNote("profile of %s, %s, %s: %v", c.workload, c.setting, c.peer, err)
	}
}

// record writes the profiles of what work does.
func (pr *profiling) record(c cell, work func() error) error {
	stop := func() error { return nil }
	if pr.cpu != "" {
		file, err := profileFile(pr.cpu, "cpu", c)
		if err != nil {
			return err
		}
		if err := pprof.StartCPUProfile(file); err != nil {
			return errors.Join(err, file.Close())
		}
		stop = func() error {
			pprof.StopCPUProfile()
			return file.Close()
		}
	}
	if pr.mutex == "" {
		return errors.Join(work(), stop())
	}
	share := runtime.SetMutexProfileFraction(mutexShare)
	err := work()
	runtime.SetMutexProfileFraction(share)
	return errors.Join(err, stop(), writeMutexes(pr.mutex, c))
}

// writeMutexes writes what the runtime has counted since the program began: with
// several cells, each file holds the ones before it too.
func writeMutexes(dir string, c cell) error {
	file, err := profileFile(dir, "mutex", c)
	if err != nil {
		return err
	}
	return errors.Join(pprof.Lookup("mutex").WriteTo(file, 0), file.Close())
}

func profileFile(dir, kind string, c cell) (*os.File, error) {
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return nil, err
	}
	name := strings.NewReplacer("/", "-", "=", "").Replace(fmt.Sprintf("%s-%s-%s-%s.prof", kind, c.workload, c.peer, c.setting))
	return os.Create(filepath.Join(dir, name))
}
