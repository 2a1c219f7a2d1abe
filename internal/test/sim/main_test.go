package sim

import (
	"runtime/debug"
	"testing"

	"go.uber.org/goleak"
)

func TestMain(m *testing.M) {
	debug.SetGCPercent(400) // the simulated nodes make a Lua state for each script
	goleak.VerifyTestMain(m)
}
