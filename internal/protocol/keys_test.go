package protocol_test

import (
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/redlock-go/redlock/internal/protocol"
)

func TestTicketsOfASemaphoreSayItsLimitAndHowManyTheyWant(t *testing.T) {
	const before = "0000000000000001-ABCDEFGHIJKLMNOP-0000000001"
	for ticket, want := range map[string][2]int{
		before + protocol.PermitsSuffix(3, 2): {3, 2}, before + protocol.PermitsSuffix(256, 256): {256, 256},
		before + "*2": {0, 2}, // of an earlier version
		before:        {}, before + "r": {}, before + "+": {}, before + "/3": {}, before + "/x*1": {0, 1}, before + "/99999*1": {0, 1}, before + "/-3*1": {0, 1},
	} {
		require.Equal(t, want, [2]int{protocol.LimitOf(ticket), protocol.PermitsOf(ticket)}, ticket)
	}
}
