package demo

import (
	"context"
	"errors"
	"flag"
	"io"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/redlock-go/redlock"
	"github.com/redlock-go/redlock/redlocktest"
)

func TestNodesAreEmbeddedUnlessTheVariableNamesOthers(t *testing.T) {
	t.Setenv(variable, "")
	d, out := New(t)
	assert.NotNil(t, d.Nodes(t))
	assert.Contains(t, out.String(), "3 nodes embedded")
	assert.Len(t, d.urls, 3)

	theirs := redlocktest.Start(t, 3)
	t.Setenv(variable, strings.Join(theirs.URLs(), ","))
	d, out = New(t)
	assert.Nil(t, d.Nodes(t))
	assert.Contains(t, out.String(), "the 3 servers of REDLOCK_NODES")
	assert.Equal(t, theirs.URLs(), d.urls)

	// Those are not trusted never to forget: they vote after one guard.
	began := time.Now()
	client, err := d.Open(t.Context(), "me", redlock.WithTTL(2*time.Second))
	require.NoError(t, err)
	defer client.Close()
	assert.GreaterOrEqual(t, time.Since(began), 1900*time.Millisecond)
}

func TestAProcessHasTheNodesOfItsParent(t *testing.T) {
	t.Setenv(variable, "")
	parent, _ := New(t)
	cmd, err := parent.Command(t.Context())
	require.NoError(t, err)
	for _, variable := range cmd.Env {
		if name, value, _ := strings.Cut(variable, "="); strings.HasPrefix(name, "REDLOCK_") {
			t.Setenv(name, value)
		}
	}
	d, out := New(t)
	assert.Nil(t, d.Nodes(t))
	assert.Equal(t, parent.urls, d.urls)
	assert.True(t, d.trust)
	assert.Empty(t, out.String(), "the parent has said it")
}

func TestTheFirstErrorEndsTheGroup(t *testing.T) {
	g, ctx := NewGroup(t.Context())
	broken := errors.New("broken")
	g.Go(func() error { return broken })
	g.Go(func() error { <-ctx.Done(); return context.Cause(ctx) })
	require.ErrorIs(t, g.Wait(), broken)

	g, ctx = NewGroup(t.Context())
	g.Go(func() error { return nil })
	require.NoError(t, g.Wait())
	require.Error(t, ctx.Err())
}

func TestBadArgumentsAreErrors(t *testing.T) {
	var n int
	parse := func(args ...string) error {
		return (&Demo{Args: args, Log: io.Discard}).Parse(func(f *flag.FlagSet) { f.IntVar(&n, "n", 0, "a number") })
	}
	require.NoError(t, parse("-n", "1", "-n", "2"))
	assert.Equal(t, 2, n, "the last one counts")
	assert.ErrorContains(t, parse("-n", "soon"), "invalid value")
	assert.ErrorContains(t, parse("-nonsense", "1"), "flag provided but not defined")
	assert.ErrorContains(t, parse("leftover"), `unexpected argument "leftover"`)
	assert.ErrorIs(t, parse("-h"), flag.ErrHelp)
}
