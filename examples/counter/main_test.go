package main

import (
	"io"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/redlock-go/redlock/examples/internal/demo"
)

func TestMain(m *testing.M) { demo.TestMain(m, main) }

func TestWorkersLoseNothing(t *testing.T) {
	out := demo.Run(t, run, "-workers", "4", "-rounds", "20")
	assert.Contains(t, out, "They are not Redis.")
	assert.Contains(t, out, "The final number is 80 = 4 × 20")
	assert.Equal(t, 4, strings.Count(out, "20 rounds done"))
}

func TestWorkersLoseNothingWhenAMinorityOfNodesFails(t *testing.T) {
	file := filepath.Join(t.TempDir(), "number")
	d, out := demo.New(t, "-workers", "3", "-rounds", "20", "-file", file)
	nodes := d.Nodes(t)
	var over sync.WaitGroup
	over.Go(func() {
		if waitFor(file, 10) {
			nodes.Stop(1)
		}
	})
	err := run(t.Context(), d)
	over.Wait()
	require.NoError(t, err, out)
	assert.Contains(t, out.String(), "The final number is 60 = 3 × 20")
}

func TestUpdatesAreLostWhenWorkersDoNotShareTheLock(t *testing.T) {
	file := filepath.Join(t.TempDir(), "number")
	require.NoError(t, startAtZero(file))
	s := settings{workers: 2, rounds: 200, file: file, ttl: 5 * time.Second}

	failures := make([]error, s.workers)
	var over sync.WaitGroup
	for i := range s.workers {
		d, _ := demo.New(t) // with nodes of its own
		lifeline, end := io.Pipe()
		defer end.Close()
		d.In = lifeline
		over.Go(func() { failures[i] = work(t.Context(), d, s) })
	}
	over.Wait()

	// A read between another worker's truncation and its write fails outright.
	if failures[0] == nil && failures[1] == nil {
		assert.ErrorContains(t, verdict(s), "the final number is")
	}
}

func TestTheVerdictNamesBothNumbers(t *testing.T) {
	file := filepath.Join(t.TempDir(), "number")
	require.NoError(t, writeNumber(file, 99))
	err := verdict(settings{workers: 4, rounds: 25, file: file})
	assert.EqualError(t, err, "the final number is 99, not 4 × 25 = 100")
}

func TestAFailingWorkerFailsTheRun(t *testing.T) {
	t.Setenv("REDLOCK_NODES", "http://127.0.0.1:1")
	d, out := demo.New(t, "-workers", "2")
	assert.ErrorContains(t, run(t.Context(), d), "failed: exit status 1")
	assert.Contains(t, out.String(), "unknown scheme")
}

func TestAFileWithOtherContentIsNotOverwritten(t *testing.T) {
	file := filepath.Join(t.TempDir(), "letter")
	require.NoError(t, os.WriteFile(file, []byte("Dear Bob,\n"), 0o600))
	d, _ := demo.New(t, "-file", file)
	assert.ErrorContains(t, run(t.Context(), d), "refusing to overwrite")
	text, err := os.ReadFile(file)
	require.NoError(t, err)
	assert.Equal(t, "Dear Bob,\n", string(text))
}

func TestBadFlagsAreErrors(t *testing.T) {
	for args, want := range map[string]string{
		"-workers 0": "at least 1",
		"-rounds -1": "at least 1",
		"-ttl 0s":    "above 0",
		"leftover":   `unexpected argument "leftover"`,
	} {
		d, _ := demo.New(t, strings.Fields(args)...)
		assert.ErrorContains(t, run(t.Context(), d), want, args)
	}
}

func TestWorkersEndWithTheirParent(t *testing.T) {
	if runtime.GOOS == "windows" {
		t.Skip("Windows cannot send an interrupt to one process")
	}
	for name, signal := range map[string]os.Signal{"interrupted": os.Interrupt, "killed": os.Kill} {
		t.Run(name, func(t *testing.T) {
			file := filepath.Join(t.TempDir(), "number")
			d, log := demo.New(t)
			parent, err := d.Command(t.Context(), "-workers", "3", "-rounds", "1000000", "-ttl", "1m", "-file", file)
			require.NoError(t, err)
			parent.Stdout, parent.Stderr = log, log
			require.NoError(t, parent.Start())
			assert.True(t, waitFor(file, 5), "the workers do not work")
			require.NoError(t, parent.Process.Signal(signal))

			// Wait returns when the last of the workers has closed its output.
			ended := make(chan error, 1)
			go func() { ended <- parent.Wait() }()
			select {
			case err := <-ended:
				assert.Error(t, err)
			case <-time.After(2 * grace):
				t.Fatal("the workers outlive their parent")
			}
			assert.Contains(t, log.String(), ": stopped in round ")
			assert.Eventually(t, func() bool {
				for i := range 3 {
					if _, held := d.Nodes(t).Get(i, "redlock:counter:number"); held {
						return false
					}
				}
				return true
			}, 5*time.Second, 5*time.Millisecond, "a stopped worker left its lock behind")
		})
	}
}
