package redlockgocron_test

import (
	"context"
	"testing"
	"time"

	"github.com/go-co-op/gocron/v2"
	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"
	"go.uber.org/goleak"

	"github.com/redlock-go/redlock"
	"github.com/redlock-go/redlock/internal/test/testclient"
	"github.com/redlock-go/redlock/redlocktest"
)

// patience is the limit for steps that take a second or two on an idle machine, and poll the pause between two looks.
const (
	patience = 30 * time.Second
	poll     = 5 * time.Millisecond
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// openClient opens a client that ends with the test: a machine of this name.
func openClient(t *testing.T, nodes *redlocktest.Nodes, machine string, opts ...redlock.ClientOption) *redlock.Client {
	t.Helper()
	return testclient.Open(t, nodes.URLs(), append([]redlock.ClientOption{redlock.WithOwnerLabel(machine)}, opts...)...)
}

// within returns a context for a step that ends on an idle machine within a second or two.
func within(t *testing.T) context.Context {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	t.Cleanup(cancel)
	return ctx
}

// startScheduler starts a scheduler with one job, which it returns, and shuts it down when the test ends.
func startScheduler(t *testing.T, definition gocron.JobDefinition, task gocron.Task, opts ...gocron.SchedulerOption) gocron.Job {
	t.Helper()
	scheduler, err := gocron.NewScheduler(opts...)
	require.NoError(t, err)
	job, err := scheduler.NewJob(definition, task, gocron.WithName("report"))
	require.NoError(t, err)
	t.Cleanup(func() { assert.NoError(t, scheduler.Shutdown()) })
	scheduler.Start()
	return job
}
