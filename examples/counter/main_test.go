package main

import (
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/redlock-go/redlock/redlocktest"
)

// asProgram, in the environment, makes the test binary the counter itself, so
// that tests can run it, and it its workers, as processes.
const asProgram = "REDLOCK_COUNTER_TEST_AS_PROGRAM"

func TestMain(m *testing.M) {
	if os.Getenv(asProgram) != "" {
		main()
		return
	}
	os.Setenv(asProgram, "1")
	os.Exit(m.Run())
}

func TestWorkersLoseNothing(t *testing.T) {
	var out, log syncBuffer
	err := run(t.Context(), []string{"-workers", "4", "-rounds", "20"}, &out, &log)
	require.NoError(t, err, log.String())
	assert.Contains(t, out.String(), "They are not Redis.")
	assert.Contains(t, out.String(), "The final number is 80 = 4 × 20")
	assert.Equal(t, 4, strings.Count(out.String(), "20 rounds done"))
}

func TestWorkersLoseNothingWhenAMinorityOfNodesFails(t *testing.T) {
	nodes := redlocktest.Start(t, 5)
	file := filepath.Join(t.TempDir(), "number")
	var over sync.WaitGroup
	over.Go(func() {
		if waitFor(file, 10) {
			nodes.Stop(1)
			nodes.Stop(4)
		}
	})
	var out, log syncBuffer
	err := run(t.Context(), []string{"-workers", "3", "-rounds", "20", "-file", file,
		"-trust", "-urls", strings.Join(nodes.URLs(), ",")}, &out, &log)
	over.Wait()
	require.NoError(t, err, log.String())
	assert.Contains(t, out.String(), "The final number is 60 = 3 × 20")
}

func TestUpdatesAreLostWhenWorkersDoNotShareTheLock(t *testing.T) {
	file := filepath.Join(t.TempDir(), "number")
	require.NoError(t, startAtZero(file))
	s := settings{workers: 2, rounds: 200, file: file, ttl: 5 * time.Second, trust: true}

	failures := make([]error, s.workers)
	var over sync.WaitGroup
	for i := range s.workers {
		own := s
		own.urls = redlocktest.Start(t, 1).URLs()
		over.Go(func() { failures[i] = work(t.Context(), own, endless{t}, io.Discard) })
	}
	over.Wait()

	// A read between another worker's truncation and its write fails outright.
	if failures[0] == nil && failures[1] == nil {
		assert.ErrorContains(t, verdict(s, 0, io.Discard), "the final number is")
	}
}

func TestTheVerdictNamesBothNumbers(t *testing.T) {
	file := filepath.Join(t.TempDir(), "number")
	require.NoError(t, writeNumber(file, 99))
	err := verdict(settings{workers: 4, rounds: 25, file: file}, 0, io.Discard)
	assert.EqualError(t, err, "the final number is 99, not 4 × 25 = 100")
}

func TestAFailingWorkerFailsTheRun(t *testing.T) {
	var out, log syncBuffer
	err := run(t.Context(), []string{"-workers", "2", "-urls", "http://127.0.0.1:1"}, &out, &log)
	assert.ErrorContains(t, err, "failed: exit status 1")
	assert.Contains(t, log.String(), "unknown scheme")
}

func TestAFileWithOtherContentIsNotOverwritten(t *testing.T) {
	file := filepath.Join(t.TempDir(), "letter")
	require.NoError(t, os.WriteFile(file, []byte("Dear Bob,\n"), 0o600))
	var out, log syncBuffer
	err := run(t.Context(), []string{"-file", file}, &out, &log)
	assert.ErrorContains(t, err, "refusing to overwrite")
	text, err := os.ReadFile(file)
	require.NoError(t, err)
	assert.Equal(t, "Dear Bob,\n", string(text))
}

func TestBadFlagsAreErrors(t *testing.T) {
	for args, want := range map[string]string{
		"-workers 0":   "at least 1",
		"-rounds -1":   "at least 1",
		"-ttl 0s":      "above 0",
		"-ttl soon":    "invalid value",
		"leftover":     `unexpected argument "leftover"`,
		"-nonsense 12": "flag provided but not defined",
	} {
		err := run(t.Context(), strings.Fields(args), io.Discard, io.Discard)
		assert.ErrorContains(t, err, want, args)
	}
}

func TestWorkersEndWithTheirParent(t *testing.T) {
	if runtime.GOOS == "windows" {
		t.Skip("Windows cannot send an interrupt to one process")
	}
	for name, signal := range map[string]os.Signal{"interrupted": os.Interrupt, "killed": os.Kill} {
		t.Run(name, func(t *testing.T) {
			nodes := redlocktest.Start(t, 3)
			file := filepath.Join(t.TempDir(), "number")
			var log syncBuffer
			program, err := os.Executable()
			require.NoError(t, err)
			parent := exec.Command(program, "-workers", "3", "-rounds", "1000000", "-ttl", "1m",
				"-file", file, "-trust", "-urls", strings.Join(nodes.URLs(), ","))
			parent.Stdout, parent.Stderr = &log, &log
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
					if _, held := nodes.Get(i, "redlock:counter:number"); held {
						return false
					}
				}
				return true
			}, 5*time.Second, 5*time.Millisecond, "a stopped worker left its lock behind")
		})
	}
}
