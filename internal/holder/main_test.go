package holder_test

import (
	"runtime/debug"
	"testing"
	"time"

	"go.uber.org/goleak"
)

const ms = time.Millisecond

func TestMain(m *testing.M) {
	debug.SetGCPercent(400) // the embedded nodes make a Lua state for each script
	goleak.VerifyTestMain(m)
}
