package overview_test

import (
	"runtime/debug"
	"testing"

	"go.uber.org/goleak"
)

func TestMain(m *testing.M) {
	debug.SetGCPercent(400) // the embedded nodes make a Lua state for each script
	goleak.VerifyTestMain(m)
}
