package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"runtime"
	"runtime/pprof"
)

// mutexShare is the share of contended waits that the mutex profile records:
// one in so many.
const mutexShare = 10

// profiling says which profiles are wanted of which peer. A prefix of "" means
// none.
type profiling struct {
	peer        string
	cpuPrefix   string
	mutexPrefix string
}

func (pr *profiling) wanted() bool { return pr.cpuPrefix != "" || pr.mutexPrefix != "" }

// run drives the peer alone, once more for each number of goroutines, and writes
// a profile of each: what is measured is never slowed by being profiled.
func (pr *profiling) run(ctx context.Context, pl *plan, peers []opened, progress io.Writer) error {
	if !pr.wanted() {
		return nil
	}
	for _, p := range peers {
		if p.name != pr.peer {
			continue
		}
		for _, g := range pl.goroutines {
			fmt.Fprintf(progress, "%d goroutines, profile: %s\n", g, p.name)
			newCrew(g).run(ctx, p.peer, pl.warmUp)
			if err := pr.record(g, func() { newCrew(g).run(ctx, p.peer, pl.length) }); err != nil {
				return err
			}
		}
		return nil
	}
	return fmt.Errorf("the peer to profile, %q, is not in this run", pr.peer)
}

// record writes the profiles of what work does.
func (pr *profiling) record(goroutines int, work func()) error {
	stop := func() error { return nil }
	if pr.cpuPrefix != "" {
		file, err := os.Create(pr.file(pr.cpuPrefix, goroutines))
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
	if pr.mutexPrefix == "" {
		work()
		return stop()
	}
	share := runtime.SetMutexProfileFraction(mutexShare)
	work()
	runtime.SetMutexProfileFraction(share)
	return errors.Join(stop(), pr.writeMutexes(goroutines))
}

// writeMutexes writes what the runtime has counted since the program began: with
// several numbers of goroutines, each file holds the ones before it too.
func (pr *profiling) writeMutexes(goroutines int) error {
	file, err := os.Create(pr.file(pr.mutexPrefix, goroutines))
	if err != nil {
		return err
	}
	return errors.Join(pprof.Lookup("mutex").WriteTo(file, 0), file.Close())
}

func (pr *profiling) file(prefix string, goroutines int) string {
	return fmt.Sprintf("%s-%s-%d.prof", prefix, pr.peer, goroutines)
}
