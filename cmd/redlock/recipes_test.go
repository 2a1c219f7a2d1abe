//go:build unix

package main

import (
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/spf13/cobra"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/redlock-go/redlock/internal/test/long"
	"github.com/redlock-go/redlock/redlocktest"
)

// machines is how many have the same job in their schedules.
const machines = 20

// recipe is an example of redlock run that readers copy, as it stands in a file or in a help text.
type recipe struct {
	where   string
	command string // for a shell
}

var (
	// inShell finds an example: in code of a page or a help text, in a crontab, or in a unit of systemd.
	inShell = regexp.MustCompile("(?m)(?:^|[ `=])((?:/\\S+/)?redlock run [^`\n]* -- [^`\n#]*)")
	inYAML  = regexp.MustCompile(`(?m)\[((?:/\S+/)?redlock, run, .*)\]$`)
	inCron  = regexp.MustCompile(`(?m)^ *(?:[0-9*/,-]+ +){5}.*redlock run .*$`)
)

// recipes returns all of a text.
func recipes(where, text string) (all []recipe) {
	for _, m := range inShell.FindAllStringSubmatch(text, -1) {
		all = append(all, recipe{where, strings.TrimSpace(m[1])})
	}
	for _, m := range inYAML.FindAllStringSubmatch(text, -1) {
		all = append(all, recipe{where, strings.ReplaceAll(m[1], ", ", " ")})
	}
	return all
}

// allRecipes returns those of all help texts, and of all pages and manifests of the repository.
func allRecipes(t *testing.T) (all []recipe) {
	t.Helper()
	var helps func(*cobra.Command)
	helps = func(c *cobra.Command) {
		all = append(all, recipes(c.CommandPath()+" --help", c.Long+"\n"+c.Example)...)
		for _, sub := range c.Commands() {
			helps(sub)
		}
	}
	helps(newRoot())
	const root = "../.."
	require.NoError(t, filepath.WalkDir(root, func(path string, d fs.DirEntry, err error) error {
		name := d.Name()
		switch {
		case err != nil:
			return err
		case d.IsDir() && path != root && (strings.HasPrefix(name, ".") || name == "out" || name == "dist"):
			return fs.SkipDir
		case d.IsDir() || !slices.Contains([]string{".md", ".yaml", ".yml", ".service", ".timer"}, filepath.Ext(name)) || name == "CHANGELOG.md":
			return nil
		}
		text, err := os.ReadFile(path)
		all = append(all, recipes(strings.TrimPrefix(path, root+"/"), string(text))...)
		return err
	}))
	return all
}

// scheduled returns the recipes for the schedules of many machines: those that do not wait for a holder.
func scheduled(t *testing.T) (all []recipe) {
	t.Helper()
	for _, r := range allRecipes(t) {
		if strings.Contains(r.command, " --no-wait ") {
			all = append(all, r)
		}
	}
	return all
}

// flag returns a recipe's duration of this name, 0 without one: then it has failed the test.
func (r *recipe) flag(t *testing.T, name string) time.Duration {
	t.Helper()
	m := regexp.MustCompile(` --` + name + ` (\S+) `).FindStringSubmatch(r.command)
	if !assert.NotNil(t, m, "%s: no --%s in %s", r.where, name, r.command) {
		return 0
	}
	d, err := time.ParseDuration(m[1])
	require.NoError(t, err)
	return d
}

// A job that is shorter than the machines' clocks differ would run on several; and after a restart of all nodes, on none.
func TestEachRecipeOfAScheduleHoldsTheLockAndAwaitsTheNodes(t *testing.T) {
	var where []string
	for _, r := range scheduled(t) {
		where = append(where, r.where)
		hold, ttl, ready := r.flag(t, "min-hold"), r.flag(t, "ttl"), r.flag(t, "ready")
		assert.GreaterOrEqual(t, hold, 30*time.Second, r.where)
		assert.GreaterOrEqual(t, ready, ttl+20*time.Second, "%s: nodes that were restarted do not vote for a ttl, or 20s", r.where)
	}
	for _, place := range []string{"redlock --help", "redlock run --help", "README.md", "deploy/kubernetes/cronjob.yaml"} {
		assert.Contains(t, where, place)
	}
	for _, line := range inCron.FindAllString(newRoot().Example, -1) {
		assert.Contains(t, line, " --no-wait ", "a crontab that waits for a holder runs the job again")
	}
}

// fleet is machines that run a recipe, and what their jobs wrote.
type fleet struct {
	recipe
	dir  string
	env  []string
	runs string // a file to which each run of the job appends a line
}

// newFleet makes the programs that a recipe names: the tool with some flags before its own, and a job of no duration.
func newFleet(t *testing.T, r recipe, nodes *redlocktest.Nodes, flags string) *fleet {
	t.Helper()
	f := &fleet{recipe: r, dir: t.TempDir()}
	f.runs = filepath.Join(f.dir, "runs")
	words := strings.Fields(r.command)
	job := filepath.Base(words[slices.Index(words, "--")+1])
	for name, script := range map[string]string{
		"redlock": fmt.Sprintf("%s=1 exec '%s' %s \"$@\"", toolEnv, os.Args[0], flags),
		job:       fmt.Sprintf("echo \"$REDLOCK_TOKEN\" >>'%s'", f.runs),
	} {
		require.NoError(t, os.WriteFile(filepath.Join(f.dir, name), []byte("#!/bin/sh\n"+script+"\n"), 0o700))
	}
	f.env = append(os.Environ(), "PATH="+f.dir+":"+os.Getenv("PATH"), nodesEnv+"="+strings.Join(nodes.URLs(), ","), "GORACE=atexit_sleep_ms=0")
	return f
}

// tick runs the recipe once on each machine. Their clocks differ by up to spread.
func (f *fleet) tick(t *testing.T, spread time.Duration) {
	t.Helper()
	line := strings.NewReplacer("/usr/local/bin/", f.dir+"/").Replace(f.command)
	var all sync.WaitGroup
	var mu sync.Mutex
	var said []string
	codes := map[int]int{}
	for i := range machines {
		all.Go(func() {
			time.Sleep(spread * time.Duration(i) / machines)
			cmd := exec.Command("sh", "-c", line)
			cmd.Env = f.env
			out, _ := cmd.CombinedOutput() // it ends, since it does not wait for a holder
			mu.Lock()
			defer mu.Unlock()
			codes[cmd.ProcessState.ExitCode()]++
			said = append(said, string(out))
		})
	}
	all.Wait()
	ran, err := os.ReadFile(f.runs)
	require.NoError(t, err, "%s: no machine ran the job: exit codes %v\n%s", f.where, codes, said)
	require.Len(t, strings.Fields(string(ran)), 1, "%s: several machines ran the job: exit codes %v", f.where, codes)
	if !strings.HasSuffix(f.command, "|| [ $? -eq 75 ]") {
		require.Equal(t, map[int]int{0: 1, codeHeld: machines - 1}, codes, "%s: %s", f.where, said)
	} else {
		require.Equal(t, map[int]int{0: machines}, codes, "%s: %s", f.where, said)
	}
	require.NoError(t, os.Remove(f.runs))
}

// Twenty machines run each recipe as it is written. In the long test all nodes are new at the first tick, as after a restart of
// all; at the second one the clocks differ by most of the minimum hold.
func TestEachRecipeOfAScheduleRunsOnceOnTwentyMachines(t *testing.T) {
	t.Parallel()
	seen := map[string]bool{}
	for _, r := range scheduled(t) {
		if seen[r.command] {
			continue
		}
		seen[r.command] = true
		t.Run(r.where, func(t *testing.T) {
			t.Parallel()
			const busy = "--node-timeout 4900ms" // for a busy machine
			nodes := redlocktest.Start(t, 3)
			if !long.Tests() {
				newFleet(t, r, nodes, "--restart-guard 0 "+busy).tick(t, 2*time.Second)
				return
			}
			f := newFleet(t, r, nodes, busy)
			f.tick(t, 5*time.Second)
			time.Sleep(r.flag(t, "min-hold")) // until the lock has rested
			f.tick(t, 20*time.Second)
		})
	}
	require.GreaterOrEqual(t, len(seen), 3)
}
