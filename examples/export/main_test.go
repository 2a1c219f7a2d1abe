package main

import (
	"context"
	"errors"
	"testing"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/redlock-go/redlock/examples/internal/demo"
)

func TestExportLetsReportsIn(t *testing.T) {
	out := demo.Run(t, run)
	assert.Regexp(t, `60 chunks were exported in \d+ turns, and 4 reports made`, out)
}

// The turn ends when another caller asks, before all chunks are exported, and no earlier.
func TestTurnEndsWhenTheTableIsWanted(t *testing.T) {
	d, _ := demo.New(t)
	client, err := d.Open(t.Context(), "exporter")
	require.NoError(t, err)
	defer client.Close()
	asked := make(chan error, 1)
	go func() {
		for {
			s, err := client.Inspect(context.Background(), "table")
			if err != nil || s.Notifiable {
				asked <- errors.Join(err, client.Ask(context.Background(), "table"))
				return
			}
		}
	}()
	table := &table{chunks: 1 << 30}
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	done, err := table.exportTurn(ctx, client)
	require.NoError(t, err)
	require.NoError(t, <-asked)
	assert.False(t, done)
	table.chunks = table.exported + 3
	turns, err := table.exportAll(ctx, client)
	require.NoError(t, err)
	assert.Equal(t, 1, turns, "nobody wants it any more")
	assert.Equal(t, table.chunks, table.exported)
}
