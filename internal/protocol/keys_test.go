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
