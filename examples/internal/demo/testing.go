package demo

import (
	"bytes"
	"context"
	"os"
	"strings"
	"sync"
	"testing"

	"github.com/redlock-go/redlock/redlocktest"
)

// asProgram, in the environment, makes a test binary the example itself.
const asProgram = "REDLOCK_EXAMPLE_TEST_IS_PROGRAM"

// TestMain runs the tests of an example whose processes start this binary again.
func TestMain(m *testing.M, main func()) {
	if os.Getenv(asProgram) != "" {
		main()
		return
	}
	os.Setenv(asProgram, "1")
	os.Exit(m.Run())
}

// New makes a demo for a test, and returns what it will print.
func New(t testing.TB, args ...string) (*Demo, *Output) {
	out := new(Output)
	d := &Demo{Args: args, In: strings.NewReader(""), Out: out, Log: out}
	t.Cleanup(d.close)
	return d, out
}

// Run runs an example in a test, and returns what it has printed.
func Run(t testing.TB, run func(context.Context, *Demo) error, args ...string) string {
	t.Helper()
	d, out := New(t, args...)
	if err := run(t.Context(), d); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	return out.String()
}

// Nodes returns the demo's embedded nodes, which it starts for a test.
func (d *Demo) Nodes(t testing.TB) *redlocktest.Nodes {
	t.Helper()
	if err := d.start(); err != nil {
		t.Fatal(err)
	}
	return d.nodes
}

// Output is what a demo has printed so far.
type Output struct {
	mu     sync.Mutex
	buffer bytes.Buffer
}

func (o *Output) Write(p []byte) (int, error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.buffer.Write(p)
}

func (o *Output) String() string {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.buffer.String()
}
