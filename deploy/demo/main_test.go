package main

import (
	"bytes"
	"context"
	"flag"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/redlock-go/redlock"
)

func TestDemoSaysWhatIsWrongWithItsArguments(t *testing.T) {
	var log bytes.Buffer
	require.ErrorIs(t, run(t.Context(), []string{"-h"}, "", &log), flag.ErrHelp)
	require.Contains(t, log.String(), "-lose-every")

	require.ErrorContains(t, run(t.Context(), nil, "", &log), "REDLOCK_NODES is not set")
	require.ErrorContains(t, run(t.Context(), []string{"-listen", "127.0.0.1:-1"}, "redis://127.0.0.1:1", &log), "invalid port")
	require.ErrorIs(t, run(t.Context(), []string{"-listen", "127.0.0.1:0"}, "nonsense", &log), redlock.ErrConfig)
}

func TestDemoEndsWithItsContext(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	var log bytes.Buffer
	require.NoError(t, run(ctx, []string{"-listen", "127.0.0.1:0"}, "redis://127.0.0.1:1", &log))
	require.Regexp(t, `^demo: metrics at http://127\.0\.0\.1:\d+/metrics\n$`, log.String())
}
