package servers

import (
	"bytes"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/assert"
	"github.com/stretchr/testify/require"

	"github.com/redlock-go/redlock"
	"github.com/redlock-go/redlock/redlocktest"
)

func TestNodesAreEmbeddedUnlessTheVariableNamesOthers(t *testing.T) {
	t.Setenv(Variable, "")
	var out bytes.Buffer
	embedded, err := Start(&out, 3)
	require.NoError(t, err)
	defer embedded.Close()
	assert.Contains(t, out.String(), "3 nodes embedded")
	assert.Len(t, embedded.urls, 3)

	theirs := redlocktest.Start(t, 3)
	t.Setenv(Variable, strings.Join(theirs.URLs(), ","))
	out.Reset()
	real, err := Start(&out, 5)
	require.NoError(t, err)
	defer real.Close()
	assert.Contains(t, out.String(), "the 3 servers of REDLOCK_NODES")
	assert.Equal(t, theirs.URLs(), real.urls)

	// Those are not trusted never to forget: they vote after one guard.
	began := time.Now()
	client, err := real.Client(t.Context(), "me", redlock.WithTTL(2*time.Second))
	require.NoError(t, err)
	defer client.Close()
	assert.GreaterOrEqual(t, time.Since(began), 1900*time.Millisecond)
}
