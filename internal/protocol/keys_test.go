package protocol_test

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"github.com/redlock-go/redlock/internal/protocol"
)

func TestLabelFollowsTheRandomPartOfAnOwner(t *testing.T) {
	const random = "ABCDEFGHIJKLMNOPQRSTUVWX27"
	for _, label := range []string{"", "web-1:4711", "a@b", "@", "héllo"} {
		require.Equal(t, label, protocol.LabelOf(protocol.Owner(random, label)))
	}
	require.Equal(t, random, protocol.Owner(random, ""), "no label, no separator")
}

func TestOwnerThatIsToBeToldHasALabelAsAnyOther(t *testing.T) {
	const random, client = "ABCDEFGHIJKLMNOPQRSTUVWX27", "ABCDEFGHIJKLMN27"
	for _, label := range []string{"", "web-1:4711", "a@b", "@", "!", random + "!" + client, "héllo"} {
		plain, told := protocol.Owner(random, label), protocol.WantedOwner(random, client, label)
		require.Equal(t, label, protocol.LabelOf(told))
		require.Equal(t, random, protocol.RandomPart(told))
		require.True(t, protocol.IsToBeTold(told))
		require.False(t, protocol.IsToBeTold(plain), plain)
	}
}

func TestValuesOfOtherProgramsHaveNoLabel(t *testing.T) {
	for _, value := range []string{
		"", "@", "me@example.com", strings.Repeat("A", 25) + "@me", strings.Repeat("A", 27) + "@me",
		strings.Repeat("@", 27) + "me", strings.Repeat("A", 25) + "-@me", protocol.Shared, protocol.Reservation + "00017000@x",
		strings.Repeat("A", 26) + "!", strings.Repeat("A", 26) + "!@me", strings.Repeat("A", 26) + "!" + strings.Repeat("A", 15) + "@me",
		strings.Repeat("A", 26) + "!" + strings.Repeat("A", 17) + "@me", strings.Repeat("-", 26) + "!" + strings.Repeat("A", 16),
		strings.Repeat("A", 26) + "!" + strings.Repeat("-", 16),
	} {
		require.Empty(t, protocol.LabelOf(value), "%q", value)
		require.False(t, protocol.IsToBeTold(value), "%q", value)
	}
}

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
