package node

import (
	"context"
	"testing"
	"time"

	"github.com/gomodule/redigo/redis"
	"github.com/stretchr/testify/require"
)

// panicking is a pool whose reader panics while it logs in.
type panicking struct{}

func (panicking) GetContext(context.Context) (redis.Conn, error) {
	panic("makeslice: len out of range")
}

func TestPoolThatPanicsIsANodeThatIsDown(t *testing.T) {
	_, err := dial(t.Context(), panicking{}, time.Second, func() {})
	require.ErrorContains(t, err, "the pool (node.panicking) panics: makeslice")
}
